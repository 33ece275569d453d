from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.schema import FlowBatch
from reconstruct import slicing
from reconstruct.binning import bin_slice
from reconstruct.slices import Acks, Slice, Streams
from reconstruct.slicing import Slicer
from tests.reconstruct.made import START_NS, S, exporters_of, packets

MS = 1_000_000
LATENESS_NS = 3 * S
HOUR = 3_600 * S
MIB = 1 << 20
EXPORTERS = exporters_of(packets([0], 0, 1))


def samples(*at_ms: int) -> FlowBatch:
    """One sample of one connection at each time; its sequence number is the time."""
    return packets(np.array(at_ms, np.int64) * MS, 0, 1, seq=np.array(at_ms) % MIB)


def slicer() -> Slicer:
    return Slicer(S, LATENESS_NS)


def add(one: Slicer, flows: FlowBatch, now_ms: int) -> None:
    one.add(flows, EXPORTERS, START_NS + now_ms * MS)


def close(one: Slicer, now_ms: int) -> list[Slice]:
    return one.close(START_NS + now_ms * MS)


def spans(slices: Iterable[Slice]) -> list[tuple[int, int]]:
    """Start and end of each, in ms since `START_NS`; the end as of the next one's start."""
    return [((s.start_ns - START_NS) // MS, (s.end_ns + 1 - START_NS) // MS) for s in slices]


def held(part: Slice) -> int:
    return int(part.bins.samples.sum())


def moments(slices: Iterable[Slice]) -> list[list[int]]:
    """First sample of each bin of each slice, ms since `START_NS`."""
    return [[(t - START_NS) // MS for t in s.bins.first_ns.tolist()] for s in slices]


def assert_same(ours: Sequence[Slice], theirs: Sequence[Slice]) -> None:
    assert [(s.start_ns, s.end_ns) for s in ours] == [(s.start_ns, s.end_ns) for s in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.endpoints.names == other.endpoints.names
        for part, kind in (("streams", Streams), ("bins", type(one.bins)), ("acks", Acks)):
            for field in fields(kind):
                np.testing.assert_array_equal(
                    getattr(getattr(one, part), field.name),
                    getattr(getattr(other, part), field.name),
                )


def test_slices_close_when_the_clock_is_past_them_by_the_lateness() -> None:
    one = slicer()
    assert close(one, 0) == []
    add(one, samples(1_200, 250, 2_900), 3_000)
    assert close(one, 3_999) == []
    assert spans(first := close(one, 4_000)) == [(0, 1_000)]
    assert moments(first) == [[250]]
    assert close(one, 4_999) == []
    assert spans(rest := close(one, 6_500)) == [(1_000, 2_000), (2_000, 3_000)]
    assert moments(rest) == [[1_200], [2_900]]
    assert one.late_samples == 0


def test_time_begins_with_the_slice_of_the_first_sample() -> None:
    one = slicer()
    add(one, samples(41_700), 41_800)
    assert spans(close(one, 46_100)) == [(41_000, 42_000), (42_000, 43_000)]


def test_the_first_sample_to_come_need_not_be_the_first() -> None:
    one = slicer()
    add(one, samples(1_000), 1_000)
    assert close(one, 1_000) == []
    add(one, samples(200), 1_100)
    assert moments(close(one, 5_000)) == [[200], [1_000]]
    assert one.late_samples == 0


def test_what_comes_too_late_is_counted_and_changes_nothing() -> None:
    one = slicer()
    add(one, samples(100, 1_100), 1_200)
    close(one, 4_500)
    add(one, samples(999, 1_000, 1_500, 0), 4_600)
    assert one.late_samples == 2
    assert moments(close(one, 5_000)) == [[1_000, 1_100, 1_500]]


def test_silence_is_one_slice() -> None:
    one = slicer()
    add(one, samples(500), 600)
    add(one, samples(7_200_500), 7_200_600)
    slices = close(one, 7_204_000)
    assert spans(slices) == [(0, 1_000), (1_000, 7_200_000), (7_200_000, 7_201_000)]
    assert [held(s) for s in slices] == [1, 0, 1]


def test_a_silent_wire_gives_slices_too() -> None:
    one = slicer()
    add(one, samples(500), 600)
    assert spans(close(one, 5_000)) == [(0, 1_000), (1_000, 2_000)]
    assert spans(close(one, 65_000)) == [(2_000, 62_000)]


def test_a_backlog_that_is_read_at_once_is_whole() -> None:
    one = slicer()
    add(one, samples(0), 100)
    close(one, 4_000)
    add(one, samples(*range(1_500, 31_500, 500)), 31_000)
    slices = close(one, 31_000)
    assert spans(slices) == [(n * 1_000, (n + 1) * 1_000) for n in range(1, 28)]
    assert [held(s) for s in slices] == [1, *[2] * 26]
    assert one.late_samples == 0


def test_at_the_end_all_that_waits_comes_out() -> None:
    one = slicer()
    assert one.drain() == []
    add(one, samples(100, 2_100), 2_200)
    assert spans(one.drain()) == [(0, 1_000), (1_000, 2_000), (2_000, 3_000)]
    assert one.drain() == []


def test_at_the_end_of_a_long_silence_what_waits_comes_out_in_its_place() -> None:
    """Nobody asked for slices for a minute; that is no clock that was set back."""
    one = slicer()
    add(one, samples(100), 200)
    close(one, 3_000)
    add(one, samples(), 60_000)
    slices = one.drain()
    assert spans(slices) == [(0, 1_000), (1_000, 57_000)]
    assert [held(s) for s in slices] == [1, 0]


def test_a_clock_that_is_set_back_by_minutes_goes_on() -> None:
    one = slicer()
    minutes = 300_000
    add(one, samples(minutes, minutes + 4_000), minutes + 4_100)
    assert spans(close(one, minutes + 4_100)) == [(minutes, minutes + 1_000)]
    add(one, samples(5_000, 5_500), 5_600)
    # What waited was told by the old clock: five minutes on, it would be in the way.
    assert one.late_samples == 1
    slices = close(one, 9_000)
    assert spans(slices) == [(2_000, 5_000), (5_000, 6_000)]
    assert moments(slices) == [[], [5_000, 5_500]]
    add(one, samples(6_000), 9_100)
    assert moments(close(one, 10_000)) == [[6_000]]
    assert one.late_samples == 1


def test_a_clock_that_is_set_back_before_the_first_slice_goes_on() -> None:
    one = slicer()
    add(one, samples(300_000), 300_100)
    add(one, samples(5_000), 5_100)
    assert spans(close(one, 9_000)) == [(5_000, 6_000)]
    assert one.late_samples == 1


def test_a_clock_that_is_set_back_to_what_is_not_closed_yet_leaves_no_gap() -> None:
    one = slicer()
    add(one, samples(500), 600)
    assert spans(close(one, 4_000)) == [(0, 1_000)]
    add(one, samples(1_500, 60_000), 60_000)
    add(one, samples(20_000), 20_500)
    assert one.late_samples == 1
    slices = close(one, 24_000)
    assert spans(slices) == [(1_000, 2_000), (2_000, 20_000), (20_000, 21_000)]
    assert moments(slices) == [[1_500], [], [20_000]]


def test_a_clock_that_wavers_by_seconds_is_not_set_back() -> None:
    one = slicer()
    add(one, samples(20_000), 20_100)
    close(one, 24_000)
    add(one, samples(20_500, 21_500), 15_000)
    assert one.late_samples == 1
    assert moments(close(one, 25_000)) == [[21_500]]


def test_a_clock_that_jumps_ahead_by_hours_and_back_loses_nothing_that_follows() -> None:
    one = slicer()
    add(one, samples(100, 3_500), 3_600)
    ahead = 5 * 3_600_000
    add(one, samples(ahead), ahead)
    slices = close(one, ahead)
    assert spans(slices) == [(0, 1_000), (1_000, 3_000), (3_000, 4_000), (4_000, ahead - 3_000)]
    add(one, samples(4_500), 4_600)
    assert one.late_samples == 1
    assert moments(close(one, 8_000)) == [[], [4_500]]


def test_samples_of_a_clock_far_ahead_or_far_behind_are_counted_and_wait_for_nothing() -> None:
    one = slicer()
    odd = packets([-START_NS, -HOUR, HOUR, (1 << 62) - START_NS], 0, 1)
    add(one, odd, 200)
    assert one.late_samples == 4
    assert close(one, 90_000) == []
    add(one, samples(90_500, 93_500), 91_000)
    add(one, odd, 91_100)
    assert one.late_samples == 8
    assert spans(close(one, 94_000)) == [(90_000, 91_000)]
    assert moments(close(one, 97_000)) == [[], [93_500]]


def test_rows_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "MOST_WAITING", 5)
    one = slicer()
    add(one, samples(100, 200, 300), 400)
    add(one, samples(1_100, 1_200, 1_300), 1_400)
    add(one, samples(1_500), 1_600)
    assert one.late_samples == 2
    assert moments(close(one, 5_000)) == [[100, 200, 300], [1_100, 1_200]]
    add(one, samples(5_000), 5_100)
    assert moments(close(one, 9_000))[-1] == [5_000]


Arrivals = list[tuple[int, int, int]]

# Event time in ms, delay, and connection.
arrivals = st.lists(
    st.tuples(st.integers(0, 6_000), st.integers(0, 2_900), st.integers(0, 3)),
    min_size=1,
    max_size=40,
    unique_by=lambda one: one[0],
)


def drawn(rows: Arrivals) -> FlowBatch:
    time, _, pair = np.array(rows, np.int64).reshape(-1, 3).T
    return packets(time * MS, pair, pair + 1, seq=time * 700 % (1 << 24), dest_qp=pair)


@given(arrivals, st.lists(st.integers(0, 9_000), max_size=6))
def test_any_order_within_the_lateness_gives_the_slices_of_the_sorted_samples(
    rows: Arrivals, asked: list[int]
) -> None:
    one = slicer()
    slices: list[Slice] = []
    come = sorted((time + delay, time, delay, pair) for time, delay, pair in rows)
    events = [(at, [(time, delay, pair)]) for at, time, delay, pair in come]
    for at, batch in sorted([*events, *((moment, []) for moment in asked)], key=lambda e: e[0]):
        if batch:
            add(one, drawn(batch), at)
        slices += close(one, at)
    slices += one.drain()
    whole = drawn(sorted(rows))
    assert one.late_samples == 0
    assert all(a.end_ns + 1 == b.start_ns for a, b in pairwise(slices))
    filled = [s for s in slices if len(s.bins)]
    seconds = sorted({time // 1_000 for time, _, _ in rows})
    begin = [START_NS + second * S for second in seconds]
    assert_same(
        filled,
        [
            bin_slice(
                whole.take((whole.time_ns >= a) & (whole.time_ns < a + S)),
                EXPORTERS,
                a,
                a + S - 1,
            )
            for a in begin
        ],
    )


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(-30_000, 90_000), max_size=5),  # event times against the clock
            st.sampled_from([0, 300, 1_000, 5_000, 90_000, 8_000_000, -9_000, -20_000, -900_000]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_each_sample_is_in_one_slice_or_counted(
    turns: list[tuple[list[int], int, bool]],
) -> None:
    """Whatever the clock does: slices follow on each other but where it was set back."""
    one = slicer()
    now = 1_000_000
    slices: list[Slice] = []
    given_in = 0
    set_back = 0
    for off, step, ask in turns:
        now += step
        set_back += step < 0
        add(one, samples(*(now + o for o in off)), now)
        given_in += len(off)
        if ask:
            new = close(one, now)
            assert len(new) <= 2 * given_in + 1
            slices += new
    slices += one.drain()
    assert sum(held(s) for s in slices) + one.late_samples == given_in
    for part in slices:
        assert part.start_ns <= part.end_ns
        assert all(part.start_ns <= t <= part.end_ns for t in part.bins.first_ns.tolist())
    gaps = [b.start_ns - a.end_ns - 1 for a, b in pairwise(slices)]
    assert sum(gap != 0 for gap in gaps) <= set_back
    assert all(gap <= 0 for gap in gaps)
