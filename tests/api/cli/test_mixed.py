"""One capture with all that goes wrong on the way: what `ringscope analyze` counts and names.

Each agent does what one of these reports tells of. netsampler/goflow2#292, alexk99/the_router#14:
reordering, restarts and counter samples taken for loss. the-tcpdump-group/tcpdump#870: an IPv6
agent shifts all that follows. google/gopacket#1228, phaag/nfdump#29: a datagram that ends early.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from api.contract import validate
from tests.api.cli.test_command import ringscope
from tests.collector import encode as e

MS = 1_000_000
FOUR, SIX, HOST = "10.255.0.1", "2001:db8::7", "10.255.0.3"
GARBAGE = "192.0.2.66"
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
COUNTERS = e.counter_sample(e.record(1, e.GENERIC_COUNTERS.pack(3, *range(18))))


class Capture:
    """Datagrams as they came, one each millisecond."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, bytes]] = []

    def add(self, data: bytes, sender: str) -> None:
        at_ns = e.EPOCH_NS + len(self.packets) * MS
        self.packets.append((at_ns, e.packet(data, src=sender)))

    def write(self, folder: Path) -> Path:
        path = folder / "mixed.pcap"
        path.write_bytes(e.pcap(self.packets))
        return path


def datagram(agent: str, sequence: int, now_ms: int, *samples: bytes, sub_agent: int = 0) -> bytes:
    return e.datagram(
        *samples, agent=agent, sequence=sequence, uptime_ms=now_ms, sub_agent=sub_agent
    )


def flow(number: int, *records: bytes, expanded: bool = True) -> bytes:
    return e.flow_sample(*records, HEADER, sequence=number, rate=1000, expanded=expanded)


def mixed(folder: Path) -> tuple[Path, dict[str, bytes]]:
    """The capture, and the datagrams in it that are broken, by what is wrong with them."""
    capture, noise = Capture(), random.Random(3)
    broken: dict[str, bytes] = {}
    # An IPv4 agent with compact samples. Numbers 20 and 21 change places; 30 to 34 are lost.
    order = [*range(1, 20), 21, 20, *range(22, 30), *range(35, 41)]
    four = [datagram(FOUR, n, 60_000 + n, flow(n, expanded=False), COUNTERS) for n in order]
    # An IPv6 agent that starts again after its tenth datagram: numbers and uptime begin anew.
    six = [datagram(SIX, 500 + n, 9_000_000 + n, flow(n), flow(n)) for n in range(10)]
    six += [datagram(SIX, 1 + n, 1_000 + n, flow(1 + n)) for n in range(10)]
    # A host's agent: stamps, a format that nobody knows, drops, and two copies of one datagram.
    vendor = e.record(8800 << 12 | 2, b"\0" * 20)
    host = [
        datagram(
            HOST,
            1 + n,
            5_000 + n,
            flow(1 + n, e.timestamp(e.EPOCH_NS + n * MS), vendor),
            e.discard(HEADER, reason=259, sequence=n),
            sub_agent=100_000,
        )
        for n in range(20)
    ]
    host.insert(8, host[7])
    for turn in range(max(len(four), len(six), len(host))):
        for sender, all_of_it in (("192.0.2.1", four), ("192.0.2.2", six), ("192.0.2.3", host)):
            if turn < len(all_of_it):
                capture.add(all_of_it[turn], sender)
        if turn % 5 == 0:
            rubbish = b"\xff" + noise.randbytes(40 + turn)
            broken.setdefault("rubbish", rubbish)
            capture.add(rubbish, GARBAGE)
    broken["cut"] = datagram(FOUR, 41, 60_041, flow(41), flow(42))[:-30]
    broken["version"] = b"\0\0\0\4" + datagram(SIX, 11, 1_011, flow(11))[4:]
    overlong = e.flow_sample(HEADER, e.record(1001, b"")[:4] + b"\xff\xff\xff\xff", sequence=11)
    broken["overlong"] = datagram(SIX, 11, 1_011, overlong)
    for kind, sender in (("cut", "192.0.2.1"), ("version", "192.0.2.2"), ("overlong", "192.0.2.2")):
        capture.add(broken[kind], sender)
    return capture.write(folder), broken


def exporter(document: Any, agent: str) -> dict[str, Any]:
    (found,) = (one for one in document["telemetry"]["exporters"] if one["agent"] == agent)
    names = ("sub_agent", "datagrams", "flow_samples", "counter_samples", "lost_datagrams")
    return {name: found[name] for name in names} | {"errors": found["decode_errors"]}


def test_counts_are_exact_and_errors_named(tmp_path: Path) -> None:
    path, broken = mixed(tmp_path)
    run = ringscope("analyze", path, "--strict")
    assert run.returncode == 1, run.stderr  # not everything could be read
    document = json.loads(run.stdout)
    validate(document, strict=True)

    assert exporter(document, FOUR) == {
        "sub_agent": 0,
        "datagrams": 36,
        "flow_samples": 36,
        "counter_samples": 35,
        "lost_datagrams": 5,
        "errors": 1,
    }
    assert exporter(document, SIX) == {
        "sub_agent": 0,
        "datagrams": 21,
        "flow_samples": 31,
        "counter_samples": 0,
        "lost_datagrams": 0,
        "errors": 1,
    }
    assert exporter(document, HOST) == {
        "sub_agent": 100_000,
        "datagrams": 21,  # one of them twice, and its samples once
        "flow_samples": 20,
        "counter_samples": 0,
        "lost_datagrams": 0,
        "errors": 0,
    }
    told = document["telemetry"]
    totals = ("flow_samples", "counter_samples", "lost_datagrams", "decode_errors")
    assert {name: told[name] for name in totals} == {
        "flow_samples": 87,
        "counter_samples": 35,
        "lost_datagrams": 5,
        "decode_errors": 10,
    }
    assert told["datagrams"] == 36 + 21 + 21 + 7 + 1
    assert told["discards"] == [{"exporter": HOST, "reason": "no_buffer_space", "packets": 20}]
    assert told["unknown_tags"] == [
        {
            "exporter": HOST,
            "kind": "flow record",
            "enterprise": 8800,
            "format": 2,
            "count": 20,
        }
    ]

    data = path.read_bytes()
    at = {kind: data.index(whole) for kind, whole in broken.items()}
    expected = {
        (GARBAGE, at["rubbish"], "not an sFlow version 5 datagram", 7),
        ("192.0.2.2", at["version"], "not an sFlow version 5 datagram", 1),
        (
            FOUR,
            at["cut"] + 28 + len(flow(41)),  # where the sample that is not whole begins
            "the datagram ends before its last sample",
            1,
        ),
        (
            SIX,
            at["overlong"] + len(broken["overlong"]) - 8,  # the record that claims 4 GiB
            "a record runs past the end of its sample",
            1,
        ),
    }
    found = [(x["exporter"], x["offset"], x["reason"], x["count"]) for x in told["errors"]]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert {x["file"] for x in told["errors"]} == {str(path)}
    for agent, offset, reason, _ in expected:
        assert f"{path}: offset {offset}: exporter {agent}: {reason}" in run.stderr
