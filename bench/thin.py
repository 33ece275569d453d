"""Thin a capture's flow samples: one in k is kept at random and every rate is multiplied by k.

Sampling one packet in N at random and keeping one sample in k of those is sampling one in N*k. The
datagrams keep their times and sequence numbers, also those left without a sample, so that nothing
looks lost; a capture without exporter timestamps is therefore more prompt than a switch of that
rate would be, which would wait for a datagram to fill.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import BinaryIO, Final

_FLOW: Final = {1: 8, 3: 12}  # sample format: offset of the sampling rate in the sample's body
_PCAP_HEADER: Final = 24
_RECORD: Final = struct.Struct("<IIII")
_ETHERNET_IPV4_UDP: Final = 14 + 20 + 8


def thin(source: Path, target: Path, keep_one_in: int, seed: int) -> None:
    """Write `target`, a thinned copy of the capture `source`.

    Parameters
    ----------
    source : pcap (little-endian, Ethernet, IPv4 without options) of sFlow v5 datagrams, as the
        fixtures write it.
    keep_one_in : k, at least 1.
    seed : the same seed keeps the same samples.

    Raises
    ------
    ValueError
        `source` is no such capture; the text names the file and the offset.
    """
    draw = random.Random(f"thin {seed} {keep_one_in}")
    with source.open("rb") as read, target.open("wb") as write:
        header = read.read(_PCAP_HEADER)
        if header[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
            raise ValueError(f"{source}: no little-endian pcap")
        write.write(header)
        while record := read.read(_RECORD.size):
            _copy(source, record, read, write, keep_one_in, draw)


def _copy(
    source: Path,
    record: bytes,
    read: BinaryIO,
    write: BinaryIO,
    keep_one_in: int,
    draw: random.Random,
) -> None:
    at = read.tell()
    try:
        seconds, fraction, captured, length = _RECORD.unpack(record)
        frame = read.read(captured)
        if captured != length:
            raise ValueError("a frame is cut")
        datagram = _thinned(frame[_ETHERNET_IPV4_UDP:], keep_one_in, draw)
    except (struct.error, ValueError) as error:
        raise ValueError(f"{source}, offset {at}: {error}") from error
    head = bytearray(frame[:_ETHERNET_IPV4_UDP])
    struct.pack_into("!H", head, 16, 20 + 8 + len(datagram))
    struct.pack_into("!H", head, 24, 0)
    struct.pack_into("!H", head, 24, _checksum(head[14:34]))
    struct.pack_into("!HH", head, 38, 8 + len(datagram), 0)
    size = len(head) + len(datagram)
    write.write(_RECORD.pack(seconds, fraction, size, size) + head + datagram)


def _thinned(datagram: bytes, keep_one_in: int, draw: random.Random) -> bytes:
    version, address_type = struct.unpack_from("!II", datagram)
    if version != 5 or address_type not in (1, 2):
        raise ValueError("no sFlow v5 datagram")
    count_at = 8 + (4 if address_type == 1 else 16) + 12
    (count,) = struct.unpack_from("!I", datagram, count_at)
    kept: list[bytes] = []
    at = count_at + 4
    for _ in range(count):
        kind, length = struct.unpack_from("!II", datagram, at)
        sample = bytearray(datagram[at : at + 8 + length])
        if len(sample) != 8 + length:
            raise ValueError("a sample runs past its datagram")
        at += len(sample)
        if kind in _FLOW:
            if draw.randrange(keep_one_in):
                continue
            rate_at = 8 + _FLOW[kind]
            (rate,) = struct.unpack_from("!I", sample, rate_at)
            struct.pack_into("!I", sample, rate_at, rate * keep_one_in)
        kept.append(bytes(sample))
    return datagram[:count_at] + struct.pack("!I", len(kept)) + b"".join(kept)


def _checksum(header: bytes | bytearray) -> int:
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
