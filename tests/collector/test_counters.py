"""Counter samples: what agents tell of ports and of themselves beside interface counters."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from collector.ingest import ingest
from collector.latest import Latest
from collector.polled import NOT_SAID, HostBatch, PortBatch
from collector.schema import Telemetry
from collector.sflow import Status
from tests.collector import encode as e
from tests.collector.twins import compiled

GENERIC = e.record(1, e.GENERIC_COUNTERS.pack(3, *range(18)))
NAME = e.record(1005, e.text(b"Ethernet4"))
ERRORS = e.record(2, struct.pack(">13I", *range(100, 113)))
PROCESSOR = e.record(1001, struct.pack(">3i2Q", 1250, 900, -1, 1 << 34, 1 << 33))
MEMORY = e.record(2004, struct.pack(">7Q4I", 1 << 35, 1 << 32, *range(9)))
CPU = e.record(2003, struct.pack(">3f14I", 0.5, 0.25, 0.125, *range(14)))
HOST = e.record(2000, e.text(b"leaf1") + b"\x11" * 16 + struct.pack(">II", 3, 2) + e.text(b"6.1"))


def lag(aggregate: int, *, padded: bool) -> bytes:
    """Record 0:7: agents send its two addresses padded to eight bytes, or packed."""
    macs = b"".join(
        mac.ljust(8 if padded else 6, b"\0") for mac in (b"\2\0\0\0\0\1", b"\2\0\0\0\0\2")
    )
    return e.record(7, macs + struct.pack(">I4B8I", aggregate, 0x07, 0x3F, 0x05, 0x3D, *range(8)))


def one(*records: bytes, **fields: Any) -> dict[str, Any]:
    """The datagram with one counter sample of these records."""
    (row,) = compiled([e.datagram(e.counter_sample(*records, **fields))])
    assert (row["status"], row["counter_samples"]) == (Status.GOOD, [Status.GOOD])
    return row


def read(folder: Path, *datagrams: bytes) -> Telemetry:
    path = folder / "a.pcap"
    packets = [(e.EPOCH_NS + n * e.SECOND, e.packet(data)) for n, data in enumerate(datagrams)]
    path.write_bytes(e.pcap(packets))
    return ingest([path])


@pytest.mark.parametrize("expanded", [False, True])
def test_names_and_errors_of_a_port(expanded: bool) -> None:
    row = one(NAME, GENERIC, ERRORS, source=(0, 44), expanded=expanded)
    assert [counters["ifindex"] for counters in row["counters"]] == [3]
    assert row["ports"] == [
        {
            "ifindex": 44,
            "name": b"Ethernet4",
            "aggregate": NOT_SAID,
            "lag_state": NOT_SAID,
            "alignment_errors": 100,
            "fcs_errors": 101,
            "send_errors": 108,
            "too_long_frames": 110,
            "receive_errors": 111,
            "symbol_errors": 112,
        }
    ]
    assert row["hosts"] == []


@pytest.mark.parametrize("padded", [False, True])
def test_the_lag_that_a_port_is_of(padded: bool) -> None:
    (port,) = one(lag(1001, padded=padded))["ports"]
    assert (port["aggregate"], port["lag_state"]) == (1001, 0x073F_053D)


def test_the_agent_as_a_machine() -> None:
    # A host's source is of another class than a port's.
    (host,) = one(HOST, CPU, MEMORY, source=(2, 1))["hosts"]
    assert host == {
        "name": b"leaf1",
        "cpu_5s": -1,
        "cpu_1m": -1,
        "cpu_5m": -1,
        "load_1m": 0.5,
        "cpus": 2,
        "uptime_s": 4,
        "memory_bytes": 1 << 35,
        "free_bytes": 1 << 32,
    }
    (host,) = one(PROCESSOR)["hosts"]
    assert (host["cpu_5s"], host["cpu_1m"], host["cpu_5m"]) == (1250, 900, -1)
    assert (host["memory_bytes"], host["free_bytes"]) == (1 << 34, 1 << 33)


def test_what_is_no_port_has_no_port_name() -> None:
    assert one(NAME, source=(2, 3))["ports"] == []


def test_records_too_short_for_their_fields_say_nothing() -> None:
    sizes = {1: 87, 2: 51, 7: 51, 1001: 27, 1005: 3, 2000: 3, 2003: 67, 2004: 71}
    row = one(*(e.record(tag, b"\0" * size) for tag, size in sizes.items()))
    assert (row["counters"], row["ports"], row["hosts"]) == ([], [], [])
    assert one(e.record(1005, struct.pack(">I", 12) + b"Ethernet"))["ports"] == []


def test_the_newest_of_each_port_and_machine_is_remembered(tmp_path: Path) -> None:
    first = e.datagram(
        e.counter_sample(NAME, GENERIC, source=(0, 3)),
        e.counter_sample(lag(9, padded=True), source=(0, 4)),
        e.counter_sample(HOST, source=(2, 1)),
        sequence=1,
    )
    second = e.datagram(
        e.counter_sample(ERRORS, source=(0, 3)),
        e.counter_sample(e.record(1005, e.text(b"Ethernet8")), source=(0, 3)),
        e.counter_sample(PROCESSOR, source=(2, 1)),
        sequence=2,
    )
    other = e.datagram(e.counter_sample(NAME, source=(0, 3)), agent="10.255.0.2")
    told = read(tmp_path, first, second, other)
    ports = told.ports
    assert list(zip(ports.exporter, ports.ifindex, ports.name, strict=True)) == [
        (0, 3, b"Ethernet8"),
        (0, 4, b""),
        (1, 3, b"Ethernet4"),
    ]
    assert ports.aggregate.tolist() == [NOT_SAID, 9, NOT_SAID]
    assert ports.fcs_errors.tolist() == [101, NOT_SAID, NOT_SAID]
    assert ((ports.time_ns - e.EPOCH_NS) // e.SECOND).tolist() == [1, 0, 2]
    hosts = told.hosts
    assert (hosts.exporter.tolist(), hosts.name.tolist()) == ([0], [b"leaf1"])
    assert (hosts.cpu_5s.tolist(), hosts.memory_bytes.tolist()) == ([1250], [1 << 34])
    assert told.counter_samples == 7


def test_what_was_given_away_does_not_change(tmp_path: Path) -> None:
    latest = Latest()
    ports = PortBatch.empty(1)
    ports.ifindex[0], ports.name[0] = 3, b"before"
    latest.take(ports, HostBatch.empty())
    held = latest.ports
    ports.name[0] = b"after"
    latest.take(ports, HostBatch.empty())
    assert (held.name.tolist(), latest.ports.name.tolist()) == ([b"before"], [b"after"])


def test_forged_ports_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.latest.MOST_PORTS", 4)
    latest = Latest()
    for start in (0, 3, 6):
        ports = PortBatch.empty(3)
        ports.ifindex[:] = range(start, start + 3)
        latest.take(ports, HostBatch.empty())
    assert latest.ports.ifindex.tolist() == [0, 1, 2, 3]


def test_a_damaged_counter_sample_is_named(tmp_path: Path) -> None:
    short = e.record(2, b"\0" * 11)
    overlong = e.counter_sample(GENERIC, struct.pack(">II", 1005, 4_000_000_000))
    data = e.datagram(short, overlong, e.counter_sample(GENERIC))
    told = read(tmp_path, data)
    assert len(told.counters) == 2
    at = (tmp_path / "a.pcap").read_bytes().index(data) + 28
    assert {(error.exporter, error.reason, error.offset) for error in told.errors} == {
        ("10.255.0.1", "a sample too short for its own fields", at + 8),
        (
            "10.255.0.1",
            "a record runs past the end of its sample",
            at + len(short) + len(overlong) - 8,
        ),
    }
