"""How many samples one core decodes, beside a twin in plain Python.

    python bench/decode.py [--datagrams N]

Makes datagrams as a switch with the usual agent sends them (six expanded samples, each the
timestamp first and then 128 bytes of a RoCEv2 packet), decodes all with the kernels and some with
`tests.naive`, in one run, and prints samples per second and core and their ratio. Exits with 1
where the kernels are less than 15 times as fast, or where the two do not read the same.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from pathlib import Path
from typing import Final

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from collector import headers, sflow
from collector.link import DatagramBatch
from collector.schema import FlowBatch
from tests import naive

SAMPLES: Final = 6
LEAST_RATIO: Final = 15.0
_TWIN_DATAGRAMS: Final = 2_000
_ROUNDS: Final = 5
_EPOCH_NS: Final = 1_800_000_000_000_000_000


def make_datagram(number: int) -> bytes:
    """One datagram of six expanded samples of RDMA writes, 128 bytes of header each."""
    samples = []
    for index in range(SAMPLES):
        psn = (number * SAMPLES + index) * 37 % (1 << 24)
        opcode, extended = (0x07, b"") if index else (0x06, struct.pack(">QII", 1, 2, 1 << 20))
        data = struct.pack(">BBHII", opcode, 0, 0xFFFF, 0x100 + index, psn) + extended
        data = data.ljust(128 - 42, b"\xa5")
        length = 4096 + 12 + len(extended) + 4
        udp = struct.pack(">HHHH", 49_152 + index, 4791, 8 + length, 0)
        addresses = bytes([10, 0, 0, 1 + index, 10, 0, 0, 2 + index])
        ip = struct.pack(">BBHHHBBH", 0x45, 0x6A, 28 + length, 0, 0x4000, 64, 17, 0) + addresses
        frame = b"\x02" * 12 + b"\x08\x00" + ip + udp + data
        raw = struct.pack(">6I", 1, 144, 1, 46 + length, 4, 128) + frame
        stamp = struct.pack(">IIQ", 1043, 8, _EPOCH_NS + number * 1_000_000 + index)
        fields = (number * SAMPLES + index, 0, 3, 4000, 0, 0, 0, 3, 0, 0, 2)
        body = struct.pack(">11I", *fields) + stamp + raw
        samples.append(struct.pack(">II", 3, len(body)) + body)
    head = struct.pack(">2I4B4I", 5, 1, 10, 255, 0, 1, 100_000, number, number, SAMPLES)
    return head + b"".join(samples)


def make_batch(datagrams: int) -> DatagramBatch:
    """A batch as `collector.capture` would hand it on."""
    payloads = [make_datagram(number) for number in range(datagrams)]
    length = np.array([len(payload) for payload in payloads], np.int64)
    offset = np.cumsum(length) - length
    return DatagramBatch(
        buffer=np.frombuffer(b"".join(payloads), np.uint8),
        offset=offset,
        length=length,
        arrival_ns=np.full(datagrams, _EPOCH_NS, np.int64),
        src_hi=np.zeros(datagrams, np.uint64),
        src_lo=np.zeros(datagrams, np.uint64),
        src_port=np.zeros(datagrams, np.uint16),
        dst_port=np.full(datagrams, 6343, np.uint16),
        file_offset=offset,
        defect=np.zeros(datagrams, np.uint8),
    )


def decode(batch: DatagramBatch) -> FlowBatch:
    """The measured path: datagrams to a `FlowBatch`, sampled headers read."""
    samples = sflow.decode(batch)
    sampled = samples.sampled
    headers.parse(
        batch.buffer,
        sampled.header_at,
        sampled.header_bytes,
        sampled.header_protocol,
        samples.flows,
    )
    return samples.flows


def main() -> int:
    """Measure, print, and say by the exit code whether the kernels are fast enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--datagrams", type=int, default=20_000)
    datagrams = parser.parse_args().datagrams
    batch = make_batch(datagrams)
    decode(batch)  # compiles, or loads what was compiled before
    best_s = float("inf")
    for _ in range(_ROUNDS):
        started = time.process_time()
        flows = decode(batch)
        best_s = min(best_s, time.process_time() - started)
    kernel_rate = len(flows) / best_s

    payloads = [make_datagram(number) for number in range(min(datagrams, _TWIN_DATAGRAMS))]
    started = time.process_time()
    rows = [row for payload in payloads for row in naive.decode(payload)["flows"]]
    twin_rate = len(rows) / (time.process_time() - started)

    ratio = kernel_rate / twin_rate
    print(f"kernels     {kernel_rate:12,.0f} samples per second and core ({len(flows):,} samples)")
    print(f"plain twin  {twin_rate:12,.0f} samples per second and core ({len(rows):,} samples)")
    print(f"ratio       {ratio:12.1f} (at least {LEAST_RATIO:g} wanted)")
    for name in ("src_lo", "dst_lo", "dest_qp", "seq", "message_bytes", "payload_bytes"):
        column = getattr(flows, name)[: len(rows)].tolist()
        if column != [row[name] for row in rows]:
            print(f"kernels and twin read different values of {name}", file=sys.stderr)
            return 1
    return 0 if ratio >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
