"""The same flow records to ringscope and to nfcapd (nfdump 1.7), by UDP."""

from __future__ import annotations

import csv
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.addresses import to_text
from collector.ipfix import IpfixIngest
from collector.packets import Faults
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.peers.programs import deliver, free_port, installed, listening

Row = tuple[str, str, int, int, int, int, int, int]  # ends, protocol, bytes, packets, start, end
PROTOCOLS = {"TCP": 6, "UDP": 17}
ENDS: Sequence[encode.Specifier] = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1))
LONG_ENDS: Sequence[encode.Specifier] = ((27, 16), (28, 16), *ENDS[2:])
MESSAGES = 20
RECORDS = 12


def _ends(draw: random.Random, *, long: bool) -> bytes:
    base = bytes.fromhex("20010db8") + bytes(11) if long else bytes([10, 0, 1])
    ports = struct.pack(">HHB", draw.randrange(1024, 60_000), 4791, draw.choice([6, 17]))
    return base + bytes([draw.randrange(1, 250)]) + base + bytes([draw.randrange(1, 250)]) + ports


def ipfix(draw: random.Random) -> list[bytes]:
    """IPv4 and IPv6, milliseconds, counts of 8 and (reduced) 4 bytes."""
    counts: Sequence[encode.Specifier] = ((1, 8), (2, 4), (152, 8), (153, 8))
    templates = encode.set_of(2, encode.template(256, [*ENDS, *counts])) + encode.set_of(
        2, encode.template(257, [*LONG_ENDS, *counts])
    )
    payloads = [encode.message(templates)]
    for turn in range(MESSAGES):
        long = turn % 2 == 1
        records = b""
        for _ in range(RECORDS):
            packets = draw.randrange(1, 5000)
            start = encode.EXPORT_S * 1000 - draw.randrange(1000, 60_000)
            records += _ends(draw, long=long) + struct.pack(
                ">QIQQ", packets * draw.randrange(64, 9000), packets, start, start + 900
            )
        data = encode.set_of(257 if long else 256, records)
        payloads.append(encode.message(data, sequence=turn * RECORDS))
    return payloads


def netflow_9(draw: random.Random) -> list[bytes]:
    """Uptimes, and counts of 4 bytes."""
    counts: Sequence[encode.Specifier] = ((1, 4), (2, 4), (22, 4), (21, 4))
    payloads = [
        encode.message_9(encode.set_of(0, encode.template(256, [*ENDS, *counts])), sequence=0)
    ]
    for turn in range(MESSAGES):
        records = b""
        for _ in range(RECORDS):
            packets = draw.randrange(1, 5000)
            start = encode.UPTIME_MS - draw.randrange(1000, 60_000)
            records += _ends(draw, long=False) + struct.pack(
                ">IIII", packets * draw.randrange(64, 9000), packets, start, start + 900
            )
        padding = -len(records) % 4
        payloads.append(encode.message_9(encode.set_of(256, records, padding), sequence=turn + 1))
    return payloads


def netflow_5(draw: random.Random) -> list[bytes]:
    payloads = []
    for turn in range(MESSAGES):
        records = []
        for _ in range(RECORDS):
            ends = _ends(draw, long=False)
            packets = draw.randrange(1, 5000)
            start = encode.UPTIME_MS - draw.randrange(1000, 60_000)
            octets = packets * draw.randrange(64, 9000)
            records.append(
                ends[:8]
                + struct.pack(">IHHIIII", 0, 3, 4, packets, octets, start, start + 900)
                + ends[8:12]
                + bytes([0, 0x18, ends[12], 0])
                + bytes(8)
            )
        payloads.append(encode.message_5(*records, sequence=turn * RECORDS))
    return payloads


def theirs(folder: Path) -> Counter[Row]:
    """Every record that nfcapd wrote."""
    command = ["nfdump", "-N", "-6", "-R", str(folder), "-o", "csv"]
    environment = {"TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    found: Counter[Row] = Counter()
    for row in csv.DictReader(lines[: lines.index("Summary")]):
        # Its table shows whole seconds.
        start, end = (
            int(datetime.fromisoformat(row[key]).replace(tzinfo=UTC).timestamp())
            for key in ("ts", "te")
        )
        ports = int(row["sp"]), int(row["dp"])
        counts = int(row["ibyt"]), int(row["ipkt"])
        ends = row["sa"].strip(), row["da"].strip()
        found[(*ends, ports[0], ports[1], PROTOCOLS[row["pr"]], *counts, start * 10**6 + end)] += 1
    return found


def ours(payloads: Sequence[bytes]) -> tuple[Counter[Row], IpfixIngest]:
    ingest = IpfixIngest()
    rows, _, _ = ingest.add(batch_of([Arrival(payload) for payload in payloads]), Faults())
    found: Counter[Row] = Counter()
    for row in range(len(rows)):
        start, end = (int(t[row]) // 10**9 for t in (rows.start_ns, rows.end_ns))
        found[
            (
                to_text(rows.src_hi[row], rows.src_lo[row]),
                to_text(rows.dst_hi[row], rows.dst_lo[row]),
                int(rows.src_port[row]),
                int(rows.dst_port[row]),
                int(rows.protocol[row]),
                int(rows.bytes[row]),
                int(rows.packets[row]),
                start * 10**6 + end,
            )
        ] += 1
    return found, ingest


@pytest.mark.parametrize("traffic", [ipfix, netflow_9, netflow_5])
def test_records_are_those_of_nfcapd(tmp_path: Path, traffic: object) -> None:
    installed("nfcapd", "nfdump")
    assert callable(traffic)
    payloads: list[bytes] = traffic(random.Random(5))
    port, folder = free_port(), tmp_path / "flows"
    folder.mkdir()
    command = ["nfcapd", "-4", "-b", "127.0.0.1", "-p", str(port), "-w", str(folder), "-t", "3600"]
    with listening(command, port, tmp_path / "nfcapd.log"):
        deliver(payloads, port)
    found, ingest = ours(payloads)
    log = (tmp_path / "nfcapd.log").read_text()
    assert sum(found.values()) == MESSAGES * RECORDS
    assert theirs(folder) == found, log
    assert "Sequence Errors: 0" in log
    assert [each.lost for each in ingest.exporters()] == [0]
