"""How much processor time a flow record takes to decode, beside a twin and beside peers.

`python bench/decode.py --ipfix` runs this. Messages are as a switch sends them: a template of
sixteen fields now and then, and records of flows between NICs, as many as a datagram holds.

- in batches, as the service takes them from a busy wire, and one by one;
- with `tests.naive_ipfix`, a twin in plain Python that must read the same;
- with the decoders of PyPI that read IPFIX, in a process of their own, where they are installed
  (`bench.record_peers` says how);
- with nfacctd (pmacct), where it is installed: it reads a capture, a short one and a long one, and
  the difference counts. What it does beside decoding (add up, write) cannot be had apart.

Exits with 1 where ringscope takes more than half of nfacctd's time, or more than an eighth of the
best PyPI decoder's.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from bench.peers import Cost
from bench.record_peers import DECODERS, decoder, nfacctd
from collector.ipfix import IpfixIngest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.records import RecordBatch
from tests import naive_ipfix
from tests.collector.ipfix.arrivals import Arrival

RECORDS: Final = 22  # of 61 bytes: a datagram of some 1,360
TIMES_NFACCTD: Final = 2.0
TIMES_PYPI: Final = 8.0
TEMPLATE_EVERY: Final = 200  # messages
BATCH: Final = 3_000  # datagrams: as many as the backlog joins
_BATCHES: Final = 8
_ROUNDS: Final = 8
_SINGLE: Final = 2_000
_PLAIN: Final = 400
_EPOCH_S: Final = 1_800_000_000
# Element and width of each field.
FIELDS: Final = (
    *((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (5, 1), (6, 1)),
    *((10, 4), (14, 4), (61, 1), (1, 8), (2, 8), (152, 8), (153, 8), (136, 1), (302, 4)),
)


def make_message(number: int) -> bytes:
    """One message: records, and the template in front of the first of each `TEMPLATE_EVERY`."""
    records = b"".join(_record(number * RECORDS + n) for n in range(RECORDS))
    sets = struct.pack(">HH", 256, 4 + len(records)) + records
    if number % TEMPLATE_EVERY == 0:
        fields = b"".join(struct.pack(">HH", *field) for field in FIELDS)
        template = struct.pack(">HH", 256, len(FIELDS)) + fields
        sets = struct.pack(">HH", 2, 4 + len(template)) + template + sets
    head = (10, 16 + len(sets), _EPOCH_S, number * RECORDS & 0xFFFF_FFFF, 1)
    return struct.pack(">HHIII", *head) + sets


def _record(nth: int) -> bytes:
    packets = 1 + nth * 7919 % 100_000
    end_ms = _EPOCH_S * 1000 - nth % 900
    return struct.pack(
        ">4B4BHHBBBIIBQQQQBI",
        *(10, 0, nth >> 8 & 255, nth & 255, 10, 0, nth >> 16 & 255, nth * 5 & 255),
        *(49_152 + nth % 16_384, 4791, 17, 0x6A, 0),
        *(1 + nth % 64, 1 + nth * 3 % 64, 0),
        *(packets * 4136, packets, end_ms - 1000, end_ms, 2, 7),
    )


def make_batch(datagrams: int, first: int = 0) -> DatagramBatch:
    """A batch as `collector.capture` would hand it on."""
    payloads = [make_message(number) for number in range(first, first + datagrams)]
    length = np.array([len(payload) for payload in payloads], np.int64)
    offset = np.cumsum(length) - length
    return DatagramBatch(
        buffer=np.frombuffer(b"".join(payloads), np.uint8),
        offset=offset,
        length=length,
        arrival_ns=_EPOCH_S * 1_000_000_000 + 1000 * np.arange(first, first + datagrams),
        src_hi=np.zeros(datagrams, np.uint64),
        src_lo=np.full(datagrams, 0xFFFF_0AFF_0001, np.uint64),
        src_port=np.full(datagrams, 40_000, np.uint16),
        dst_port=np.full(datagrams, 4739, np.uint16),
        file_offset=offset,
        defect=np.zeros(datagrams, np.uint8),
    )


def decode(ingest: IpfixIngest, batch: DatagramBatch) -> RecordBatch:
    """The measured path: datagrams to a `RecordBatch`."""
    return ingest.add(batch, Faults())[0]


def _spent(work: Callable[[], int]) -> Cost:
    began = time.process_time()
    records = work()
    return Cost((time.process_time() - began) / records, None)


def batched() -> Cost:
    """Batch after batch; the best of some rounds, each over all batches."""
    batches = [make_batch(BATCH, first=n * BATCH) for n in range(_BATCHES)]
    decode(IpfixIngest(), batches[0])  # compiles, or loads what was compiled before

    def all_batches() -> int:
        ingest = IpfixIngest()
        return sum(len(decode(ingest, batch)) for batch in batches)

    return min((_spent(all_batches) for _ in range(_ROUNDS)), key=lambda cost: cost.whole_s)


def one_by_one() -> Cost:
    """Datagram by datagram."""
    singles = [make_batch(1, first=number) for number in range(_SINGLE)]
    ingest = IpfixIngest()
    return _spent(lambda: sum(len(decode(ingest, single)) for single in singles))


def twin() -> Cost:
    """Plain Python; fails where it reads something else than the kernels."""
    arrivals = [Arrival(make_message(number)) for number in range(_PLAIN)]
    plain = naive_ipfix.Decoder()

    def read() -> int:
        for arrival in arrivals:
            plain.add(arrival)
        return len(plain.rows)

    cost = _spent(read)
    records = decode(IpfixIngest(), make_batch(_PLAIN))
    for name in ("src_lo", "dst_lo", "src_port", "bytes", "packets", "start_ns", "end_ns", "input"):
        if getattr(records, name).tolist() != [row[name] for row in plain.rows]:
            raise SystemExit(f"kernels and twin read different values of {name}")
    return cost


def run(*, peers: bool) -> bool:
    """Measure and print; whether ringscope is fast enough."""
    ours = batched()
    print(f"{'':22}  records a second and core      alone, without the kernel   times")

    def say(name: str, cost: Cost) -> float:
        times = cost.whole_s / ours.whole_s
        user = "" if cost.user_s is None else f"{1 / cost.user_s:,.0f}"
        print(f"{name:22}  {1 / cost.whole_s:24,.0f}  {user:>30}  {times:6.1f}", flush=True)
        return times

    say("ringscope, batches", ours)
    say("ringscope, one by one", one_by_one())
    say("twin in plain Python", twin())
    good = True
    if not peers:
        return good
    messages = [make_message(number) for number in range(_SINGLE)]
    best: list[float] = []
    for name in DECODERS:
        cost = decoder(name, messages, _SINGLE * RECORDS)
        if cost is None:
            print(f"{name}: not installed")
        else:
            best.append(say(f"{name} (PyPI)", cost))
    if best:
        good &= min(best) >= TIMES_PYPI
    with tempfile.TemporaryDirectory() as scratch:
        cost = nfacctd(Path(scratch), make_message, RECORDS)
    if cost is None:
        print("nfacctd: not installed")
    else:
        good &= say("nfacctd", cost) >= TIMES_NFACCTD
    return good
