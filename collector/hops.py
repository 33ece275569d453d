"""Offsets between exporters' clocks, from packets that two of them sampled.

A packet is known by its connection and sequence number. Where two exporters sampled the same one,
the difference of their timestamps is that of their clocks, and the microseconds between the hops.
The medians over pairs of exporters are made one scale by weighted least squares over the graph of
exporters; where it stands is set by the median exporter, as no delay tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from collector.keys import KeyTable
from collector.schema import I32, I64, U64, FlowBatch, HeaderState, TimeBasis, Transport

# Packets that are remembered: some seconds of a busy fabric, as samples come up to one late.
_SLOTS: Final = 1 << 18
# PSNs of a connection at 400 Gb/s and 4 KiB come again after 1.4 s; a packet is never so late.
_NEAR_NS: Final = 500_000_000
# Seen again where it was seen: sent anew, unless it is its way in and out of one switch.
_INSIDE_NS: Final = 1_000_000
MOST_PAIRS: Final = 1 << 12
_KEPT: Final = 64  # newest differences of a pair
LEAST: Final = 5  # of them, or the median says nothing
_MOST_JOINED: Final = 1 << 10  # exporters in one scale: the inverse is dense
_FLOOR_NS: Final = 1_000.0  # what a packet takes from one switch to the next is not known better
_PER_MAD: Final = 1.4826  # standard deviation per median absolute deviation, of a normal one
_OF_MEDIAN: Final = 1.2533  # standard error of a median over that of a mean
# Exporters are set right where they are off by more than iteration ends can be placed by, and only
# where that is sure.
CORRECTED_NS: Final = 1_000_000.0
_SURE: Final = 4.0  # standard errors
_NEWS: Final = 1024
_ACK: Final = 0x11
_CNP: Final = 0x81


@dataclass(frozen=True, slots=True)
class Scale:
    """Offsets against the median exporter; columns of shape (exporters,).

    Attributes
    ----------
    offset_ns, error_ns : float64
        Of each clock, with its standard error; NaN where nothing ties it to others.
    matches, peers : int64
        Packets and other exporters that say so.
    """

    offset_ns: NDArray[np.float64]
    error_ns: NDArray[np.float64]
    matches: I64
    peers: I64

    @classmethod
    def unknown(cls, exporters: int) -> Scale:
        """Nothing is known of any of them."""
        nothing = np.full(exporters, np.nan)
        none = np.zeros(exporters, np.int64)
        return cls(nothing, nothing.copy(), none, none.copy())


@njit(cache=True)
def _mixed(value: np.uint64, more: np.uint64) -> np.uint64:
    value = (value ^ more) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return value ^ (value >> np.uint64(29))


@njit(cache=True)
def _match(
    rows: I64,
    exporter: I32,
    time_ns: I64,
    columns: tuple[U64, ...],
    keys: U64,
    owners: I32,
    times: I64,
    first: I64,
    second: I64,
    apart_ns: I64,
) -> int:
    """Fill pairs (first, second) of exporters and the first's time less the second's."""
    found = 0
    mask = np.uint64(len(keys) - 1)
    src_hi, src_lo, dst_hi, dst_lo, flow, number = columns
    for row in rows:
        key = _mixed(_mixed(np.uint64(1), src_hi[row]), src_lo[row])
        key = _mixed(_mixed(key, dst_hi[row]), dst_lo[row])
        key = _mixed(_mixed(key, flow[row]), number[row])
        slot = (key ^ (key >> np.uint64(32))) & mask
        apart = time_ns[row] - times[slot]
        if keys[slot] != key or abs(apart) > _NEAR_NS:
            keys[slot] = key
            owners[slot] = exporter[row]
            times[slot] = time_ns[row]
        elif owners[slot] == exporter[row]:
            if abs(apart) > _INSIDE_NS:
                owners[slot] = -1
        elif owners[slot] >= 0:
            first[found] = exporter[row]
            second[found] = owners[slot]
            apart_ns[found] = apart
            found += 1
    return found


@njit(cache=True)
def _keep(
    pair: I64, apart_ns: I64, flipped: NDArray[np.bool_], kept: NDArray[np.float64], seen: I64
) -> None:
    for row in range(len(pair)):
        p = pair[row]
        if p < len(seen):
            kept[p, seen[p] % kept.shape[1]] = -apart_ns[row] if flipped[row] else apart_ns[row]
            seen[p] += 1


class Hops:
    """Finds packets that several exporters sampled, over any number of batches."""

    def __init__(self) -> None:
        self._keys: U64 = np.zeros(0, np.uint64)
        self._owners: I32 = np.zeros(0, np.int32)
        self._times: I64 = np.zeros(0, np.int64)
        self._pairs = KeyTable(MOST_PAIRS)
        self._kept = np.zeros((0, _KEPT))
        self._seen: I64 = np.zeros(0, np.int64)
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
        roce = (flows.transport == Transport.ROCEV2) & ~np.isin(flows.opcode, (_ACK, _CNP))
        segment = (flows.transport == Transport.TCP) & (flows.payload_bytes > 0)
        rows = np.flatnonzero(
            (flows.time_basis != TimeBasis.ARRIVAL)
            & (flows.header_state == HeaderState.COMPLETE)
            & (roce | segment | (flows.transport == Transport.UET))
        )
        if not len(rows):
            return
        if not len(self._keys):
            self._keys = np.zeros(_SLOTS, np.uint64)
            self._owners = np.full(_SLOTS, -1, np.int32)
            self._times = np.zeros(_SLOTS, np.int64)
        ports = flows.src_port.astype(np.uint64) << np.uint64(16) | flows.dst_port
        columns = (
            *(flows.src_hi, flows.src_lo, flows.dst_hi, flows.dst_lo),
            ports << np.uint64(32) | flows.dest_qp,
            flows.seq.astype(np.uint64) << np.uint64(8) | flows.opcode,
        )
        time_ns = flows.time_ns
        if self._correction.any():
            off = self.correction(int(flows.exporter.max()) + 1)
            time_ns = time_ns + np.where(
                flows.time_basis == TimeBasis.ARRIVAL, 0, off[flows.exporter]
            )
        first, second, apart_ns = (np.empty(len(rows), np.int64) for _ in range(3))
        found = _match(
            rows,
            flows.exporter,
            time_ns,
            columns,
            self._keys,
            self._owners,
            self._times,
            first,
            second,
            apart_ns,
        )
        if found:
            self._pair(first[:found], second[:found], apart_ns[:found])

    def _pair(self, first: I64, second: I64, apart_ns: I64) -> None:
        low, high = np.minimum(first, second), np.maximum(first, second)
        nothing = np.zeros(len(first), np.uint64)
        pair = self._pairs.number(low.astype(np.uint64), high.astype(np.uint64), nothing)
        more = len(self._pairs) - len(self._seen)
        if more > 0:
            self._kept = np.concatenate((self._kept, np.zeros((more, _KEPT))))
            self._seen = np.concatenate((self._seen, np.zeros(more, np.int64)))
        _keep(pair, apart_ns, first > second, self._kept, self._seen)
        self._total += len(first)

    def scale(self, exporters: int, nearness: NDArray[np.float64]) -> Scale:
        """What the packets found so far say; worked out anew as many more were found.

        Parameters
        ----------
        exporters
            How many there are by now.
        nearness : float64, shape (exporters,)
            How far each clock seems to be off by other means, ns: of two exporters alone the nearer
            one is taken to be right.
        """
        news = self._total - self._solved
        if news >= min(max(self._solved // 8, 1), _NEWS):
            self._scale = self._solve(exporters, nearness)
            self._solved = self._total
            self._correct(exporters)
        if exporters > len(self._scale.offset_ns):
            self._scale = _widened(self._scale, exporters)
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

    def _solve(self, exporters: int, nearness: NDArray[np.float64]) -> Scale:
        usable = np.flatnonzero(self._seen >= LEAST)
        if not len(usable):
            return Scale.unknown(exporters)
        ends = self._pairs.keys[usable, :2].astype(np.int64)
        apart, error = self._medians(usable)
        scale = Scale.unknown(exporters)
        for end in ends.T:
            np.add.at(scale.matches, end, self._seen[usable])
            np.add.at(scale.peers, end, 1)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (exporters, exporters))
        count, component = connected_components(graph, directed=False)
        sizes = np.bincount(component, minlength=count)
        for number in np.flatnonzero((sizes > 1) & (sizes <= _MOST_JOINED)):
            members = np.flatnonzero(component == number)
            own = component[ends[:, 0]] == number
            offset, spread = _least_squares(
                np.searchsorted(members, ends[own]), apart[own], error[own], len(members)
            )
            zero = np.median(offset)
            if len(members) == 2:
                zero = offset[np.argmin(nearness[members])]
            scale.offset_ns[members] = offset - zero
            scale.error_ns[members] = spread
        return scale

    def _medians(self, pairs: I64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Median difference of each pair, and its standard error, ns."""
        kept = self._kept[pairs].copy()
        count = np.minimum(self._seen[pairs], _KEPT)
        kept[np.arange(_KEPT) >= count[:, None]] = np.nan
        median = np.nanmedian(kept, axis=1)
        spread = _PER_MAD * np.nanmedian(np.abs(kept - median[:, None]), axis=1)
        return median, np.maximum(_OF_MEDIAN * spread / np.sqrt(count), _FLOOR_NS)


def _least_squares(
    ends: I64, apart: NDArray[np.float64], error: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offsets of mean zero that fit the differences best, and their standard errors."""
    weight = error**-2
    laplacian = np.zeros((size, size))
    for a, b in ((0, 1), (1, 0)):
        np.add.at(laplacian, (ends[:, a], ends[:, b]), -weight)
        np.add.at(laplacian, (ends[:, a], ends[:, a]), weight)
    right = np.zeros(size)
    np.add.at(right, ends[:, 0], weight * apart)
    np.add.at(right, ends[:, 1], -weight * apart)
    # The pseudo-inverse of a connected graph's Laplacian: what is constant is not told.
    level = np.full((size, size), weight.mean() / size)
    inverse = np.linalg.inv(laplacian + level) - np.full((size, size), 1 / (weight.mean() * size))
    return inverse @ right, np.sqrt(np.maximum(np.diag(inverse), 0.0))


def _widened(scale: Scale, exporters: int) -> Scale:
    more = Scale.unknown(exporters - len(scale.offset_ns))
    return Scale(
        np.concatenate((scale.offset_ns, more.offset_ns)),
        np.concatenate((scale.error_ns, more.error_ns)),
        np.concatenate((scale.matches, more.matches)),
        np.concatenate((scale.peers, more.peers)),
    )
