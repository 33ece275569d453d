"""Thinning keeps one flow sample in k, scales its rate and touches nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader, PcapWriter

from bench.thin import thin

RATE = 400


def sample(kind: int, name: int) -> bytes:
    """A sample of this format; expanded and compact flow samples carry `RATE`."""
    if kind == 3:
        body = struct.pack("!III", name, 0, 7) + struct.pack("!I", RATE) + bytes(16)
    elif kind == 1:
        body = struct.pack("!II", name, 7) + struct.pack("!I", RATE) + bytes(12)
    else:
        body = struct.pack("!I", name) + bytes(8)
    return struct.pack("!II", kind, len(body)) + body


def datagram(sequence: int, samples: list[bytes]) -> bytes:
    head = struct.pack("!II4sIIII", 5, 1, b"\x0a\0\0\1", 0, sequence, 1000, len(samples))
    return head + b"".join(samples)


def write(path: Path, payloads: list[bytes]) -> None:
    with PcapWriter(str(path), nano=True, sync=True, endianness="<", linktype=1) as writer:
        for index, payload in enumerate(payloads):
            frame = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=5, dport=6343)
            frame = frame / payload
            frame.time = 100.0 + index
            writer.write(frame)


def walk(path: Path) -> list[tuple[float, int, list[tuple[int, int, int]]]]:
    """Per datagram: time, sequence number, and (format, name, rate) of each sample."""
    found = []
    with PcapReader(str(path)) as reader:
        for frame in reader:
            raw = bytes(frame[UDP].payload)
            given = frame[IP].chksum
            del frame[IP].chksum
            assert IP(bytes(frame[IP])).chksum == given
            assert frame[IP].len == len(raw) + 28
            assert frame[UDP].len == len(raw) + 8
            at, samples = 28, []
            for _ in range(struct.unpack_from("!I", raw, 24)[0]):
                kind, length = struct.unpack_from("!II", raw, at)
                name = struct.unpack_from("!I", raw, at + 8)[0]
                offset = {1: 16, 3: 20}.get(kind)
                rate = struct.unpack_from("!I", raw, at + offset)[0] if offset else 0
                samples.append((kind, name, rate))
                at += 8 + length
            assert at == len(raw)
            found.append((float(frame.time), struct.unpack_from("!I", raw, 16)[0], samples))
    return found


def test_one_in_k_at_k_times_the_rate(tmp_path: Path) -> None:
    source, target = tmp_path / "all.pcap", tmp_path / "thin.pcap"
    per_datagram = [[sample(3 if n % 2 else 1, 10 * d + n) for n in range(6)] for d in range(500)]
    write(source, [datagram(d, [*six, sample(4, d)]) for d, six in enumerate(per_datagram)])
    thin(source, target, 5, seed=1)
    before, after = walk(source), walk(target)
    assert [(t, s) for t, s, _ in after] == [(t, s) for t, s, _ in before]
    flows = [s for _, _, samples in after for s in samples if s[0] in (1, 3)]
    assert {rate for _, _, rate in flows} == {5 * RATE}
    # 3000 samples at 1 in 5: 600 with a standard deviation of 22.
    assert 490 < len(flows) < 710
    assert sum(s[0] == 4 for _, _, samples in after for s in samples) == 500
    for (_, _, kept), (_, _, whole) in zip(after, before, strict=True):
        names = [(kind, name) for kind, name, _ in kept]
        assert names == [(kind, name) for kind, name, _ in whole if (kind, name) in names]


def test_the_same_seed_keeps_the_same_samples(tmp_path: Path) -> None:
    source = tmp_path / "all.pcap"
    write(source, [datagram(d, [sample(3, n) for n in range(6)]) for d in range(50)])
    kept = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        thin(source, tmp_path / name, 3, seed)
        kept.append((tmp_path / name).read_bytes())
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\0\0\0\2" + bytes(40), "no sFlow v5"),
        (datagram(1, [sample(3, 1)])[:-4], "past its datagram"),
        (b"\0\0", "unpack_from"),
    ],
)
def test_what_is_no_sflow_is_named(tmp_path: Path, payload: bytes, reason: str) -> None:
    source = tmp_path / "bad.pcap"
    write(source, [payload])
    with pytest.raises(ValueError, match=rf"bad\.pcap, offset 40: .*{reason}"):
        thin(source, tmp_path / "out.pcap", 2, seed=1)


def test_no_capture(tmp_path: Path) -> None:
    source = tmp_path / "none.pcap"
    source.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"none\.pcap: no little-endian pcap"):
        thin(source, tmp_path / "out.pcap", 2, seed=1)
