"""A live fleet: sFlow datagrams of many training jobs, as fast as 24 switches would send them.

    python -m bench.fleet --to 127.0.0.1:6343 --seconds 60 --truth truth.json --inventory fleet.toml
    python -m bench.fleet --pcap fleet.pcap --seconds 40 --truth truth.json --inventory fleet.toml

Sends in real time and keeps its schedule; truth and inventory are written before the first
datagram leaves. With --pcap it writes a capture instead, dated 2026-01-01.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from api.cli.replay import Clock, Sender
from bench.compare import Document
from bench.fleet_jobs import NIC_GBPS, draw_job
from bench.fleet_places import RAILS, place_jobs
from bench.fleet_samples import CHUNK_NS, Exporters
from bench.fleet_templates import SAMPLE_BYTES, make_templates
from bench.fleet_times import draw_ends, draw_transfers
from bench.fleet_truth import TrueJob, document, true_job
from collector.replay import Departures
from fixtures.delivery import COLLECTOR, SFLOW_PORT
from fixtures.fabric import FabricPlan, build_fabric
from fixtures.inventory_file import inventory_text
from fixtures.pcap import ENVELOPE_BYTES, FILE_HEADER, envelopes
from fixtures.sflow_agent import scatter
from fixtures.sflow_layout import DATAGRAM_HEADER_BYTES
from fixtures.trace import WireGroup
from fixtures.workload.connections import ConnectionTable

PODS: Final = 2
SPINES: Final = 7  # with the leaves of two pods and of storage, 24 switches
RDMA_DSCP: Final = 26
CAPTURE_START_NS: Final = 1_767_225_600 * 10**9  # 2026-01-01
BEHIND_S: Final = 0.1  # later than this a datagram is behind its schedule
_LEAD_NS: Final = 2_000_000_000  # until sending begins: the truth is written before
_TICK_NS: Final = 1_000_000  # what is due within one tick leaves together


class Fleet:
    """Jobs that fill a fabric, and what its leaves tell of them.

    Parameters
    ----------
    seed
        Draws everything.
    samples_per_s
        Flow samples a second of all switches together, in the mean; it sets the sampling rate.
    jobs, nics
        How many; 8 NICs make a host.
    duration_s
        How long the fleet runs, rounded up to whole chunks of 50 ms.

    Attributes
    ----------
    truth : tuple of TrueJob
    inventory : str
        TOML.
    rate : int
        One packet in so many is sampled.
    duration_ns : int

    Raises
    ------
    ValueError
        The jobs do not fill the NICs.
    """

    def __init__(
        self,
        seed: int = 1,
        samples_per_s: float = 50_000.0,
        jobs: int = 64,
        nics: int = 800,
        duration_s: float = 600.0,
    ) -> None:
        rng = np.random.default_rng([seed, 0])
        if nics % RAILS:
            raise ValueError(f"{nics} NICs: not a multiple of {RAILS}")
        hosts = nics // RAILS
        places = place_jobs(jobs, hosts, rng)
        fabric = build_fabric(
            FabricPlan(
                hosts=hosts,
                nics=RAILS,
                nic_gbps=NIC_GBPS,
                uplink_gbps=800,
                pod_hosts=-(-hosts // PODS),
                spines=SPINES,
                parallel=4,
                storage_servers=0,
                management_servers=0,
            ),
            rng,
        )
        table = ConnectionTable(rng, RDMA_DSCP)
        groups: list[WireGroup] = []
        drawn = [draw_job(n, place, table, groups, rng) for n, place in enumerate(places)]
        flows = [flow for job in drawn for flow in job.flows]  # by connection
        connections = table.array(np.array([flow.group for flow in flows]))
        connections["first_seq"] = rng.integers(0, 1 << 24, len(flows))
        self._chunks = math.ceil(duration_s * 1e9 / CHUNK_NS)
        self.duration_ns = self._chunks * CHUNK_NS
        ends = [
            draw_ends(job, self.duration_ns / 1e9, own)
            for job, own in zip(drawn, rng.spawn(len(drawn)), strict=True)
        ]
        packets_per_s = sum(job.packets / job.period_s for job in drawn)
        self.rate = max(1, round(packets_per_s / samples_per_s))
        self.seed = seed
        self.inventory = inventory_text(fabric)
        self.truth: tuple[TrueJob, ...] = tuple(
            true_job(job, groups, connections, fabric, of_job)
            for job, of_job in zip(drawn, ends, strict=True)
        )
        self._exporters = Exporters(
            transfers=draw_transfers(drawn, ends, rng),
            connections=connections,
            templates=make_templates(
                connections,
                np.array([flow.message_packets for flow in flows]),
                fabric,
                self.rate,
                rng,
            ),
            fabric=fabric,
            rate=self.rate,
            seed=seed,
        )

    def departures(self, start_ns: int) -> Iterator[Departures]:
        """All datagrams, at most 50 ms of them at a time; the same ones each time it is called.

        Parameters
        ----------
        start_ns
            When the fleet starts, ns since the epoch.
        """
        return self._exporters.departures(start_ns, self._chunks)

    def truth_document(self, start_ns: int) -> Document:
        """The truth by the result schema, for a fleet that started at `start_ns`."""
        return document(self.truth, self.seed, start_ns, self.duration_ns)


@dataclass(frozen=True, slots=True)
class Sent:
    """What sending a fleet took.

    Attributes
    ----------
    samples, datagrams, unreachable
        Sent in all; how often the network said that something did not get there.
    wall_s, cpu_s
        From the fleet's start to the last datagram; processor time of this process.
    latest_s
        How far behind its schedule it was at the worst.
    """

    samples: int
    datagrams: int
    unreachable: int
    wall_s: float
    cpu_s: float
    latest_s: float


def send(fleet: Fleet, connection: socket.socket, clock: Clock, start_ns: int) -> Sent:
    """Send a fleet in real time.

    Parameters
    ----------
    connection
        A connected UDP socket.
    start_ns
        When the fleet starts; datagrams of a moment that is over leave at once.

    Raises
    ------
    OSError
        The system would not send, or nobody listens.
    """
    sender = Sender(connection, clock)
    clock.sleep_until(start_ns)
    began_s, used_s = time.monotonic(), time.process_time()
    payload = 0
    latest_ns = 0
    for chunk in fleet.departures(start_ns):
        # Waking for each of thousands of datagrams a second costs more than making them.
        tick_ns = -(-chunk.due_ns // _TICK_NS) * _TICK_NS
        sender.send(replace(chunk, due_ns=tick_ns))
        payload += len(chunk.buffer)
        latest_ns = max(latest_ns, clock.now_ns() - int(tick_ns[-1]))
    return Sent(
        samples=(payload - sender.sent * DATAGRAM_HEADER_BYTES) // SAMPLE_BYTES,
        datagrams=sender.sent,
        unreachable=sender.unreachable,
        wall_s=time.monotonic() - began_s,
        cpu_s=time.process_time() - used_s,
        latest_s=latest_ns / 1e9,
    )


def write_pcap(fleet: Fleet, path: Path, start_ns: int) -> int:
    """Write all datagrams to a capture, each arriving when it was sent; how many there are."""
    count = 0
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for chunk in fleet.departures(start_ns):
            file.write(_records(chunk).data)
            count += len(chunk.due_ns)
    return count


def _records(chunk: Departures) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    agent = chunk.buffer[chunk.offset[:, None] + np.arange(8, 12)].copy().view(">u4")[:, 0]
    port = np.full(len(agent), SFLOW_PORT)
    heads = envelopes(
        chunk.due_ns, agent.astype(np.uint32), port, COLLECTOR, SFLOW_PORT, chunk.length
    )
    data = np.empty(len(chunk.buffer) + ENVELOPE_BYTES * len(agent), np.uint8)
    starts = chunk.offset + ENVELOPE_BYTES * np.arange(len(agent))
    scatter(heads, np.full(len(agent), ENVELOPE_BYTES), starts, data)
    inside = np.ones(len(data), np.bool_)
    inside[(starts[:, None] + np.arange(ENVELOPE_BYTES)).ravel()] = False
    data[inside] = chunk.buffer
    return data


def connect(to: str) -> socket.socket:
    """A UDP socket connected to HOST:PORT.

    Raises
    ------
    ValueError
        `to` is no such text.
    OSError
        No such host.
    """
    host, colon, port = to.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ValueError(f"{to!r} is not HOST:PORT")
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    connection = socket.socket(family, kind, protocol)
    connection.connect(address)
    return connection


def main(argv: Sequence[str] | None = None) -> int:
    """Send or write a fleet; the exit code, 1 where it fell behind its schedule."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--to", metavar="HOST:PORT", help="send there, in real time")
    way.add_argument("--pcap", type=Path, metavar="FILE", help="write a capture instead")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--samples-per-s", type=float, default=50_000.0)
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--nics", type=int, default=800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--truth", type=Path, metavar="FILE", help="JSON by the result schema")
    parser.add_argument("--inventory", type=Path, metavar="FILE", help="TOML")
    chosen = parser.parse_args(argv)
    try:
        fleet = Fleet(chosen.seed, chosen.samples_per_s, chosen.jobs, chosen.nics, chosen.seconds)
        next(fleet.departures(0), None)  # compiles what is compiled, before the clock runs
        clock = Clock()
        start_ns = CAPTURE_START_NS if chosen.pcap else clock.now_ns() + _LEAD_NS
        if chosen.truth:
            text = json.dumps(fleet.truth_document(start_ns), indent=1)
            chosen.truth.write_text(text + "\n", encoding="utf-8")
        if chosen.inventory:
            chosen.inventory.write_text(fleet.inventory, encoding="utf-8")
        if chosen.pcap:
            count = write_pcap(fleet, chosen.pcap, start_ns)
            print(f"{chosen.pcap}: {count} datagrams, one packet in {fleet.rate} sampled")
            return 0
        with connect(chosen.to) as connection:
            return _report(send(fleet, connection, clock, start_ns), fleet.rate)
    except (OSError, ValueError) as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 2


def _report(sent: Sent, rate: int) -> int:
    print(
        f"{sent.samples} samples in {sent.datagrams} datagrams in {sent.wall_s:.1f} s"
        f" ({sent.samples / sent.wall_s:.0f} a second), one packet in {rate} sampled;"
        f" {sent.cpu_s / sent.wall_s:.1%} of a core, at most {sent.latest_s * 1e3:.0f} ms late"
    )
    if sent.unreachable:
        print(f"fleet: {sent.unreachable} times something did not get there", file=sys.stderr)
    if sent.latest_s > BEHIND_S:
        print("fleet: fell behind its schedule", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
