"""A fleet's datagrams, sent again and again: as fast as wanted, each time as new ones.

They are encoded once. What differs (sequence numbers, timestamps, PSNs) is written into them as
they leave.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.fleet import Fleet
from bench.fleet_templates import SAMPLE_BYTES
from collector.mmsg import MOST_DATAGRAMS, MessageWriter
from fixtures.packets import BTH
from fixtures.sflow_layout import DATAGRAM_HEADER_BYTES

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

SAMPLES: Final = 6  # in a datagram

_FLEET_SAMPLES_PER_S: Final = 480_000
_RING_S: Final = 0.5  # of the fleet
_TICK_S: Final = 0.001
_ROUNDS: Final = 3  # at the end, slowly: what is lost last shows by what comes after
# Places in a sample; see bench.fleet_templates.
_SAMPLE_SEQUENCE, _SOURCE, _POOL, _STAMP, _PSN = 8, 16, 24, 60, 92 + BTH + 9


class Ring(NamedTuple):
    """Datagrams of equal length, one a row, and who numbers them."""

    rows: U8
    exporter: I64  # (datagrams,)
    source: I64  # (datagrams, SAMPLES)
    sequence: I64  # by exporter: the last number given out
    sample: I64  # by source
    rate: int


def make_ring(seed: int) -> Ring:
    """A fleet's datagrams in the order of their sending."""
    fleet = Fleet(seed=seed, samples_per_s=_FLEET_SAMPLES_PER_S, duration_s=_RING_S)
    size = DATAGRAM_HEADER_BYTES + SAMPLES * SAMPLE_BYTES
    rows = []
    for chunk in fleet.departures(0):
        places = chunk.offset[chunk.length == size, None] + np.arange(size)
        rows.append(chunk.buffer[places])
    joined = np.concatenate(rows)
    agent = joined[:, 8:12].copy().view(">u4")[:, 0].astype(np.int64)
    exporters, exporter = np.unique(agent, return_inverse=True)
    at = DATAGRAM_HEADER_BYTES + SAMPLE_BYTES * np.arange(SAMPLES) + _SOURCE
    port = joined[:, at[:, None] + np.arange(4)].copy().view(">u4")[..., 0].astype(np.int64)
    sources, source = np.unique((agent[:, None] << 32) | port, return_inverse=True)
    return Ring(
        rows=joined,
        exporter=exporter.astype(np.int64),
        source=source.reshape(port.shape).astype(np.int64),
        sequence=np.zeros(len(exporters), np.int64),
        sample=np.zeros(len(sources), np.int64),
        rate=fleet.rate,
    )


@njit(cache=True)
def _put(row: U8, at: int, size: int, value: int) -> None:
    for i in range(size):
        row[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF


@njit(cache=True)
def renew(ring: Ring, begin: int, end: int, now_ns: int) -> None:
    """Make rows of a ring the next datagrams of their exporters, taken by now."""
    for n in range(begin, end):
        row = ring.rows[n]
        e = ring.exporter[n]
        ring.sequence[e] += 1
        _put(row, 16, 4, ring.sequence[e])
        _put(row, 20, 4, (now_ns // 1_000_000) & 0xFFFF_FFFF)
        for k in range(SAMPLES):
            at = DATAGRAM_HEADER_BYTES + k * SAMPLE_BYTES
            source = ring.source[n, k]
            ring.sample[source] += 1
            _put(row, at + _SAMPLE_SEQUENCE, 4, ring.sample[source])
            _put(row, at + _POOL, 4, (ring.sample[source] * ring.rate) & 0xFFFF_FFFF)
            _put(row, at + _STAMP, 8, now_ns - (SAMPLES - k) * 50_000)
            psn = (np.int64(row[at + _PSN]) << 16) | (np.int64(row[at + _PSN + 1]) << 8)
            psn |= np.int64(row[at + _PSN + 2])
            _put(row, at + _PSN, 3, int(psn + 4_001) & 0xFF_FFFF)


class Sender:
    """Sends a ring's datagrams, again and again.

    Attributes
    ----------
    sent
        Datagrams the system took.
    behind_s
        How far it was behind its schedule at the worst.
    """

    def __init__(self, ring: Ring, port: int) -> None:
        self._ring = ring
        self._at = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._writer = MessageWriter(self._socket)
        self.sent = 0
        self.behind_s = 0.0

    def send(self, per_s: float, seconds: float, each: Callable[[float], None]) -> None:
        """Send so many a second; `each` is called every tick with the time that has passed."""
        began_s = time.perf_counter()
        goal, done = round(per_s * seconds), 0
        while done < goal:
            passed_s = time.perf_counter() - began_s
            each(passed_s)
            due = min(int(passed_s * per_s) + 1, goal)
            while done < due:
                done += self._write(min(due - done, MOST_DATAGRAMS))
            now_s = time.perf_counter() - began_s
            self.behind_s = max(self.behind_s, now_s - done / per_s)
            time.sleep(_TICK_S)

    def finish(self) -> None:
        """What still tells of loss: each exporter sends on for a little."""
        time.sleep(1.0)
        for _ in range(_ROUNDS):
            for exporter in range(len(self._ring.sequence)):
                self._at = int(np.flatnonzero(self._ring.exporter == exporter)[0])
                self._write(1)
                time.sleep(0.002)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _write(self, most: int) -> int:
        rows = self._ring.rows
        if self._at == len(rows):
            self._at = 0
        end = min(self._at + most, len(rows))
        renew(self._ring, self._at, end, time.time_ns())
        size = rows.shape[1]
        offset = np.arange(self._at, end, dtype=np.int64) * size
        count, at = end - self._at, 0
        while at < count:
            at += self._writer.write(rows.ravel(), offset[at:], np.full(count - at, size))
        self._at = end
        self.sent += count
        return count
