"""Flow records as bins: what they show, and what they hide."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from collector.records import ABSENT_U64, RecordBatch
from reconstruct.bins import RECORD_UNIT_BYTES, ProgressBins, Verb
from reconstruct.progress import join
from reconstruct.records import EDGE_ROWS, bins_of_records, hidden_ns
from reconstruct.slices import Slice
from reconstruct.volumes import window_volumes
from tests.reconstruct.recorded import EXPORTER, MS, joined, roce

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
STEP = 4096 // RECORD_UNIT_BYTES  # positions that a full packet moves


def binned(records: RecordBatch, start_ms: float = 0, end_ms: float = 100_000) -> Slice:
    return bins_of_records(records, (EXPORTER,), round(start_ms * MS), round(end_ms * MS))


def times(bins: ProgressBins) -> list[tuple[int, int, int]]:
    """First, last and slack of each row, ms."""
    columns = (bins.first_ns, bins.last_ns, bins.slack_ns)
    return list(zip(*((c // MS).tolist() for c in columns), strict=True))


def sharp(bins: ProgressBins) -> list[int]:
    """Moments that are known well, ms."""
    return sorted(set(np.rint(bins.last_ns[bins.slack_ns == 0] / MS).astype(int).tolist()))


def test_a_long_record_tells_its_ends_and_what_lies_between_loosely() -> None:
    rows = [(A, B, 0, 900, 51_200), (A, B, 4000, 4600, 25_600)]
    bins = binned(roce(rows)).bins
    assert bins.samples.tolist() == [1] * EDGE_ROWS + [192] + [1] * 2 * EDGE_ROWS + [92] + [1] * 4
    assert np.all(np.diff(bins.last_ns[:EDGE_ROWS]) == 1)
    assert bins.last_ns[-1] == 4600 * MS
    once = bins.take(np.array([0, 4, 8, 9, 13, 17]))
    assert times(once) == [
        (0, 0, 0),
        (0, 900, 900),
        (900, 900, 0),
        (4000, 4000, 0),
        (4000, 4600, 600),
        (4600, 4600, 0),
    ]
    assert once.first_seq.tolist() == [0, 0, 204_800, 204_800, 204_800, 307_200]
    assert once.last_seq.tolist() == [0, 204_800, 204_800, 204_800, 307_200, 307_200]
    assert bins.scaled_bytes.sum() == pytest.approx(76_800 * (4096 + 44 + 18))
    assert hidden_ns(bins, np.array([0], np.int32)) == 900 * MS


def test_short_records_of_few_messages_hide_too() -> None:
    """Open vSwitch, nfprobe: a burst a second, all of it in as many rows as its ends have."""
    rows = [(A, B, s, s + 900, 500) for s in range(0, 20_000, 1600)]
    bins = binned(roce(rows)).bins
    assert hidden_ns(bins, np.array([0], np.int32)) == 900 * MS
    assert sharp(bins) == sorted({t for s in range(0, 20_000, 1600) for t in (s, s + 900)})


@pytest.mark.parametrize(
    ("rate", "unlike", "known"), [(10, 40, True), (10, 5, False), (512, 5, True)]
)
def test_counts_that_the_exporter_multiplied(rate: int, unlike: int, known: bool) -> None:
    """By a rate that it does not tell: all counts are multiples of it."""
    counts = [7 + n % unlike for n in range(60)]
    told = roce([(A, B, 2000 * n, 2000 * n + 900, k) for n, k in enumerate(counts)], rate=rate)
    silent = told.take(np.arange(60))
    silent.packets[:] *= np.uint64(rate)
    silent.bytes[:] *= np.uint64(rate)
    silent.sampling_rate.fill(0)
    one, other = (join([binned(records, 0, 200_000)]) for records in (told, silent))
    assert window_volumes(one).bytes.tolist() == pytest.approx(window_volumes(other).bytes.tolist())
    assert np.array_equal(one.bins.samples, other.bins.samples) is known


def test_records_that_follow_at_once_hide_nothing() -> None:
    rows = [(A, B, start, start + 25, 2560) for start in range(0, 900, 30)]
    bins = binned(roce(rows)).bins
    assert not bins.slack_ns.any()
    assert times(bins)[:4] == [(0, 8, 0), (8, 16, 0), (16, 25, 0), (30, 38, 0)]
    assert bins.samples[:3].sum() == 10
    assert bins.last_seq[:3].tolist() == [2560 * STEP // 3, 2 * 2560 * STEP // 3, 2560 * STEP]


def test_what_an_active_timeout_cut_is_no_pause() -> None:
    rows = [(A, B, s, s + 999.9, 50_000) for s in (0, 1000, 2000)] + [(A, B, 6000, 6500, 25_000)]
    bins = binned(roce(rows)).bins
    assert sharp(bins) == [0, 3000, 6000, 6500]


def test_single_sampled_packets_are_points() -> None:
    rows = [(A, B, t, t, 1) for t in (100, 1300, 2700)] + [(A, B, 4000, 4400, 2)]
    bins = binned(roce(rows, rate=1000)).bins
    assert times(bins) == [(t, t, 0) for t in (100, 1300, 2700, 4000, 4400)]
    assert bins.samples.tolist() == [1] * 5
    assert bins.last_seq[-1] == 5 * 1000 * STEP


def test_neighbours_of_sampled_records_are_one_where_their_packets_are_as_far_apart() -> None:
    rows = [(A, B, 0, 900, 10), (A, B, 1050, 2000, 10), (A, B, 5000, 5900, 10)]
    bins = binned(roce(rows, rate=1000)).bins
    assert sharp(bins) == [0, 2000, 5000, 5900]


def test_volumes_are_those_counted() -> None:
    rows = [(A, B, s, s + 300, 10_000) for s in range(0, 20_000, 2000)]
    progress = join([binned(joined([roce(rows), roce([(B, C, 0, 0, 7)], rate=2000)]))])
    volumes = window_volumes(progress)
    assert volumes.bytes.tolist() == pytest.approx([10 * 10_000 * 4096, 14_000 * 4096])
    assert progress.connections.verbs.tolist() == [Verb.RECORDED] * 2


def test_slices_of_records_are_one_again() -> None:
    rows = [(A, B, s, s + 700, 7000) for s in range(0, 9000, 1500)]
    records = joined([roce(rows), roce([(B, A, s + 100, s + 650, 999) for s in (0, 3000, 8800)])])
    whole = join([binned(records, 0, 9999)])
    cuts = (0, 400, 1600, 1650, 9300, 10_000)
    parts = join([binned(records, a, b - 1e-6) for a, b in pairwise(cuts)])
    assert parts.endpoints.names == whole.endpoints.names
    np.testing.assert_allclose(
        window_volumes(parts).bytes, window_volumes(whole).bytes, atol=6 * RECORD_UNIT_BYTES
    )
    for connection in range(2):
        # No cut makes a packet of its own.
        assert sharp(parts.bins.take(parts.bins.connection == connection)) == sharp(
            whole.bins.take(whole.bins.connection == connection)
        )
    assert np.all(np.diff(parts.bins.last_seq[parts.bins.connection == 0]) >= -1)


def test_only_what_reaches_into_the_slice_counts() -> None:
    records = roce([(A, B, 0, 100, 100), (A, B, 500, 1500, 100), (A, B, 3000, 3100, 100)])
    progress = join([binned(records, 1000, 2000)])
    assert window_volumes(progress).bytes.tolist() == pytest.approx([50 * 4096])


def test_one_count_follows_from_the_other() -> None:
    records = roce([(A, B, 0, 100, 100), (B, C, 0, 100, 100)])
    records.packets[0] = ABSENT_U64
    records.bytes[1] = ABSENT_U64
    progress = join([binned(records)])
    assert window_volumes(progress).bytes.tolist() == pytest.approx([100 * 4096] * 2, rel=0.01)


def test_other_protocols_and_odd_rows_are_left_out() -> None:
    records = roce([(A, B, 0, 100, 100)] * 4)
    records.dst_port[0] = 53
    records.end_ns[1] = -5
    records.packets[2], records.bytes[2] = 0, 0
    records.protocol[3] = 1
    built = binned(records)
    assert len(built.bins) == len(built.streams) == len(built.endpoints) == 0
    assert len(join([built]).connections) == 0


def test_no_records() -> None:
    assert len(join([binned(RecordBatch.empty(0))]).bins) == 0
