from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from patterns.numbering import KEPT, Numbering, Settled, finish, phase_shift, settle
from patterns.result import Iteration

MS = 1_000_000
PERIOD_S = 1.0


def moments(*at_ms: float) -> NDArray[np.int64]:
    return np.round(np.array(at_ms) * MS).astype(np.int64)


def read(
    numbering: Numbering,
    *at_ms: float,
    window_ms: tuple[float, float],
    horizon_ms: float,
    anew: bool = False,
    period_s: float = PERIOD_S,
    seen_ms: float | None = None,
    breaks_ms: Sequence[tuple[float, float]] = (),
) -> Settled:
    start, end = moments(*window_ms).tolist()
    return settle(
        numbering,
        moments(*at_ms),
        period_s=period_s,
        volume_bytes=5e9,
        window_ns=(start, end),
        last_seen_ns=end if seen_ms is None else round(seen_ms * MS),
        horizon_ns=round(horizon_ms * MS),
        breaks=moments(*chain(*breaks_ms)).reshape(-1, 2),
        anew=anew,
    )


def iteration(
    index: int, start_ms: int, end_ms: int, *, complete: bool = True, final: bool = True
) -> Iteration:
    volume = 5e9 if complete else None
    return Iteration(index, start_ms * MS, end_ms * MS, volume, complete, final)


def counted(*ends_ms: int) -> Numbering:
    """Iterations numbered so far; the first is cut off by the window."""
    first = iteration(0, 0, ends_ms[0], complete=False)
    later = [iteration(i + 1, ends_ms[i], end) for i, end in enumerate(ends_ms[1:])]
    return Numbering((first, *later))


def spans(iterations: Sequence[Iteration]) -> list[tuple[int, int, int, bool]]:
    return [(i.index, i.start_ns // MS, i.end_ns // MS, i.complete) for i in iterations]


def test_the_first_window() -> None:
    settled = read(Numbering(), 400, 1_400, 2_410, 3_400, window_ms=(100, 3_500), horizon_ms=2_600)
    assert settled.final == (
        iteration(0, 100, 400, complete=False),
        iteration(1, 400, 1_400),
        iteration(2, 1_400, 2_410),
    )
    assert settled.provisional == (
        iteration(3, 2_410, 3_400, final=False),
        iteration(4, 3_400, 3_500, complete=False, final=False),
    )
    assert settled.numbering == Numbering(settled.final)
    assert settled.numbering.next_index == 3
    assert settled.numbering.last_end_ns == 2_410 * MS


def test_a_window_without_an_end_says_nothing() -> None:
    empty = read(Numbering(), window_ms=(100, 3_500), horizon_ms=2_600)
    assert empty == Settled(Numbering(), (), ())
    assert empty.numbering.next_index == 0
    assert empty.numbering.last_end_ns is None


def test_what_is_not_believed_is_shown_and_not_counted() -> None:
    settled = read(Numbering(), 400, 1_400, window_ms=(100, 1_500), horizon_ms=0)
    assert settled.numbering == Numbering()
    assert settled.final == ()
    assert spans(settled.provisional) == [
        (0, 100, 400, False),
        (1, 400, 1_400, True),
        (2, 1_400, 1_500, False),
    ]


def test_an_end_read_again_is_no_other() -> None:
    before = counted(400, 1_400, 2_400)
    settled = read(
        before, 395, 1_408, 2_407, 3_404, 4_400, window_ms=(100, 4_500), horizon_ms=3_500
    )
    assert settled.final == (iteration(3, 2_400, 3_404),)
    assert settled.numbering.iterations == (*before.iterations, *settled.final)
    assert spans(settled.provisional) == [(4, 3_404, 4_400, True), (5, 4_400, 4_500, False)]


def test_the_iteration_under_way_reaches_to_the_window_s_end() -> None:
    settled = read(counted(400, 1_400), window_ms=(1_000, 2_100), horizon_ms=1_500)
    assert settled.final == ()
    assert spans(settled.provisional) == [(2, 1_400, 2_100, False)]


def test_a_long_iteration_is_one() -> None:
    settled = read(
        counted(400, 1_400), 400, 1_400, 6_000, 7_000, window_ms=(100, 8_000), horizon_ms=7_100
    )
    assert spans(settled.final) == [(2, 1_400, 6_000, True), (3, 6_000, 7_000, True)]


def test_a_window_that_begins_behind_the_last_end_saw_no_whole_iteration() -> None:
    settled = read(counted(400, 1_400), 9_100, 10_100, window_ms=(9_000, 11_000), horizon_ms=10_900)
    assert settled.final == (
        iteration(2, 1_400, 9_100, complete=False),
        iteration(3, 9_100, 10_100),
    )


def test_after_a_time_nobody_looked_ends_are_counted_from_where_they_are_then() -> None:
    """The moment of the turn may be another than before; there is nothing to keep it by."""
    before = read(
        counted(400, 1_400), 9_700, 10_700, window_ms=(9_500, 11_000), horizon_ms=10_900
    ).numbering
    settled = read(before, 9_695, 10_705, 11_702, window_ms=(9_500, 12_650), horizon_ms=11_800)
    assert spans(settled.final) == [(4, 10_700, 11_702, True)]


def test_ends_of_another_pause_of_the_turn_are_counted_where_they_were() -> None:
    settled = read(
        counted(400, 1_400, 2_400),
        *(700, 1_700, 2_700, 3_700, 4_700),
        window_ms=(100, 5_700),
        horizon_ms=4_800,
    )
    assert spans(settled.final) == [(3, 2_400, 3_400, True), (4, 3_400, 4_400, True)]


def test_half_a_turn_later_and_half_a_turn_sooner_are_the_same() -> None:
    settled = read(
        counted(400, 1_400, 2_400, 3_400),
        *(890, 1_910, 2_890, 3_910, 4_890, 5_910),
        window_ms=(100, 6_800),
        horizon_ms=5_950,
    )
    assert [i.index for i in settled.final] == [4, 5]
    for number, at_ms in zip(settled.final, (4_400, 5_400), strict=True):
        assert number.end_ns / MS == pytest.approx(at_ms, abs=30)


def test_a_reading_draws_the_end_a_little_its_way() -> None:
    """One that is off by 4 % of the period moves the next end by 1 %; so does a reading back."""
    late = read(
        counted(400, 1_400, 2_400), 440, 1_440, 2_440, 3_440, window_ms=(0, 4_400), horizon_ms=3_500
    )
    assert spans(late.final) == [(3, 2_400, 3_410, True)]
    early = read(
        counted(400, 1_400, 2_400), 340, 1_340, 2_340, 3_340, window_ms=(0, 4_300), horizon_ms=3_400
    )
    assert spans(early.final) == [(3, 2_400, 3_390, True)]


def test_counting_anew_costs_one_iteration() -> None:
    before = counted(400, 1_400, 2_400)
    changed = read(
        before,
        *(700, 1_700, 2_700, 3_700),
        window_ms=(100, 4_600),
        horizon_ms=3_750,
        anew=True,
    )
    assert changed.final == (iteration(3, 2_400, 3_700, complete=False),)
    assert not changed.numbering.anew
    later = read(
        changed.numbering,
        *(700, 1_700, 2_705, 3_705, 4_705, 5_705),
        window_ms=(100, 6_600),
        horizon_ms=5_750,
    )
    assert spans(later.final) == [(4, 3_700, 4_705, True), (5, 4_705, 5_705, True)]


def test_an_iteration_in_which_the_job_was_started_again_is_not_complete() -> None:
    """Nor is the next one where what looks like an end is the begin of the new run."""
    settled = read(
        counted(400, 1_400, 2_400),
        *(1_400, 2_400, 6_010, 7_000, 8_000),
        window_ms=(100, 9_000),
        horizon_ms=8_100,
        breaks_ms=[(3_000, 6_000)],
    )
    assert spans(settled.final) == [
        (3, 2_400, 6_010, False),
        (4, 6_010, 7_000, False),
        (5, 7_000, 8_000, True),
    ]


def test_counting_anew_waits_for_an_end_that_is_final() -> None:
    """The reading that says so shows no new end yet; the next one does."""
    said = read(
        counted(400, 1_400, 2_400),
        *(700, 1_700, 2_700),
        window_ms=(100, 3_000),
        horizon_ms=2_000,
        anew=True,
    )
    assert said.final == ()
    assert said.numbering.anew
    then = read(said.numbering, 700, 1_700, 2_700, 3_700, window_ms=(100, 4_600), horizon_ms=3_750)
    assert spans(then.final) == [(3, 2_400, 3_700, False)]
    assert not then.numbering.anew


def test_counting_anew_is_forgotten_where_ends_lie_as_before() -> None:
    """Two studies erred alike, and no iteration has been counted from where they saw its end."""
    said = read(
        counted(400, 1_400, 2_400),
        *(700, 1_700, 2_700),
        window_ms=(100, 3_000),
        horizon_ms=2_000,
        anew=True,
    )
    assert said.numbering.anew
    then = read(said.numbering, 400, 1_400, 2_400, 3_400, window_ms=(100, 4_600), horizon_ms=3_750)
    assert spans(then.final) == [(3, 2_400, 3_400, True)]
    assert not then.numbering.anew


def test_after_the_clock_was_set_back_numbers_go_on_and_times_begin_anew() -> None:
    before = counted(100_400, 101_400)
    nothing = read(before, 5_300, window_ms=(5_000, 5_600), horizon_ms=4_700)
    assert nothing.final == ()
    assert spans(nothing.provisional) == [(2, 5_000, 5_300, False), (3, 5_300, 5_600, False)]
    assert nothing.numbering.last_end_ns is None
    assert finish(nothing.numbering, 5_600 * MS) == (nothing.numbering, None)
    settled = read(
        nothing.numbering, 5_300, 6_310, 7_300, window_ms=(5_000, 8_000), horizon_ms=7_100
    )
    assert settled.final == (
        iteration(2, 5_000, 5_300, complete=False),
        iteration(3, 5_300, 6_310),
    )
    assert settled.numbering.last_end_ns == 6_310 * MS
    then = read(
        settled.numbering, 5_310, 6_300, 7_300, 8_300, window_ms=(5_000, 9_300), horizon_ms=8_400
    )
    assert spans(then.final) == [(4, 6_310, 7_300, True), (5, 7_300, 8_300, True)]


def test_an_end_moved_to_behind_the_last_sample_has_not_come() -> None:
    """The job stopped in its turn, after the pause that these ends were read at."""
    known = counted(1000, 2000, 3000)

    def look(seen_ms: float) -> Settled:
        ends = 700, 1700, 2700, 3700
        return read(known, *ends, window_ms=(0, 9000), horizon_ms=8000, seen_ms=seen_ms)

    stopped = look(3750)
    assert stopped.final == ()
    assert spans(stopped.provisional) == [(3, 3000, 9000, False)]
    assert spans(look(4100).final) == [(3, 3000, 4000, True)]


def test_a_period_found_to_be_half_as_long_keeps_its_moment() -> None:
    settled = read(
        counted(400, 1_400, 2_400),
        *(405, 895, 1_405, 1_895, 2_405, 2_895, 3_405, 3_895),
        window_ms=(100, 4_500),
        horizon_ms=3_950,
        period_s=0.5,
    )
    assert [round(i.end_ns / MS, -1) for i in settled.final] == [2_900, 3_400, 3_900]
    assert all(i.complete for i in settled.final)


def test_more_than_is_remembered_comes_out_in_turns() -> None:
    """What is stored is what is remembered: nothing may pass through it unseen."""
    ends = [400 + 1_000 * k for k in range(2 * KEPT + 50)]
    numbering = Numbering()
    seen: list[Iteration] = []
    for _ in range(3):
        settled = read(numbering, *ends, window_ms=(0, ends[-1] + 1_000), horizon_ms=ends[-1])
        assert len(settled.final) <= KEPT
        assert settled.numbering.iterations[-len(settled.final) :] == settled.final
        numbering = settled.numbering
        seen += settled.final
    assert [i.index for i in seen] == list(range(2 * KEPT + 50))
    assert [i.end_ns // MS for i in seen] == ends


def test_the_end_of_a_job_cuts_its_last_iteration_off() -> None:
    before = counted(400, 1_400)
    numbering, cut_off = finish(before, 1_900 * MS)
    assert cut_off == iteration(2, 1_400, 1_900, complete=False)
    assert numbering.iterations == (*before.iterations, cut_off)


def test_a_job_that_ends_with_an_iteration_has_none_cut_off() -> None:
    before = counted(400, 1_400)
    assert finish(before, 1_400 * MS) == (before, None)
    assert finish(Numbering(), 1_400 * MS) == (Numbering(), None)


@given(
    st.integers(-450, 450),
    st.lists(st.integers(-30, 30), min_size=6, max_size=40),
    st.integers(0, 5),
)
def test_a_shift_is_measured_in_spite_of_noise(
    shift_ms: int, noise_ms: list[int], missing: int
) -> None:
    count = len(noise_ms)
    numbering = counted(*(400 + 1_000 * k for k in range(count)))
    ends = moments(*(400 + 1_000 * k + shift_ms + n for k, n in enumerate(noise_ms)))
    ends = np.delete(ends, missing) if missing < count - 3 else ends
    shift_ns = phase_shift(numbering, np.sort(ends), PERIOD_S)
    assert shift_ns is not None
    measured = shift_ns / MS
    off = (measured - shift_ms) % 1_000
    assert min(off, 1_000 - off) <= 30


def test_no_shift_where_nothing_can_be_compared() -> None:
    numbering = counted(400, 1_400)
    assert phase_shift(Numbering(), moments(400, 1_400), PERIOD_S) is None
    assert phase_shift(numbering, moments(), PERIOD_S) is None
    assert phase_shift(numbering, moments(9_000, 10_000), PERIOD_S) is None


@dataclass(frozen=True)
class Reading:
    """One reading of a window that ends `step_ms` later than the last one."""

    step_ms: int
    back_ms: int
    noise_ms: int
    shift_ms: int
    missed: int  # one in so many ends is not seen; 0: all are
    anew: bool


readings = st.lists(
    st.builds(
        Reading,
        st.integers(0, 4_000) | st.just(60_000),
        st.integers(500, 20_000),
        st.integers(0, 60),
        st.sampled_from([0, 0, 0, 40, -200, 300, 500]),
        st.sampled_from([0, 0, 2, 5]),
        st.booleans(),
    ),
    max_size=25,
)


@given(readings, st.integers(0, 1 << 16))
def test_whatever_is_read_what_is_final_only_grows(turns: list[Reading], seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbering, final, now = Numbering(), list[Iteration](), 5_000
    for turn in turns:
        now += turn.step_ms
        start = max(0, now - turn.back_ms)
        true = np.arange(400, now + 1_000, 1_000) + turn.shift_ms
        noisy = np.sort(true + rng.uniform(-1, 1, len(true)) * turn.noise_ms)
        ends = noisy[(noisy >= start) & (noisy <= now)]
        if turn.missed:
            ends = ends[rng.random(len(ends)) >= 1 / turn.missed]
        settled = read(
            numbering,
            *ends.tolist(),
            window_ms=(start, now),
            horizon_ms=now - 900,
            anew=turn.anew,
        )
        before = numbering.iterations
        numbering = settled.numbering
        assert numbering.iterations == (*before, *settled.final)[-KEPT:]
        final += settled.final
        told = [*final, *settled.provisional]
        assert [i.index for i in told] == list(range(len(told)))
        assert all(a.end_ns == b.start_ns for a, b in pairwise(told))
        assert all(i.start_ns < i.end_ns for i in told)
        assert all(i.final for i in final)
        assert not any(i.final for i in settled.provisional)
        assert all(i.end_ns <= (now - 900) * MS for i in settled.final)
        assert all((i.bytes is None) == (not i.complete) for i in told)
        assert all(i.duration_s >= 0.5 * PERIOD_S for i in told if i.complete)


@given(st.integers(0, 1 << 16), st.integers(1, 12))
def test_readings_of_a_steady_job_give_one_number_to_each_turn(seed: int, most_new: int) -> None:
    """Windows overlap as those of a service do; noise is 2 % of the period, step times wander."""
    rng = np.random.default_rng(seed)
    true = np.cumsum(rng.normal(1_000, 15, 120))
    numbering, final, now = Numbering(), list[Iteration](), 0.0
    seen = 12
    while seen < len(true) - 1:
        now = float(true[seen]) + rng.uniform(0, 900)
        start = float(true[max(0, seen - most_new - 8)]) - 300
        within = true[(true >= start) & (true <= now)]
        ends = np.sort(within + rng.normal(0, 5, len(within)).clip(-20, 20))
        settled = read(numbering, *ends.tolist(), window_ms=(start, now), horizon_ms=now - 900)
        numbering = settled.numbering
        final += settled.final
        seen += int(rng.integers(1, most_new + 1))
    ends_ms = np.array([i.end_ns / MS for i in final])
    first = int(np.abs(true - ends_ms[0]).argmin())
    assert np.abs(ends_ms - true[first : first + len(final)]).max() <= 45
    assert all(i.complete for i in final[1:])
