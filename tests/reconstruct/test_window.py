from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.schema import FlowBatch
from reconstruct.binning import bin_slice
from reconstruct.bins import Connections, Endpoints, Progress, ProgressBins
from reconstruct.progress import join
from reconstruct.slices import Slice
from reconstruct.window import LEVELS, MERGED, Window
from tests.reconstruct.made import START_NS, S, exporters_of, packets

EXPORTERS = exporters_of(packets([0], 0, 1))


def part(second: int, rows: int = 1, lasts: int = 1) -> Slice:
    """The slice that begins in a second, with a few bins."""
    at = second * S + np.arange(rows) * 20_000_000
    start = START_NS + second * S
    return bin_slice(
        packets(at, 0, 1, seq=1_000 * second + np.arange(rows)),
        EXPORTERS,
        start,
        start + lasts * S - 1,
    )


def silence(second: int, lasts: int) -> Slice:
    start = START_NS + second * S
    return bin_slice(FlowBatch.empty(), EXPORTERS, start, start + lasts * S - 1)


def seconds(window: Window) -> tuple[int, int]:
    """Start and end of what is held, the end as of a next slice."""
    return (window.start_ns - START_NS) // S, (window.end_ns + 1 - START_NS) // S


def assert_same(one: Progress, other: Progress) -> None:
    assert (one.window_start_ns, one.window_end_ns) == (other.window_start_ns, other.window_end_ns)
    for name, kind in (
        ("endpoints", Endpoints),
        ("connections", Connections),
        ("bins", ProgressBins),
    ):
        for field in fields(kind):
            np.testing.assert_array_equal(
                getattr(getattr(one, name), field.name), getattr(getattr(other, name), field.name)
            )


def test_an_empty_window() -> None:
    window = Window(10 * S, 100)
    assert (window.start_ns, window.end_ns, window.rows) == (0, 0, 0)
    assert list(window.slices()) == []
    assert list(window.slices(START_NS)) == []


def test_slices_leave_by_age() -> None:
    window = Window(5 * S, 1_000)
    for second in range(9):
        window.add(part(second))
    assert seconds(window) == (3, 9)
    assert window.rows == 6


def test_slices_leave_by_rows() -> None:
    window = Window(100 * S, 7)
    for second in range(5):
        window.add(part(second, rows=3))
    assert seconds(window) == (3, 5)
    assert window.rows == 6


def test_the_newest_slice_is_always_kept() -> None:
    window = Window(100 * S, 7)
    window.add(part(0))
    window.add(part(1, rows=9))
    assert seconds(window) == (1, 2)
    assert window.rows == 9


def test_old_slices_become_one() -> None:
    window = Window(1_000 * S, 10_000)
    for second in range(2 * MERGED - 1):
        window.add(part(second))
    assert len(window.slices()) == 2 * MERGED - 1
    window.add(part(2 * MERGED - 1))
    assert len(window.slices()) == 1 + MERGED
    assert seconds(window) == (0, 2 * MERGED)
    assert window.rows == 2 * MERGED


def test_an_old_window_is_few_slices() -> None:
    window = Window(10_000 * S, 10_000)
    for second in range(4 * MERGED**2):
        window.add(part(second))
    assert len(window.slices()) <= 4 + 2 * MERGED * (LEVELS - 1)
    assert seconds(window) == (0, 4 * MERGED**2)
    lengths = [(s.end_ns + 1 - s.start_ns) // S for s in window.slices()]
    assert lengths == sorted(lengths, reverse=True)
    assert set(lengths) == {1, MERGED, MERGED**2}


def test_slices_since_a_moment() -> None:
    window = Window(1_000 * S, 10_000)
    for second in range(2 * MERGED):
        window.add(part(second))
    newest = window.slices(START_NS + (2 * MERGED - 2) * S)
    assert [(s.start_ns - START_NS) // S for s in newest] == [2 * MERGED - 2, 2 * MERGED - 1]
    # The merged slice reaches beyond the moment, so all of it is there.
    assert [(s.start_ns - START_NS) // S for s in window.slices(START_NS + S)][:2] == [0, MERGED]
    assert list(window.slices(window.end_ns)) == []


def test_a_clock_that_is_set_back_begins_anew() -> None:
    window = Window(1_000 * S, 10_000)
    for second in range(100, 130):
        window.add(part(second))
    window.add(part(105))
    window.add(part(106))
    assert seconds(window) == (105, 107)
    assert window.rows == 2


def test_a_gap_between_slices_is_no_new_beginning() -> None:
    window = Window(1_000 * S, 10_000)
    window.add(part(0))
    window.add(part(50))
    assert seconds(window) == (0, 51)


def test_a_long_silence_does_not_stretch_the_window() -> None:
    window = Window(60 * S, 1_000)
    window.add(part(0))
    window.add(silence(1, lasts=7_200))
    assert seconds(window) == (7_141, 7_201)
    window.add(part(7_201))
    assert seconds(window) == (7_141, 7_202)
    assert window.rows == 1


slices = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=70
)


@given(slices, st.integers(5, 60), st.integers(1, 60))
def test_bounds_hold_and_nothing_but_the_oldest_is_missing(
    drawn: list[tuple[int, int, int]], length_s: int, most_rows: int
) -> None:
    window = Window(length_s * S, most_rows)
    given_in: list[Slice] = []
    second = 0
    for gap, rows, lasts in drawn:
        second += gap
        given_in.append(part(second, rows, lasts) if rows else silence(second, lasts))
        window.add(given_in[-1])
        second += lasts
        held = window.slices()
        assert len(held) == 1 or window.rows <= most_rows
        assert len(held) == 1 or held[0].end_ns >= window.end_ns - length_s * S
        assert all(a.end_ns < b.start_ns for a, b in pairwise(held))
    newest = [s for s in given_in if s.start_ns >= window.start_ns]
    assert window.rows == sum(len(s.bins) for s in newest)
    assert window.end_ns == given_in[-1].end_ns


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_joined_is_the_same_as_of_the_slices_themselves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = MERGED**2 + 3 * MERGED + 4
    window = Window(1_000 * S, 100_000)
    plain = []
    for second in range(count):
        rows = int(rng.integers(0, 6))
        at = np.sort(rng.choice(100, rows, replace=False)) * 10_000_000 + second * S
        src = rng.integers(0, 3, rows)
        seq = ((1 << 24) - 20_000 + at // 1_000_000) % (1 << 24)
        start = START_NS + second * S
        plain.append(
            bin_slice(
                packets(at, src, src + 1, seq=seq, dest_qp=src), EXPORTERS, start, start + S - 1
            )
        )
        window.add(plain[-1])
    assert len(window.slices()) < count
    assert_same(join(window.slices()), join(plain))
