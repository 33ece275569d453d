"""A hostile network: prefixes of datagrams and a million damaged ones, through `Ingest`."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.captures import Capture
from collector.exporters import MOST_EXPORTERS
from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import DecodeError, ExporterHealth, FlowBatch
from tests.collector import encode as e
from tests.collector import mutate, seeds
from tests.collector.conftest import payloads_of
from tests.collector.twins import assert_equal_to_twin

Columns = dict[str, NDArray[Any]]

# The smallest sample is its tag and its length.
SAMPLE_BYTES = 8
SENTRIES = 8  # exporters whose datagrams are not damaged
# What a row says of the packet itself; when it was taken depends on the datagrams before it.
TIMES = ("time_ns", "time_min_ns", "time_basis")


def columns(piece: object) -> Columns:
    """The columns of a batch, also of batches within it."""
    found: Columns = {}
    assert is_dataclass(piece)
    for field in fields(piece):
        value = getattr(piece, field.name)
        if isinstance(value, np.ndarray):
            found[field.name] = value
        elif is_dataclass(value):
            found |= {f"{field.name}.{name}": column for name, column in columns(value).items()}
    return found


def number_of_rows(piece: object) -> int:
    return len(next(iter(columns(piece).values())))


def exporter_of(piece: object) -> NDArray[np.int32]:
    """Which exporter each row is of."""
    return next(
        column for name, column in columns(piece).items() if name.split(".")[-1] == "exporter"
    )


def assert_same(left: Columns, right: Columns) -> None:
    assert left.keys() == right.keys()
    for name, column in left.items():
        np.testing.assert_array_equal(column, right[name], name)


class Reader:
    """An `Ingest` that is held to the size of what it reads."""

    def __init__(self) -> None:
        self.ingest = Ingest()
        self.faults = Faults()

    def add(self, batch: DatagramBatch) -> tuple[Any, ...]:
        pieces: tuple[Any, ...] = self.ingest.add(batch, self.faults)
        rows = sum(number_of_rows(piece) for piece in pieces)
        assert rows * SAMPLE_BYTES <= int(batch.length.sum())
        return pieces

    def exporters(self) -> tuple[ExporterHealth, ...]:
        return self.ingest.telemetry([]).exporters

    def errors(self) -> list[DecodeError]:
        return self.faults.errors()


def ends_of_flow_samples(data: bytes) -> list[int]:
    """Where each flow sample ends, by a walk of its own."""
    at = 28 if data[7] == 1 else 40
    (count,) = struct.unpack_from(">I", data, at - 4)
    ends = []
    for _ in range(count):
        tag, size = struct.unpack_from(">II", data, at)
        at += 8 + size
        if tag in (1, 3):
            ends.append(at)
    return ends


def assert_prefixes_hold_whole_samples(payloads: Sequence[bytes]) -> None:
    """Every prefix of each datagram gives the samples that are whole in it, and no others."""
    for payload in payloads:
        (whole, *_), arrival_ns = Reader().add(batch_of([payload])), e.EPOCH_NS
        sizes = np.arange(len(payload) + 1)
        held = np.zeros((len(sizes), len(payload)), np.uint8)
        held[:] = np.frombuffer(payload, np.uint8)
        rows = mutate.Datagrams(held, sizes)
        read = [Reader().add(mutate.as_batch(rows, arrival_ns, fill)) for fill in (0, 0xFF)]
        for one, other in zip(*read, strict=True):
            assert_same(columns(one), columns(other))
        flows: FlowBatch = read[0][0]
        number = np.searchsorted(ends_of_flow_samples(payload), sizes, side="right")
        assert len(flows) == number.sum()
        index = np.concatenate([np.arange(n) for n in number])
        for name, column in columns(flows).items():
            if name not in TIMES:
                np.testing.assert_array_equal(column, columns(whole)[name][index], name)


def batch_of(payloads: Sequence[bytes], arrival_ns: int = e.EPOCH_NS) -> DatagramBatch:
    return mutate.as_batch(mutate.together(payloads), arrival_ns, 0)


def test_every_prefix_of_every_kind_of_datagram() -> None:
    assert_prefixes_hold_whole_samples(seeds.datagrams())


def test_every_prefix_of_every_corpus_datagram(sflow_files: list[Path]) -> None:
    payloads = [payload for path in sflow_files for payload in payloads_of(path)]
    assert len(payloads) > 100
    assert_prefixes_hold_whole_samples(payloads)


def test_every_prefix_of_datagrams_of_a_fabric(capture: Callable[..., Capture]) -> None:
    payloads = payloads_of(capture("dp_ring", level="starved").pcap)
    assert_prefixes_hold_whole_samples(payloads[:: len(payloads) // 100])


def sentry(seed: bytes, number: int, sequence: int) -> bytes:
    """The samples of `seed` from an exporter that no damage can name."""
    head = 28 if seed[7] == 1 else 40
    agent = struct.pack(">QQ", 0x3FFE_5EA7_0000_0000 | number, 0x6B8B_4567_327B_23C6)
    sub_agent, _, uptime_ms, count = struct.unpack(">4I", seed[head - 16 : head])
    fixed = struct.pack(">4I", sub_agent, sequence, uptime_ms, count)
    return struct.pack(">II", 5, 2) + agent + fixed + seed[head:]


def between(
    guard: mutate.Datagrams, damaged: mutate.Datagrams, places: NDArray[np.intp]
) -> mutate.Datagrams:
    """The rows of `guard` at `places` among those of `damaged`."""
    rows = len(guard.data) + len(damaged.data)
    width = max(guard.data.shape[1], damaged.data.shape[1])
    mixed = mutate.Datagrams(np.zeros((rows, width), np.uint8), np.zeros(rows, np.int64))
    others = np.delete(np.arange(rows), places)
    for where, part in ((places, guard), (others, damaged)):
        mixed.data[where, : part.data.shape[1]] = part.data
        mixed.length[where] = part.length
    return mixed


def assert_damage_hurts_nothing_else(kinds: Sequence[bytes], rows: int, seed: int) -> None:
    """Nothing raises, what is whole is read as if alone, and what stands behind an end is not read.

    Some exporters send whole datagrams among `rows` damaged ones, which are read twice, with
    different bytes between the datagrams. Some are read by the slow twin too.
    """
    batch, random = 10_000, np.random.default_rng(seed)
    originals = mutate.together(kinds)
    alone, low, high = Reader(), Reader(), Reader()
    for turn in range(rows // batch):
        guard = mutate.together(
            [
                sentry(kind, n % SENTRIES, turn * len(kinds) + n)
                for n, kind in enumerate(seeds.datagrams())
            ]
        )
        damaged = mutate.mutations(originals, batch, random)
        some = zip(damaged.data[:40], damaged.length.tolist(), strict=False)
        assert_equal_to_twin([row[:length].tobytes() for row, length in some])
        # In the first turn the sentries come first: the table of exporters has an end.
        where = random.choice(batch, len(guard.data), replace=False)
        mixed = between(guard, damaged, np.sort(where) if turn else np.arange(len(guard.data)))
        now_ns = e.EPOCH_NS + turn * e.SECOND
        expected = alone.add(mutate.as_batch(guard, now_ns, 0))
        read = [
            reader.add(mutate.as_batch(mixed, now_ns, fill))
            for reader, fill in ((low, 0), (high, 0xFF))
        ]
        known = len(alone.exporters())
        for one, other, true in zip(*read, expected, strict=True):
            found = columns(one)
            assert_same(found, columns(other))
            ours = exporter_of(one) < known
            assert_same({name: column[ours] for name, column in found.items()}, columns(true))
    assert low.exporters()[:known] == alone.exporters()
    assert low.exporters() == high.exporters()
    assert low.errors() == high.errors()
    assert len(low.exporters()) <= MOST_EXPORTERS


@pytest.mark.parametrize("seed", range(5))
def test_a_million_damaged_datagrams(seed: int) -> None:
    assert_damage_hurts_nothing_else(seeds.datagrams(), 200_000, seed)


def test_damaged_corpus_datagrams(sflow_files: list[Path]) -> None:
    payloads = [payload for path in sflow_files for payload in payloads_of(path)]
    assert_damage_hurts_nothing_else(payloads, 100_000, seed=5)


def test_no_kernel_reads_outside_its_arrays(tmp_path: Path) -> None:
    # Compiled code does not look where it reads, unless it is told to when it is compiled.
    told = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    chosen = "every_prefix_of_every_kind or a_million_damaged_datagrams and 0"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


SMALLEST = [struct.pack(">II", tag, 0) for tag in (1, 2, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    "samples",
    [
        *((sample,) * 8000 for sample in SMALLEST),
        (e.flow_sample(*[e.record(1001, b"")] * 8000),),
        (e.counter_sample(*[e.record(1, b"")] * 8000),),
        tuple(e.counter_sample(e.record(1, b"\1" * 88)) for _ in range(500)),
    ],
    ids=["flow", "counters", "flow_x", "counters_x", "discard", "unknown", "f_rec", "c_rec", "c"],
)
def test_memory_is_bounded_by_the_bytes_read(samples: tuple[bytes, ...]) -> None:
    data = e.datagram(*samples)
    batch = batch_of([data] * 20)
    read_bytes = int(batch.length.sum())
    reader = Reader()
    reader.add(batch_of([e.datagram(sequence=9)]))  # compiles
    tracemalloc.start()
    try:
        reader.add(batch)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A sample of eight bytes is a row of all columns, once as read and once as kept.
    assert peak_bytes < 100 * read_bytes


def forged(random: np.random.Generator, count: int) -> list[bytes]:
    """Datagrams of agents, samplers, ports, connections and rates that nobody has seen before."""
    found = []
    for n in range(count):
        agent, name = random.bytes(16), random.bytes(8)
        index, rate, tag, qp, psn = random.integers(1 << 32, size=5).tolist()
        src = f"10.{index & 0xFF}.{rate & 0xFF}.{tag & 0xFF}"
        header = e.raw_header(e.roce(e.bth(7, qp & 0xFF_FFFF, psn & 0xFF_FFFF) + b"d" * 64, src))
        records = [e.timestamp(e.EPOCH_NS + psn), header]
        known = e.datagram(
            e.flow_sample(*records, source=(index >> 8 & 0xFF, index), rate=rate),
            e.counter_sample(
                e.record(1, e.GENERIC_COUNTERS.pack(index, *range(18))),
                e.record(1005, struct.pack(">I", 8) + name),
                e.record(tag, b"\0" * 8),
            ),
            e.record(tag, b"\0" * 8),
            agent="10.9.9.9",
            sub_agent=n % 3,
            sequence=index,
            uptime_ms=rate,
        )
        found += [known, struct.pack(">II", 5, 2) + agent + known[12:], agent]
    return found


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"MOST_EXPORTERS", "MOST_SOURCES", "MOST_PORTS", "MOST_NAMES", "MOST_TAGS"}
    bounds = {*tables, "_MOST_ROWS"}
    found = {
        (module, name)
        for module in list(sys.modules)
        if module.startswith("collector.")
        for name in bounds & set(vars(sys.modules[module]))
    }
    assert {name for _, name in found} == bounds
    for module, name in found:
        monkeypatch.setattr(f"{module}.{name}", 256)
    random, reader = np.random.default_rng(3), Reader()
    held_bytes = []
    tracemalloc.start()
    try:
        for turn in range(40):
            reader.add(batch_of(forged(random, 300), e.EPOCH_NS + turn * e.SECOND))
            held_bytes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(reader.exporters()) == 256
    # 20 turns name 12,000 agents and more samplers, ports and tags; a table without an end keeps
    # 50 bytes of each.
    assert held_bytes[-1] - held_bytes[19] < 100_000
