from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collector.addresses import from_text
from collector.records import Doubt, RecordBatch
from collector.schema import FlowBatch, HeaderState, Transport
from reconstruct.untold import untold

Pair = tuple[str, str]
RING: Sequence[Pair] = (
    ("10.0.0.1", "10.0.0.2"),
    ("10.0.0.2", "10.0.0.3"),
    ("10.0.0.3", "10.0.0.1"),
)


def between(rows: RecordBatch | FlowBatch, pairs: Sequence[Pair]) -> None:
    for row, (src, dst) in enumerate(pairs):
        rows.src_hi[row], rows.src_lo[row] = from_text(src)
        rows.dst_hi[row], rows.dst_lo[row] = from_text(dst)
    rows.vni.fill(0xFFFF_FFFF)


def records(*pairs: Pair) -> RecordBatch:
    rows = RecordBatch.empty(len(pairs))
    between(rows, pairs)
    rows.bytes[:] = np.arange(len(pairs))
    return rows


def samples(*pairs: Pair, state: HeaderState = HeaderState.COMPLETE) -> FlowBatch:
    rows = FlowBatch.empty(len(pairs))
    between(rows, pairs)
    rows.transport.fill(Transport.ROCEV2)
    rows.header_state.fill(state)
    return rows


def kept(rows: RecordBatch, flows: FlowBatch) -> list[int]:
    return [int(number) for number in untold(rows, flows).bytes.tolist()]


def test_samples_speak_for_the_pairs_they_are_of() -> None:
    assert kept(records(*RING), samples(RING[1])) == [0, 2]
    assert kept(records(*RING), samples(*RING)) == []


def test_the_other_direction_is_another_pair() -> None:
    assert kept(records(RING[0]), samples(RING[0][::-1])) == [0]


def test_samples_that_tell_nothing_leave_the_records() -> None:
    assert kept(records(*RING), samples()) == [0, 1, 2]
    assert kept(records(*RING), samples(RING[1], state=HeaderState.TRUNCATED_BTH)) == [0, 1, 2]


def test_another_tenant_s_pair_is_another() -> None:
    flows = samples(RING[1])
    flows.vni.fill(7)
    assert kept(records(*RING), flows) == [0, 1, 2]


def test_what_is_told_twice_counts_once() -> None:
    rows = records(*RING, RING[0])
    rows.doubts[3] = Doubt.TWICE | Doubt.FROM_TOTAL
    assert kept(rows, samples()) == [0, 1, 2]
