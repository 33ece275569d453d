from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.captures import Capture
from collector.ingest import ingest
from collector.schema import FlowBatch, Telemetry
from reconstruct.binning import bin_slice
from reconstruct.bins import BIN_NS, Connections, Endpoints, Progress, ProgressBins
from reconstruct.merging import group_rows, merge, outside, sent_by
from reconstruct.progress import follow, join
from reconstruct.slices import Slice
from tests.reconstruct.made import (
    ACKNOWLEDGE,
    MTU,
    START_NS,
    WRITE_LAST_IMM,
    WRITE_MIDDLE,
    WRITE_ONLY,
    exporters_of,
    packets,
    segments,
    telemetry,
)

MS = 1_000_000
TURN = 1 << 24


def cut(told: Telemetry, *moments_ns: int) -> list[Slice]:
    """Slices of some telemetry, cut at moments that lie between bins."""
    time = told.flows.time_ns
    edges = [int(time.min()), *sorted(moments_ns), int(time.max()) + 1]
    return [
        bin_slice(told.flows.take((time >= a) & (time < b)), told.exporters, a, b - 1)
        for a, b in pairwise(edges)
    ]


def assert_same(one: Progress, other: Progress, but: tuple[str, ...] = ()) -> None:
    assert (one.window_start_ns, one.window_end_ns) == (other.window_start_ns, other.window_end_ns)
    for part, kind in (
        ("endpoints", Endpoints),
        ("connections", Connections),
        ("bins", ProgressBins),
    ):
        for field in fields(kind):
            if field.name not in but:
                np.testing.assert_array_equal(
                    getattr(getattr(one, part), field.name),
                    getattr(getattr(other, part), field.name),
                    err_msg=f"{part}.{field.name}",
                )


def mixed(seed: int) -> Telemetry:
    """Connections of several kinds, seen at up to three points, with repeats and wraps."""
    rng = np.random.default_rng(seed)
    batches = []
    for src, dst in ((0, 1), (1, 2), (2, 0)):
        time = np.sort(rng.integers(0, 4_000, 60)) * MS
        seq = (TURN - 900_000 + 30_000 * np.arange(60)) % TURN
        for point in range(int(rng.integers(1, 4))):
            seen = rng.random(60) < (0.9 - 0.25 * point)
            opcode = rng.choice([WRITE_MIDDLE, WRITE_ONLY, WRITE_LAST_IMM], 60)
            batches.append(
                packets(time, src, dst, seq=seq, exporter=point, opcode=opcode, dest_qp=src).take(
                    seen
                )
            )
        batches.append(
            packets(
                time,
                dst,
                src,
                seq=seq,
                opcode=ACKNOWLEDGE,
                syndrome=0,
                msn=np.arange(60),
                dest_qp=9,
            )
        )
    batches.append(
        segments(np.sort(rng.integers(0, 4_000, 30)) * MS, 3, 4, seq=1000 * np.arange(30))
    )
    return telemetry(*batches)


@given(st.integers(0, 1 << 16), st.lists(st.integers(1, 399), max_size=6, unique=True))
def test_slices_joined_are_one_window(seed: int, at: list[int]) -> None:
    told = mixed(seed)
    moments = [(START_NS // BIN_NS + slot) * BIN_NS for slot in at]
    assert_same(join(cut(told, *moments)), follow(told), but=("mean_message_bytes",))


@given(st.integers(0, 1 << 16), st.integers(2, 300), st.integers(301, 398))
def test_merging_some_slices_first_changes_nothing(seed: int, one: int, other: int) -> None:
    first, second, third = cut(
        mixed(seed), *((START_NS // BIN_NS + slot) * BIN_NS for slot in (one, other))
    )
    assert_same(join([merge([first, second]), third]), join([first, merge([second, third])]))


def test_messages_by_acknowledgements_over_slices() -> None:
    time, seq = np.arange(400) * 10 * MS, (TURN - 1000 + 256 * np.arange(400)) % TURN
    told = telemetry(
        packets(time, 0, 1, seq=seq),
        packets(time + MS, 1, 0, seq=seq, opcode=ACKNOWLEDGE, syndrome=0, msn=np.arange(400)),
    )
    joined = join(cut(told, START_NS // BIN_NS * BIN_NS + 1_000 * MS))
    assert joined.connections.mean_message_bytes[0] == pytest.approx(256 * MTU)


def test_a_retransmission_behind_the_start_of_a_slice_is_one() -> None:
    told = telemetry(
        packets([100 * MS, 200 * MS], 0, 1, seq=[50_000, 60_000]),
        packets([1_100 * MS, 1_200 * MS], 0, 1, seq=[50_500, 61_000]),
    )
    joined = join(cut(told, START_NS // BIN_NS * BIN_NS + 1_000 * MS))
    assert joined.bins.retransmitted.tolist() == follow(told).bins.retransmitted.tolist()
    assert joined.bins.retransmitted.tolist() == [0, 0, 1, 0]


def test_only_what_wanted_endpoints_send() -> None:
    told = mixed(3)
    slices = cut(told, START_NS // BIN_NS * BIN_NS + 2_000 * MS)
    keys = merge(slices).endpoints.key
    whole, wanted = join(slices), join(slices, sent_by(keys[[0, 1, 2]]))
    names = {whole.endpoints.names[i] for i in (0, 1, 2)}
    inside = [whole.endpoints.names[s] in names for s in whole.connections.src]
    assert wanted.connections.key.tolist() == whole.connections.key[inside].tolist()
    rows = np.array(inside)[whole.bins.connection]
    assert wanted.bins.last_seq.tolist() == whole.bins.last_seq[rows].tolist()
    assert len(join(slices, sent_by(keys[:0])).bins) == 0


def test_only_what_lies_outside_of_sets() -> None:
    slices = cut(mixed(4), START_NS // BIN_NS * BIN_NS + 2_000 * MS)
    keys = merge(slices).endpoints.key
    whole = join(slices)
    rest = join(slices, outside([keys[[0, 1]], keys[[2, 3]]]))
    pairs = set(zip(whole.connections.src.tolist(), whole.connections.dst.tolist(), strict=True))
    assert {(0, 1), (1, 2), (2, 0), (3, 4)} <= pairs
    left = set(zip(rest.connections.src.tolist(), rest.connections.dst.tolist(), strict=True))
    assert left == pairs - {(0, 1), (1, 0)}
    assert_same(join(slices, outside([])), whole)


def test_silence_is_a_slice_too() -> None:
    told = mixed(1)
    slices = cut(told)
    later = slices[-1].end_ns + 1
    quiet = bin_slice(FlowBatch.empty(), (), later, later + 1_000 * MS)
    joined = join([*slices, quiet])
    assert joined.window_end_ns == later + 1_000 * MS
    assert len(joined.bins) == len(follow(told).bins)
    assert len(join([quiet]).connections) == 0


def test_a_capture_cut_into_seconds(capture: Callable[..., Capture]) -> None:
    told = ingest([capture("every_hop", 101, "normal").pcap])
    time = told.flows.time_ns
    edges = np.arange(time.min() // 10**9 + 1, time.max() // 10**9 + 1) * 10**9
    assert len(edges) > 15
    slices = cut(told, *edges.tolist())
    whole = follow(told)
    assert_same(join(slices), whole, but=("mean_message_bytes", "retransmitted"))
    assert_same(join([merge(slices[:7]), *slices[7:]]), join(slices))


@given(st.lists(st.integers(0, 9), max_size=60))
def test_rows_are_grouped_in_their_order(owner: list[int]) -> None:
    column: NDArray[np.int32] = np.array(owner, np.int32)
    assert group_rows(column, 10).tolist() == sorted(range(len(owner)), key=lambda i: (owner[i], i))


def test_an_exporter_keeps_its_key() -> None:
    """Slices that are read again later, or made by another process, must fit."""
    flows = packets([0], 0, 1, exporter=0)
    again = bin_slice(flows, exporters_of(flows), 0, 1).streams.point
    assert again.tolist() == bin_slice(flows, exporters_of(flows), 5, 6).streams.point.tolist()
