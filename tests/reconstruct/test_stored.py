from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from collector.schema import FlowBatch
from reconstruct.binning import bin_slice
from reconstruct.bins import BIN_NS
from reconstruct.progress import join
from reconstruct.stored import SCHEMA, from_table, to_table
from tests.reconstruct.made import START_NS
from tests.reconstruct.test_merging import MS, assert_same, cut, mixed

AT = START_NS // BIN_NS * BIN_NS


@given(st.integers(0, 1 << 16), st.randoms(use_true_random=False))
def test_slices_come_back_from_a_table_in_any_order(seed: int, random: object) -> None:
    slices = cut(mixed(seed), AT + 1_000 * MS, AT + 2_500 * MS)
    table = pa.concat_tables([to_table(part) for part in slices])
    assert table.schema.equals(SCHEMA)
    rows = list(range(len(table)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    again = from_table(table.take(rows))
    assert [(p.start_ns, p.end_ns) for p in again] == [(p.start_ns, p.end_ns) for p in slices]
    # Acknowledgements, and with them the mean message, are not kept.
    assert_same(join(again), join(slices), but=("mean_message_bytes", "bare_bytes"))


def test_a_stored_slice_goes_on_in_a_new_one() -> None:
    first, second = cut(mixed(7), AT + 2_000 * MS)
    (again,) = from_table(to_table(first))
    assert_same(
        join([again, second]), join([first, second]), but=("mean_message_bytes", "bare_bytes")
    )


def test_silence_has_no_rows() -> None:
    quiet = bin_slice(FlowBatch.empty(), (), AT, AT + MS)
    assert len(to_table(quiet)) == 0
    assert from_table(SCHEMA.empty_table()) == []
