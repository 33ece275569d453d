"""Datagrams of three exporters, with what they say written down beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from collector.addresses import to_text
from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import FlowBatch
from collector.udp import UdpReceiver
from tests.collector import encode as e
from tests.peers.programs import deliver

_AGENTS: Final = (("10.255.0.1", 0), ("10.255.0.1", 1), ("10.255.0.2", 0))
_COUNTERS: Final = e.counter_sample(e.record(1, e.GENERIC_COUNTERS.pack(3, *range(18))))


class Flow(NamedTuple):
    """What a collector of flows keeps apart."""

    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int


class Volume(NamedTuple):
    """Samples scaled by the rate of each."""

    packets: Counter[Flow]
    frame_bytes: Counter[Flow]


class Traffic(NamedTuple):
    payloads: list[bytes]
    truth: Volume
    samples: int


def mixed(datagrams: int = 300, samples: int = 4, *, odd_records: bool = True) -> Traffic:
    """TCP, UDP and RoCEv2 over IPv4 and IPv6, sampled at several rates and told in every form.

    Odd records stand before sampled headers: timestamps, and one of an unknown enterprise.
    """
    random = np.random.default_rng(17)
    truth = Volume(Counter(), Counter())
    payloads = []
    for number in range(datagrams):
        agent, sub_agent = _AGENTS[number % len(_AGENTS)]
        held: list[bytes] = []
        for _ in range(samples):
            flow, frame = _packet(random)
            rate = int(random.choice((1, 100, 1000, 4096)))
            header = e.raw_header(frame)
            odd = (e.timestamp(e.EPOCH_NS), e.record(8800 << 12 | 1, b"\1" * 20))
            before = [record for record in odd if odd_records and random.integers(2)]
            records = [*before, header, e.record(1001, b"\0" * 16)]
            sequence = number // len(_AGENTS) * samples + len(held) + 1
            expanded = bool(random.integers(2))
            held.append(
                e.flow_sample(
                    *records, sequence=sequence, rate=rate, left=(0, 4), expanded=expanded
                )
            )
            truth.packets[flow] += rate
            truth.frame_bytes[flow] += rate * (len(frame) + 4)
        if number % 5 == 0:
            held.insert(number % (samples + 1), _COUNTERS)
        sequence = number // len(_AGENTS) + 1
        payloads.append(
            e.datagram(
                *held,
                agent=agent,
                sub_agent=sub_agent,
                sequence=sequence,
                uptime_ms=60_000 + number * 10,
            )
        )
    return Traffic(payloads, truth, datagrams * samples)


def _packet(random: np.random.Generator) -> tuple[Flow, bytes]:
    kind = int(random.integers(5))
    size = int(random.integers(1, 1400))
    near, far, port = (int(n) for n in random.integers(1, 6, size=3))
    tags = [(0x8100, port)] if random.integers(2) else []
    if kind < 3:
        src, dst = f"10.0.0.{near}", f"10.0.1.{far}"
    else:
        src, dst = f"2001:db8::{near}", f"2001:db8:1::{far}"
    if kind == 0 or kind == 3:
        flow = Flow(src, dst, 40_000 + port, 29_500, 6)
        segment = e.tcp(b"t" * size, flow.src_port, flow.dst_port, size, port)
    elif kind == 1:
        flow = Flow(src, dst, 50_000 + port, 9000, 17)
        segment = e.udp(b"u" * size, flow.src_port, flow.dst_port)
    else:
        flow = Flow(src, dst, 50_000 + port, 4791, 17)
        data = e.bth(0x07, port, size) + b"r" * (size & ~3) + b"\0" * 4
        segment = e.udp(data, flow.src_port, flow.dst_port)
    if kind < 3:
        return flow, e.ethernet(0x0800, e.ipv4(segment, flow.protocol, src, dst), tags)
    return flow, e.ethernet(0x86DD, e.ipv6(segment, flow.protocol, src, dst), tags)


def volume(flows: FlowBatch) -> Volume:
    """What rows say, in the words of `Flow`."""
    found = Volume(Counter(), Counter())
    columns = [
        getattr(flows, name).tolist()
        for name in (
            *("src_hi", "src_lo", "dst_hi", "dst_lo", "src_port", "dst_port", "protocol"),
            *("sampling_rate", "frame_bytes"),
        )
    ]
    for *ends, src_port, dst_port, protocol, rate, size in zip(*columns, strict=True):
        flow = Flow(to_text(*ends[:2]), to_text(*ends[2:]), src_port, dst_port, protocol)
        found.packets[flow] += rate
        found.frame_bytes[flow] += rate * size
    return found


def received(payloads: Sequence[bytes]) -> tuple[FlowBatch, Ingest]:
    """What ringscope makes of the datagrams when they come by UDP."""
    receiver = UdpReceiver("127.0.0.1", 0)
    receiver.start()
    try:
        deliver(payloads, receiver.port)
    finally:
        receiver.stop()
    ingest = Ingest()
    return FlowBatch.concat([_flows(ingest, batch) for batch in receiver]), ingest


def _flows(ingest: Ingest, batch: DatagramBatch) -> FlowBatch:
    return ingest.add(batch, Faults())[0]
