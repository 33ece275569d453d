"""Exporters' clocks against ours: how far their timestamps are off, and what to do about it.

A datagram bounds the offset of its exporter's clock from both sides. Its samples were taken before
it arrived, so the clock is ahead by no less than (newest stamp - arrival); and they were taken
after the exporter sent the datagram before, so it is ahead by no more than (oldest stamp - arrival
of that one). The intervals of successive datagrams are intersected, and the intersection widens
between them by what a clock may drift: set-membership estimation, which assumes nothing of delays
but that they are not negative.

An offset that no network's delay explains is taken off: stamps of a clock that is wrong by minutes
still say, to the microsecond, how far apart two packets were. Smaller ones are left to
`collector.hops`, which no delay can deceive.

The agents' uptime is no such clock: host-sflow sets it when it wakes up and Open vSwitch once a
second, not when they send. It tells restarts, and how evenly datagrams arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.schema import I64, U8, U64, TimeBasis

_MS: Final = 1_000_000
# No network keeps datagrams for so long, so an offset beyond it is a clock's.
CORRECTED_NS: Final = 500 * _MS
# But none delivers what was not sent yet: a clock that runs before ours by more than this is wrong.
AHEAD_NS: Final = 20 * _MS
# An exporter's clock may be wrong by a time zone or run from its own start; a stamp that differs
# from its arrival by more than this, and fits no measured offset, says nothing.
BELIEVED_NS: Final = 3_600_000 * _MS
SURE_DATAGRAMS: Final = 5  # that agree, before an offset is used
_STEP_DATAGRAMS: Final = 4  # in a row that do not: the clock was set
# What waits somewhere looks like a clock that was set back, so that is believed only after a time
# that no datagram waits, with none in between that came as before.
_WAITED_NS: Final = 60_000 * _MS
# What a datagram may wait in queues, which puts the bound that the next one gives too low.
_DELAY_NS: Final = 50 * _MS
# The fastest that Linux and the BSDs slew a clock; free-running crystals drift by a tenth of it.
_DRIFT_NS_PER_MS: Final = 500
_LONGEST_MS: Final = 86_400_000
_OLD_NS: Final = 1_500 * _MS  # a sample waits for a second, its datagram for less
_UNSET: Final = np.iinfo(np.int64).min
_LATEST: Final = 1 << 62  # in the year 2116; stamps beyond it are none


class _State(NamedTuple):
    """One row per exporter; times and offsets in ns."""

    low: I64  # the offset is no less
    high: I64
    at: I64  # arrival of the last datagram that was taken in
    agreed: I64  # datagrams
    strayed: I64  # datagrams in a row
    strayed_at: I64  # arrival of the first of them
    correction: I64  # taken off its stamps
    steps: I64
    anchor_low: I64  # the offset's bounds when they were first sure
    anchor_high: I64
    anchor_at: I64


@dataclass(frozen=True, slots=True)
class Times:
    """When samples were taken; columns of shape (samples,).

    Attributes
    ----------
    time_ns, time_min_ns : int64
        Bounds, ns since the epoch; equal where the exporter's stamp is taken as it is.
    basis : uint8
        `TimeBasis`.
    absurd : bool
        It has a stamp, which is not believed.
    """

    time_ns: I64
    time_min_ns: I64
    basis: U8
    absurd: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Offset:
    """What the stamps of one exporter say of its clock against ours.

    Attributes
    ----------
    low_ns, high_ns
        Its offset lies between them: positive is ahead.
    datagrams
        How many agree.
    correction_ns
        What is taken off its stamps.
    skew_ppm
        How much faster than ours it runs; None = not known to 100 ppm.
    """

    low_ns: int
    high_ns: int
    datagrams: int
    correction_ns: int
    skew_ppm: float | None


@njit(cache=True, nogil=True)
def _span(datagram: I64, stamp_ns: U64, oldest: I64, newest: I64) -> None:
    """Oldest and newest stamp of each datagram."""
    for row in range(len(datagram)):
        stamp = np.int64(stamp_ns[row])
        d = datagram[row]
        if 0 < stamp < _LATEST:
            if oldest[d] == 0 or stamp < oldest[d]:
                oldest[d] = stamp
            newest[d] = max(newest[d], stamp)


@njit(cache=True, nogil=True)
def _was_set(e: int, back: bool, arrival_ns: int, state: _State) -> bool:
    """Whether so many datagrams that do not agree, with this one, are a clock that was set."""
    if not state.strayed[e]:
        state.strayed_at[e] = arrival_ns
    state.strayed[e] += 1
    waited = arrival_ns - state.strayed_at[e] >= _WAITED_NS
    return state.strayed[e] >= _STEP_DATAGRAMS and (waited or not back)


@njit(cache=True, nogil=True)
def _take(e: int, low: int, high: int, arrival_ns: int, state: _State) -> None:
    """Take in the bounds that one datagram gives."""
    passed_ms = min(max(arrival_ns - state.at[e], 0) // 1_000_000, _LONGEST_MS)
    drift = passed_ms * _DRIFT_NS_PER_MS
    state.at[e] = max(arrival_ns, state.at[e])
    before_low = state.low[e] - drift
    before_high = state.high[e] + drift
    if state.agreed[e] and low <= before_high + _DELAY_NS and high >= before_low - _DELAY_NS:
        # The lower bound stands whatever the delay; the upper one may be too low by it.
        state.low[e] = max(low, before_low)
        state.high[e] = max(min(high, before_high), state.low[e])
        state.agreed[e] += 1
        state.strayed[e] = 0
    elif state.agreed[e] and not _was_set(e, high < before_low, arrival_ns, state):
        state.low[e], state.high[e] = before_low, before_high
        return
    else:
        state.steps[e] += state.agreed[e] >= SURE_DATAGRAMS
        state.low[e], state.high[e] = low, high
        state.agreed[e] = 1
        state.strayed[e] = 0
    if state.agreed[e] == SURE_DATAGRAMS:
        state.anchor_low[e] = state.low[e]
        state.anchor_high[e] = state.high[e]
        state.anchor_at[e] = arrival_ns
    if state.agreed[e] >= SURE_DATAGRAMS:
        behind = _DELAY_NS if state.correction[e] else CORRECTED_NS
        ahead = _DELAY_NS if state.correction[e] else AHEAD_NS
        off = state.correction[e]
        # It stays as it is while it fits: times must not shift by what is learnt now and then.
        over = off > 0 and state.low[e] <= 0 and off > state.high[e] + AHEAD_NS
        if over or off < state.low[e] - ahead or off > state.high[e] + behind:
            near = state.low[e] <= AHEAD_NS and state.high[e] >= -CORRECTED_NS
            state.correction[e] = 0 if near else state.low[e]


@njit(cache=True, nogil=True)
def _follow(
    exporter: I64,
    prompt: NDArray[np.bool_],
    arrival_ns: I64,
    earliest_ns: I64,
    oldest: I64,
    newest: I64,
    state: _State,
    correction: I64,
) -> None:
    """What is to be taken off the stamps of each datagram."""
    sure = np.zeros(len(exporter), np.bool_)
    for row in range(len(exporter)):
        e = exporter[row]
        if e < 0:
            continue
        if prompt[row] and newest[row] > 0 and arrival_ns[row] > 0:
            low = newest[row] - arrival_ns[row]
            high = oldest[row] - earliest_ns[row]
            if low <= high + _DELAY_NS:  # else they contradict each other
                _take(e, low, max(low, high), arrival_ns[row], state)
        correction[row] = state.correction[e]
        sure[row] = state.agreed[e] >= SURE_DATAGRAMS and not state.strayed[e]
    # What came before an offset was sure is corrected by it too, as far as it is at hand.
    later = np.full(len(state.low), _UNSET, np.int64)
    for row in range(len(exporter) - 1, -1, -1):
        e = exporter[row]
        if e < 0 or not newest[row]:
            continue
        if sure[row]:
            later[e] = correction[row]
        elif later[e] != _UNSET:
            after = newest[row] - later[e] - arrival_ns[row]
            if -_OLD_NS <= after <= CORRECTED_NS:
                correction[row] = later[e]


@njit(cache=True, nogil=True)
def _place(
    exporter: I64,
    arrival_ns: I64,
    earliest_ns: I64,
    correction: I64,
    datagram: I64,
    stamp_ns: U64,
    state: _State,
    time_ns: I64,
    time_min_ns: I64,
    basis: U8,
    absurd: NDArray[np.bool_],
) -> None:
    for row in range(len(datagram)):
        d = datagram[row]
        stamp = np.int64(stamp_ns[row])
        came_ns, off = arrival_ns[d], correction[d]
        time_ns[row] = came_ns
        time_min_ns[row] = earliest_ns[d]
        basis[row] = TimeBasis.ARRIVAL
        if not stamp:
            continue
        if not 0 < stamp < _LATEST:
            absurd[row] = True
        elif not off or not came_ns:
            absurd[row] = came_ns != 0 and abs(stamp - came_ns) > BELIEVED_NS
            if not absurd[row]:
                time_ns[row] = time_min_ns[row] = stamp
                basis[row] = TimeBasis.EXPORTER
        elif earliest_ns[d] - CORRECTED_NS <= stamp - off <= came_ns + _DELAY_NS:
            e = exporter[d]
            time_ns[row] = stamp - off
            time_min_ns[row] = stamp - off - (state.high[e] - state.low[e])
            basis[row] = TimeBasis.INTERPOLATED


class Clocks:
    """Follows the clocks of exporters; to be used in the order of arrival."""

    def __init__(self) -> None:
        self._state = _rows(0)

    def place(
        self,
        exporters: int,
        exporter: I64,
        prompt: NDArray[np.bool_],
        arrival_ns: I64,
        earliest_ns: I64,
        datagram: I64,
        stamp_ns: U64,
    ) -> Times:
        """When the samples of a batch were taken.

        Parameters
        ----------
        exporters
            How many there are by now.
        exporter : int64, shape (datagrams,)
            -1 = none.
        prompt : bool, shape (datagrams,)
            Neither late nor a duplicate.
        arrival_ns, earliest_ns : int64, shape (datagrams,)
            When it came (0 = not known), and before when none of its samples can have been taken.
        datagram : int64, shape (samples,)
            Which datagram each sample came in.
        stamp_ns : uint64, shape (samples,)
            The exporter's time of it (record 0:1043); 0 = none.
        """
        self._grow(max(exporters, 1))
        count = len(exporter)
        if not stamp_ns.any():
            return Times(
                arrival_ns[datagram],
                earliest_ns[datagram],
                np.full(len(datagram), TimeBasis.ARRIVAL, np.uint8),
                np.zeros(len(datagram), np.bool_),
            )
        oldest, newest, off = (np.zeros(count, np.int64) for _ in range(3))
        _span(datagram, stamp_ns, oldest, newest)
        _follow(exporter, prompt, arrival_ns, earliest_ns, oldest, newest, self._state, off)
        rows = len(datagram)
        times = Times(
            time_ns=np.empty(rows, np.int64),
            time_min_ns=np.empty(rows, np.int64),
            basis=np.empty(rows, np.uint8),
            absurd=np.zeros(rows, np.bool_),
        )
        _place(
            *(exporter, arrival_ns, earliest_ns, off, datagram, stamp_ns, self._state),
            *(times.time_ns, times.time_min_ns, times.basis, times.absurd),
        )
        return times

    def corrections(self, exporters: int) -> I64:
        """What is taken off the stamps of each exporter, ns; int64, shape (exporters,)."""
        self._grow(exporters)
        return self._state.correction[:exporters]

    def steps(self, exporters: int) -> I64:
        """How often each exporter's clock was set; int64, shape (exporters,)."""
        self._grow(exporters)
        return self._state.steps[:exporters]

    def bounds_ns(self, exporters: int) -> NDArray[np.float64]:
        """How far each clock, put right, is ahead of ours at least and at most.

        Returns
        -------
        float64, shape (2, exporters)
            Infinite where it is not known.
        """
        self._grow(exporters)
        state = self._state
        bounds = np.stack((state.low[:exporters], state.high[:exporters])).astype(np.float64)
        bounds -= state.correction[:exporters]
        bounds[:, state.agreed[:exporters] < SURE_DATAGRAMS] = [[-np.inf], [np.inf]]
        return bounds

    def offset(self, exporter: int) -> Offset | None:
        """The offset of one exporter's clock; None = not sure."""
        self._grow(exporter + 1)
        state = self._state
        if state.agreed[exporter] < SURE_DATAGRAMS:
            return None
        return Offset(
            low_ns=int(state.low[exporter]),
            high_ns=int(state.high[exporter]),
            datagrams=int(state.agreed[exporter]),
            correction_ns=int(state.correction[exporter]),
            skew_ppm=_skew_ppm(state, exporter),
        )

    def _grow(self, exporters: int) -> None:
        missing = exporters - len(self._state.low)
        if missing > 0:
            self._state = joined((self._state, _rows(max(missing, len(self._state.low)))))


def _skew_ppm(state: _State, exporter: int) -> float | None:
    passed_ns = int(state.at[exporter] - state.anchor_at[exporter])
    if passed_ns <= 0:
        return None
    least = int(state.low[exporter] - state.anchor_high[exporter]) / passed_ns
    most = int(state.high[exporter] - state.anchor_low[exporter]) / passed_ns
    return (least + most) / 2 * 1e6 if (most - least) / 2 <= 100e-6 else None


def _rows(count: int) -> _State:
    return _State(*(np.zeros(count, np.int64) for _ in _State._fields))
