"""Fixtures of the collector's tests."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from collector.capture import read_capture
from collector.packets import Faults


def payloads_of(path: Path) -> list[bytes]:
    """The telemetry datagrams of a capture, or the one that a raw file holds."""
    if path.suffix in (".bin", ".dump"):
        return [path.read_bytes()]
    return [
        batch.buffer[at : at + size].tobytes()
        for batch in read_capture(path, Faults())
        for at, size in zip(batch.offset.tolist(), batch.length.tolist(), strict=True)
    ]


@pytest.fixture(scope="session")
def sflow_files(shared: Path) -> list[Path]:
    """Files of sFlow datagrams that have a reading by sflowtool beside them."""
    readings = sorted((shared / "corpus").glob("*/*.sflowtool.jsonl"))
    files = [path.with_name(path.name.removesuffix(".sflowtool.jsonl")) for path in readings]
    assert len(files) > 20
    return files


def frames_of(path: Path) -> list[bytes]:
    """The packets of a little-endian pcap file, read without the code under test."""
    data, at, frames = path.read_bytes(), 24, []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        frames.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return frames
