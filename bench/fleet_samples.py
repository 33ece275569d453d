"""The telemetry of a fleet: its leaves sample what its NICs send, and flush datagrams.

Nothing is made per packet: how many packets of a transfer a switch samples is drawn, then which.
Every sample is a copy of a template (`bench.fleet_templates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.fleet_templates import SAMPLE_BYTES, Templates
from collector.replay import Departures
from fixtures.fabric import Fabric
from fixtures.sflow_agent import DATAGRAM_BYTES, scatter
from fixtures.sflow_layout import DATAGRAM_HEADER_BYTES, datagram_headers

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

CHUNK_NS: Final = 50_000_000
FLUSH_NS: Final = 250_000_000  # a datagram that does not fill leaves after so long
MOST_SAMPLES: Final = (DATAGRAM_BYTES - DATAGRAM_HEADER_BYTES) // SAMPLE_BYTES

_SAMPLE: Final = np.dtype(
    [
        ("time_ns", "i8"),  # since the fleet's start
        ("connection", "i8"),
        ("packet", "i8"),  # since the fleet's start
        ("sequence", "i8"),
    ]
)


@dataclass(frozen=True, slots=True)
class Exporters:
    """The switches of a fleet, and what they sample.

    Attributes
    ----------
    transfers
        dtype `bench.fleet_times.TRANSFER`, sorted by start.
    connections
        dtype `fixtures.trace.CONNECTION`.
    templates
        Of the connections.
    fabric
        Names the switches and where each NIC hangs.
    rate
        One packet in so many is sampled.
    seed
        Draws the samples and the switches' counts so far.
    """

    transfers: NDArray[np.void]
    connections: NDArray[np.void]
    templates: Templates
    fabric: Fabric
    rate: int
    seed: int

    def departures(self, start_ns: int, chunks: int) -> Iterator[Departures]:
        """Datagrams in the order of their sending, at most `CHUNK_NS` of them at a time.

        Parameters
        ----------
        start_ns
            When the fleet starts, ns since the epoch; nothing else depends on it.
        """
        rng = np.random.default_rng([self.seed, 1])
        endpoints, switches = len(self.fabric.endpoints), len(self.fabric.switches)
        of_port = rng.integers(1, 5_000_000, endpoints)
        of_switch = rng.integers(1, 5_000_000, switches)
        uptime_ms = rng.integers(3_600_000, 60 * 86_400_000, switches)
        agents = np.array([int(IPv4Address(s.agent)) for s in self.fabric.switches], np.uint32)
        active = self.transfers[:0]
        waiting = np.empty(0, _SAMPLE)
        for chunk in range(chunks):
            begin_ns, end_ns = chunk * CHUNK_NS, (chunk + 1) * CHUNK_NS
            active = self._active(active, begin_ns, end_ns)
            taken = self._sample(active, begin_ns, end_ns, rng)
            taken["sequence"] = count_up(self.connections["src"][taken["connection"]], of_port)
            waiting = np.concatenate([waiting, taken])
            switch = self.fabric.home[self.connections["src"][waiting["connection"]]]
            datagram, due_ns, number = flush(
                switch, waiting["time_ns"].copy(), end_ns, of_switch, MOST_SAMPLES, FLUSH_NS
            )
            sent = np.flatnonzero(due_ns >= 0)
            sent = sent[np.argsort(due_ns[sent], kind="stable")]
            rank = np.full(len(due_ns), -1)
            rank[sent] = np.arange(len(sent))
            place = rank[datagram]
            leaving = np.flatnonzero(place >= 0)
            leaving = leaving[np.argsort(place[leaving], kind="stable")]
            held = np.bincount(place[leaving], minlength=len(sent))
            owner = np.empty(len(due_ns), np.int64)
            owner[datagram] = switch
            owner = owner[sent]
            if len(sent):
                heads = datagram_headers(
                    agents[owner],
                    number[sent],
                    uptime_ms[owner] + due_ns[sent] // 1_000_000,
                    held,
                )
                samples = self._encode(waiting[leaving], start_ns)
                yield _departures(heads, samples, place[leaving], held, start_ns + due_ns[sent])
            waiting = waiting[place < 0]

    def _active(self, before: NDArray[np.void], begin_ns: int, end_ns: int) -> NDArray[np.void]:
        """Transfers that are on the wire between two moments."""
        starts = self.transfers["start_s"]
        low = np.searchsorted(starts, begin_ns / 1e9) if begin_ns else 0
        new = self.transfers[low : np.searchsorted(starts, end_ns / 1e9)]
        both = np.concatenate([before, new])
        return both[both["end_s"] > begin_ns / 1e9]

    def _sample(
        self, active: NDArray[np.void], begin_ns: int, end_ns: int, rng: np.random.Generator
    ) -> NDArray[np.void]:
        """Each packet with probability 1 / rate, by time.

        Packet i of n leaves when (i + 1) / n of its transfer's time are over.
        """
        span_s = active["end_s"] - active["start_s"]
        low, high = (
            (np.clip((at_ns / 1e9 - active["start_s"]) / span_s, 0, 1) * active["packets"]).astype(
                np.int64
            )
            for at_ns in (begin_ns, end_ns)
        )
        count = rng.binomial(high - low, 1 / self.rate)
        row = np.repeat(np.arange(len(active)), count)
        index = low[row] + (rng.random(len(row)) * (high - low)[row]).astype(np.int64)
        time_s = active["start_s"][row] + span_s[row] * ((index + 1) / active["packets"][row])
        samples = np.empty(len(row), _SAMPLE)
        samples["time_ns"] = np.clip((time_s * 1e9).astype(np.int64), begin_ns, end_ns)
        samples["connection"] = active["connection"][row]
        samples["packet"] = active["before"][row] + index
        return samples[np.argsort(samples["time_ns"], kind="stable")]

    def _encode(self, samples: NDArray[np.void], start_ns: int) -> U8:
        """Bytes of samples, one a row.

        The pool is host-sflow's estimate: the rate, for every sample so far (readPackets.c).
        """
        connection, packet = samples["connection"], samples["packet"]
        psn = self.connections["first_seq"][connection].astype(np.int64) + packet
        numbers = (
            samples["sequence"],
            samples["sequence"] * self.rate,
            start_ns + samples["time_ns"],
        )
        return self.templates.fill(connection, packet, psn, numbers)


def _departures(heads: U8, samples: U8, datagram: I64, held: I64, due_ns: I64) -> Departures:
    """Datagrams back to back: a head, then the samples that it holds."""
    length = DATAGRAM_HEADER_BYTES + SAMPLE_BYTES * held
    offset = np.cumsum(length) - length
    buffer = np.empty(int(length.sum()), np.uint8)
    scatter(heads, np.full(len(heads), DATAGRAM_HEADER_BYTES), offset, buffer)
    starts = SAMPLE_BYTES * np.arange(len(samples)) + DATAGRAM_HEADER_BYTES * (datagram + 1)
    scatter(samples, np.full(len(samples), SAMPLE_BYTES), starts, buffer)
    return Departures(buffer, offset, length, due_ns)


@njit(cache=True)
def count_up(key: NDArray[np.int32], last: I64) -> I64:
    """Next number of each row's key; `last` holds the last one given out, and moves on."""
    number = np.empty(len(key), np.int64)
    for i in range(len(key)):
        last[key[i]] += 1
        number[i] = last[key[i]]
    return number


@njit(cache=True)
def flush(
    switch: NDArray[np.int32], time_ns: I64, until_ns: int, last: I64, most: int, wait_ns: int
) -> tuple[I64, I64, I64]:
    """Fill datagrams with samples, switch by switch in order of time.

    Parameters
    ----------
    switch, time_ns
        int (n,), of each sample; the time never falls.
    until_ns
        Datagrams that would leave later than this are left open.
    last
        int64 (switches,), number of the last datagram of each; moves on.
    most, wait_ns
        A datagram leaves with so many samples, or so long after its first.

    Returns
    -------
    datagram : int64 (n,), of each sample
    due_ns : int64 (datagrams,), when it leaves; -1 for one left open
    number : int64 (datagrams,), its sequence number; -1 for one left open
    """
    datagram = np.empty(len(switch), np.int64)
    due_ns = np.full(len(switch), -1, np.int64)
    number = np.full(len(switch), -1, np.int64)
    since_ns = np.empty(len(switch), np.int64)
    held = np.zeros(len(switch), np.int64)
    filling = np.full(len(last), -1, np.int64)
    count = 0
    for i in range(len(switch)):
        s = switch[i]
        at = filling[s]
        if at >= 0 and time_ns[i] - since_ns[at] >= wait_ns:
            due_ns[at] = since_ns[at] + wait_ns
            last[s] += 1
            number[at] = last[s]
            at = -1
        if at < 0:
            at = count
            count += 1
            since_ns[at] = time_ns[i]
            filling[s] = at
        datagram[i] = at
        held[at] += 1
        if held[at] == most:
            due_ns[at] = time_ns[i]
            last[s] += 1
            number[at] = last[s]
            filling[s] = -1
    for s in range(len(last)):
        at = filling[s]
        if at >= 0 and since_ns[at] + wait_ns <= until_ns:
            due_ns[at] = since_ns[at] + wait_ns
            last[s] += 1
            number[at] = last[s]
    return datagram, due_ns[:count].copy(), number[:count].copy()
