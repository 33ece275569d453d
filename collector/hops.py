"""Offsets between exporters' clocks, from connections that two of them sampled.

A connection numbers its packets, so of two samples of it the one with the higher number was taken
later, whichever exporters took them. What their timestamps say bounds the offset between the two
clocks, from above or from below by which was first; the same packet at both bounds it from both
sides. Retransmissions give wrong bounds, so that offset is taken which most bounds allow
(Marzullo's algorithm; Marzullo, Owicki 1983). `collector.scale` makes one scale of the
offsets over pairs of exporters.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import taken
from collector.keys import KeyTable
from collector.scale import Scale, one_scale
from collector.schema import (
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    FlowBatch,
    HeaderState,
    TimeBasis,
    Transport,
)

# In half of the time in which PSNs of a connection at 400 Gb/s and 4 KiB come again, with room:
# numbers are compared within it, modulo their width.
_BUCKET_NS: Final = 500_000_000
_SPAN_NS: Final = 4_000_000_000  # samples come up to a second late: so many are looked at together
_MOST_ROWS: Final = 1 << 17  # that wait
# Most connections pass one exporter and need not wait; two in one slot wait for nothing.
_CONNECTIONS: Final = 1 << 18
_NOBODY: Final = -1
_SEVERAL: Final = -2
_MOST_PER_S: Final = 1 << 15  # rows a second that are looked at: of some connections all
MOST_PAIRS: Final = 1 << 12
_KEPT: Final = 256  # newest bounds of a pair, on either side
LEAST: Final = 3  # on either side, or they say nothing
_FLOOR_NS: Final = 2_000.0  # what a packet takes from one switch to the next is not known better
# Exporters are set right where they are off by more than iteration ends can be placed by, and only
# where that is sure.
CORRECTED_NS: Final = 1_000_000.0
_SURE: Final = 4.0  # standard errors
_NEWS: Final = 1024
_ACK: Final = 0x11
_CNP: Final = 0x81


class _Rows(NamedTuple):
    """Samples that wait; columns of shape (n,)."""

    key: U64  # of the connection
    number: I64  # in it
    wide: U8  # its numbers have 32 bits, not 24
    time_ns: I64
    exporter: I64


@njit(cache=True, nogil=True)
def _mixed(value: np.uint64, more: np.uint64) -> np.uint64:
    value = (value ^ more) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return value ^ (value >> np.uint64(29))


class _Samples(NamedTuple):
    """The columns of `FlowBatch` that are read."""

    time_ns: I64
    time_basis: U8
    exporter: I32
    header_state: U8
    transport: U8
    opcode: U8
    payload_bytes: U32
    src_hi: U64
    src_lo: U64
    dst_hi: U64
    dst_lo: U64
    src_port: U16
    dst_port: U16
    dest_qp: U32
    seq: U32


@njit(cache=True, nogil=True)
def _select(
    flows: _Samples, start: int, correction: I64, owners: I32, out: _Rows, found: int
) -> tuple[int, int]:
    """Add data of connections that several exporters stamped to the `found` rows of `out`.

    Returns
    -------
    int, int
        Which row is next, and how many there are now; `out` may be full before all are added.
    """
    for row in range(start, len(flows.time_ns)):
        if found == len(out.key):
            return row, found
        if flows.time_basis[row] == TimeBasis.ARRIVAL:
            continue
        if flows.header_state[row] != HeaderState.COMPLETE:
            continue
        tcp = flows.transport[row] == Transport.TCP
        if tcp:
            if not flows.payload_bytes[row]:
                continue
            ends = np.uint64(flows.src_port[row]) << np.uint64(16) | np.uint64(flows.dst_port[row])
        else:
            opcode = flows.opcode[row]
            if flows.transport[row] != Transport.ROCEV2 or opcode in (_ACK, _CNP):
                continue
            # Answers to reads count with the other side's numbers.
            answer = np.uint64(0x0D <= opcode & 0x1F <= 0x10)
            ends = np.uint64(flows.dest_qp[row]) | (np.uint64(2) | answer) << np.uint64(32)
        key = _mixed(_mixed(np.uint64(1), flows.src_hi[row]), flows.src_lo[row])
        key = _mixed(_mixed(key, flows.dst_hi[row]), flows.dst_lo[row])
        key = _mixed(key, ends)
        e = np.int64(flows.exporter[row])
        slot = (key ^ (key >> np.uint64(32))) & np.uint64(len(owners) - 1)
        if owners[slot] != _SEVERAL:
            if owners[slot] == _NOBODY or owners[slot] == e:
                owners[slot] = e
                continue
            owners[slot] = _SEVERAL
        out.key[found] = key
        out.number[found] = np.int64(flows.seq[row])
        out.wide[found] = tcp
        # Times as the exporter told them, so that what is concluded does not lead to itself.
        out.time_ns[found] = flows.time_ns[row] + (correction[e] if e < len(correction) else 0)
        out.exporter[found] = e
        found += 1
    return len(flows.time_ns), found


@njit(cache=True, nogil=True)
def _bounds(group: U64, rows: _Rows, low: I64, high: I64, bound_ns: I64, upper: U8) -> int:
    """Bounds on the clock of exporter `high` less that of `low`, from rows sorted by group."""
    found = 0
    start = 0
    for row in range(1, len(group) + 1):
        if row < len(group) and group[row] == group[start]:
            continue
        begin, start = start, row
        several = False
        for other in range(begin + 1, row):
            several |= rows.exporter[other] != rows.exporter[begin]
        if not several:
            continue
        half = np.int64(1) << (31 if rows.wide[begin] else 23)
        ahead = (rows.number[begin:row] - rows.number[begin] + half) % (2 * half) - half
        order = np.argsort(ahead, kind="mergesort")
        for nth in range(len(order) - 1):
            i, j = order[nth], order[nth + 1]
            first, second = rows.exporter[begin + i], rows.exporter[begin + j]
            if first == second:
                continue
            apart = rows.time_ns[begin + j] - rows.time_ns[begin + i]
            for same in range(2 if ahead[i] == ahead[j] else 1):
                low[found] = min(first, second)
                high[found] = max(first, second)
                bound_ns[found] = apart if first < second else -apart
                upper[found] = (first < second) != (same == 1)
                found += 1
    return found


@njit(cache=True, nogil=True)
def _keep(
    pair: I64,
    bound_ns: I64,
    upper: U8,
    kept: NDArray[np.float64],
    seen: I64,
) -> None:
    for row in range(len(pair)):
        p = pair[row]
        if p < len(seen):
            side = upper[row]
            kept[p, side, seen[p, side] % kept.shape[2]] = bound_ns[row]
            seen[p, side] += 1


@njit(cache=True, nogil=True)
def _most_allowed(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[float, float]:
    """The interval that most one-sided bounds allow."""
    lower, upper = np.sort(lower), np.sort(upper)
    best = len(upper)  # below all lower bounds
    low = high = upper[0]
    below = 0  # upper bounds that the interval from lower[i] on breaks
    for i in range(len(lower)):
        while below < len(upper) and upper[below] < lower[i]:
            below += 1
        allowed = i + 1 + len(upper) - below
        if allowed > best:
            best = allowed
            low = lower[i]
            high = upper[below] if below < len(upper) else low
    return low, high


class Hops:
    """Bounds the offsets between exporters' clocks, over any number of batches."""

    def __init__(self) -> None:
        self._owners = np.full(_CONNECTIONS, _NOBODY, np.int32)
        self._waiting = _rows(0)
        self._waiting_rows = self._looked_rows = 0
        self._pairs = KeyTable(MOST_PAIRS)
        self._kept = np.zeros((0, 2, _KEPT))  # lower and upper bounds
        self._seen: I64 = np.zeros((0, 2), np.int64)
        self._total = self._solved = 0
        self._scale = Scale.unknown(0)
        self._correction: I64 = np.zeros(0, np.int64)

    def add(self, flows: FlowBatch) -> None:
        """Take in samples; those without a time of their exporter's own say nothing.

        Parameters
        ----------
        flows
            With times that `correction` was taken off.
        """
        columns = _Samples(*(getattr(flows, name) for name in _Samples._fields))
        row, before = 0, self._waiting_rows
        while row < len(flows):
            row, self._waiting_rows = _select(
                *(columns, row, self._correction, self._owners),
                *(self._waiting, self._waiting_rows),
            )
            if row < len(flows):
                if not len(self._waiting.key):  # nobody stamped anything so far
                    self._waiting = _rows(_MOST_ROWS)
                else:
                    self.look()
        if self._waiting_rows > before:
            times = self._waiting.time_ns
            if abs(int(times[self._waiting_rows - 1]) - int(times[0])) >= _SPAN_NS:
                self.look()

    def look(self) -> None:
        """Look at the samples that wait, and forget them."""
        if not self._waiting_rows:
            return
        rows = taken(self._waiting, slice(self._waiting_rows))
        self._waiting_rows = 0
        spans = np.percentile(rows.time_ns, (5, 95))  # one absurd clock must not stretch it
        per_s = 0.9 * len(rows.key) / max((spans[1] - spans[0]) / 1e9, 1e-3)
        if per_s > _MOST_PER_S:
            some = rows.key % np.uint64(np.ceil(per_s / _MOST_PER_S)) == 0
            rows = taken(rows, some)
        bucket = (rows.time_ns // _BUCKET_NS).astype(np.uint64)
        group = rows.key ^ (bucket * np.uint64(0x9E37_79B9_7F4A_7C15))
        order = np.argsort(group)
        low, high, bound_ns = (np.empty(2 * len(group), np.int64) for _ in range(3))
        upper = np.empty(2 * len(group), np.uint8)
        found = _bounds(group[order], taken(rows, order), low, high, bound_ns, upper)
        if found:
            self._pair(low[:found], high[:found], bound_ns[:found], upper[:found])

    def _pair(self, low: I64, high: I64, bound_ns: I64, upper: U8) -> None:
        nothing = np.zeros(len(low), np.uint64)
        pair = self._pairs.number(low.astype(np.uint64), high.astype(np.uint64), nothing)
        more = len(self._pairs) - len(self._seen)
        if more > 0:
            self._kept = np.concatenate((self._kept, np.zeros((more, 2, _KEPT))))
            self._seen = np.concatenate((self._seen, np.zeros((more, 2), np.int64)))
        _keep(pair, bound_ns, upper, self._kept, self._seen)
        self._total += len(low)

    def solve_anew(self) -> None:
        """Let the next `scale` be worked out whether or not more samples have come."""
        self._solved = 0

    def scale(self, exporters: int, bounds_ns: NDArray[np.float64]) -> Scale:
        """What the samples so far say; worked out anew as many more have come.

        Parameters
        ----------
        exporters
            How many there are by now.
        bounds_ns : float64, shape (2, exporters)
            See `collector.scale.one_scale`.
        """
        if not self._total and self._waiting_rows > self._looked_rows:
            self._looked_rows = 2 * self._waiting_rows  # a short capture ends before it is time
            self.look()
        news = self._total - self._solved
        if news >= min(max(self._solved // 8, 1), _NEWS):
            self._scale = self._solve(exporters, bounds_ns)
            self._solved = self._total
            self._correct(exporters)
        if exporters > len(self._scale.offset_ns):
            self._scale = self._scale.widened(exporters)
        return self._scale

    def correction(self, exporters: int) -> I64:
        """What is to be taken off each exporter's times, ns; int64, shape (exporters,)."""
        missing = exporters - len(self._correction)
        if missing > 0:
            self._correction = np.concatenate((self._correction, np.zeros(missing, np.int64)))
        return self._correction[:exporters]

    def _correct(self, exporters: int) -> None:
        offset, error = self._scale.offset_ns, self._scale.error_ns
        kept = self.correction(exporters)
        # It stays as it is while it fits: times must not shift by what is learnt now and then.
        strays = np.abs(offset - kept) > np.maximum(CORRECTED_NS, _SURE * error)
        near = np.abs(offset) <= CORRECTED_NS
        kept[strays] = np.where(near, 0.0, offset)[strays].astype(np.int64)

    def _solve(self, exporters: int, bounds_ns: NDArray[np.float64]) -> Scale:
        usable = np.flatnonzero((self._seen >= LEAST).all(axis=1))
        if not len(usable):
            return Scale.unknown(exporters)
        ends = self._pairs.keys[usable, :2].astype(np.int64)[:, ::-1]
        apart, error = self._offsets(usable)
        return one_scale(exporters, ends, apart, error, self._seen[usable].sum(axis=1), bounds_ns)

    def _offsets(self, pairs: I64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Offset of each pair, and its standard error, ns."""
        ranges = np.array(
            [
                _most_allowed(
                    *(self._kept[p, side, : min(self._seen[p, side], _KEPT)] for side in (0, 1))
                )
                for p in pairs.tolist()
            ]
        )
        error = (ranges[:, 1] - ranges[:, 0]) / np.sqrt(12)  # anywhere in it alike
        return ranges.mean(axis=1), np.maximum(error, _FLOOR_NS)


def _rows(count: int) -> _Rows:
    return _Rows(
        key=np.empty(count, np.uint64),
        number=np.empty(count, np.int64),
        wide=np.empty(count, np.uint8),
        time_ns=np.empty(count, np.int64),
        exporter=np.empty(count, np.int64),
    )
