"""How much processor time a sample takes to decode, beside a twin in plain Python and beside peers.

    python bench/decode.py [--ipfix]

Makes datagrams as a switch with the usual agent sends them (six expanded samples, each the
timestamp first and then 128 bytes of a RoCEv2 packet) and decodes them, sampled headers and all;
with `--ipfix` it is flow records that are decoded, see `bench.decode_records`:

- in batches, as the service takes them from a busy wire, and one by one;
- with `tests.naive`, a twin that reads with `struct`, and must read the same;
- with sfacctd (pmacct) and sfcapd (nfdump), where they are installed. sfacctd reads a capture, a
  short one and a long one, and the difference counts; sfcapd is sent to over loopback.

What peers do beside decoding (receive, add up, write) cannot be had apart; what is counted is the
time of the process, and also that without the kernel's part. Exits with 1 where ringscope takes
more than a twentieth of the twin's time, or more than a fifth of the best peer's.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from bench import decode_records
from bench.peers import PEERS, Cost
from collector import sflow
from collector.link import DatagramBatch
from collector.malloc import keep_freed
from collector.schema import FlowBatch
from tests import naive

SAMPLES: Final = 6
TIMES_TWIN: Final = 20.0
TIMES_PEER: Final = 5.0
BATCH: Final = 3_000  # datagrams: as many as the backlog joins
_BATCHES: Final = 8  # more than caches hold
_ROUNDS: Final = 8
_SINGLE: Final = 2_000
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


def make_batch(datagrams: int, first: int = 0) -> DatagramBatch:
    """A batch as `collector.capture` would hand it on."""
    payloads = [make_datagram(number) for number in range(first, first + datagrams)]
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
    sflow.parse(batch.buffer, samples.flows, samples.sampled)
    return samples.flows


def spent(work: Callable[[], int]) -> Cost:
    """Processor time of some work that says how many samples it did."""
    began = time.process_time()
    samples = work()
    return Cost((time.process_time() - began) / samples, None)


def batched() -> Cost:
    """Batch after batch; the best of some rounds, each over all batches."""
    batches = [make_batch(BATCH, first=n * BATCH) for n in range(_BATCHES)]
    decode(batches[0])  # compiles, or loads what was compiled before
    rounds = [spent(lambda: sum(len(decode(batch)) for batch in batches)) for _ in range(_ROUNDS)]
    return min(rounds, key=lambda cost: cost.whole_s)


def one_by_one() -> Cost:
    """Datagram by datagram."""
    singles = [make_batch(1, first=number) for number in range(_SINGLE)]
    return spent(lambda: sum(len(decode(single)) for single in singles))


def twin() -> Cost:
    """Plain Python; fails where it reads something else than the kernels."""
    payloads = [make_datagram(number) for number in range(_SINGLE)]
    rows: list[dict[str, Any]] = []

    def read() -> int:
        for payload in payloads:
            rows.extend(naive.decode(payload)["flows"])
        return len(rows)

    cost = spent(read)
    flows = decode(make_batch(_SINGLE))
    for name in ("src_lo", "dst_lo", "dest_qp", "seq", "message_bytes", "payload_bytes"):
        if getattr(flows, name).tolist() != [row[name] for row in rows]:
            raise SystemExit(f"kernels and twin read different values of {name}")
    return cost


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether the kernels are fast enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--no-peers", action="store_true", help="only ringscope and its twin")
    parser.add_argument("--ipfix", action="store_true", help="flow records in place of samples")
    chosen = parser.parse_args(argv)
    keep_freed()
    if chosen.ipfix:
        return 0 if decode_records.run(peers=not chosen.no_peers) else 1
    ours, plain = batched(), twin()
    print(f"{'':22}  samples a second and core      alone, without the kernel   times")

    def say(name: str, cost: Cost) -> float:
        times = cost.whole_s / ours.whole_s
        user = "" if cost.user_s is None else f"{1 / cost.user_s:,.0f}"
        print(f"{name:22}  {1 / cost.whole_s:24,.0f}  {user:>30}  {times:6.1f}", flush=True)
        return times

    say("ringscope, batches", ours)
    say("ringscope, one by one", one_by_one())
    good = say("twin in plain Python", plain) >= TIMES_TWIN
    with tempfile.TemporaryDirectory() as scratch:
        for name, measure in {} if chosen.no_peers else PEERS.items():
            cost = measure(Path(scratch), make_datagram)
            if cost is None:
                print(f"{name}: not installed")
            else:
                good &= say(name, cost) >= TIMES_PEER
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
