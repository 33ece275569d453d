from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.clock import CORRECTED_NS, SURE_DATAGRAMS, Clocks, Times
from collector.schema import TimeBasis
from tests.collector import encode as e

MS = 1_000_000
FLUSH_NS = 1000 * MS


class Agent:
    """One exporter that takes samples and flushes; its clock is off by `offset_ns`."""

    def __init__(self, offset_ns: int = 0, delay_ns: int = 200_000, skew: float = 0.0) -> None:
        self.offset_ns, self.delay_ns, self.skew = offset_ns, delay_ns, skew
        self.clocks = Clocks()
        self.before_ns = 0

    def stamp(self, time_ns: int) -> int:
        return time_ns + self.offset_ns + round((time_ns - e.EPOCH_NS) * self.skew)

    def send(self, sent_ns: list[int], ages_ns: list[list[int]], *, prompt: bool = True) -> Times:
        """Datagrams sent then, holding samples so long taken before; in one batch."""
        arrival = np.array(sent_ns, np.int64) + self.delay_ns
        earliest = arrival - FLUSH_NS
        for row in range(len(arrival)):
            if self.before_ns:
                earliest[row] = max(earliest[row], self.before_ns)
            self.before_ns = int(arrival[row])
        datagram = np.repeat(np.arange(len(arrival)), [len(a) for a in ages_ns])
        stamps = [
            self.stamp(s - age) for s, ages in zip(sent_ns, ages_ns, strict=True) for age in ages
        ]
        return self.clocks.place(
            1,
            np.zeros(len(arrival), np.int64),
            np.full(len(arrival), prompt),
            arrival,
            earliest,
            datagram.astype(np.int64),
            np.array(stamps, np.uint64),
        )


def every_100_ms(first: int, count: int) -> tuple[list[int], list[list[int]]]:
    """Datagrams that were full 100 ms after the one before, with samples all along."""
    sent = [e.EPOCH_NS + (first + n) * 100 * MS for n in range(count)]
    return sent, [[99 * MS, 50 * MS, 1 * MS]] * count


def test_a_right_clock_is_left_alone() -> None:
    agent = Agent()
    sent, ages = every_100_ms(1, 20)
    times = agent.send(sent, ages)
    assert times.basis.tolist() == [TimeBasis.EXPORTER] * 60
    assert times.time_ns.tolist() == times.time_min_ns.tolist()
    assert times.time_ns[:3].tolist() == [sent[0] - age for age in ages[0]]
    offset = agent.clocks.offset(0)
    assert offset is not None
    # The last sample is a millisecond old, the first of the next one another.
    assert (offset.low_ns, offset.high_ns) == (-1_200_000, 800_000)
    assert (offset.correction_ns, offset.datagrams) == (0, 20)


@pytest.mark.parametrize("offset_ms", [-7_200_000, -3204, -600, 600, 5_000, 90_000_000])
def test_a_clock_that_is_off_is_put_right_and_all_of_the_batch(offset_ms: int) -> None:
    agent = Agent(offset_ms * MS)
    sent, ages = every_100_ms(1, 20)
    times = agent.send(sent, ages)
    assert times.basis.tolist() == [TimeBasis.INTERPOLATED] * 60
    assert not times.absurd.any()
    true = np.repeat(sent, 3) - np.tile(ages[0], 20)
    assert (times.time_min_ns <= true).all()
    assert (times.time_ns >= true).all()
    assert (times.time_ns - times.time_min_ns).max() <= 2 * MS
    # What lies between two packets is as exact as the exporter told it.
    assert np.unique(times.time_ns - true).size == 1


def test_nothing_is_taken_off_before_it_is_sure() -> None:
    agent = Agent(-3000 * MS)
    sent, ages = every_100_ms(1, 2 * SURE_DATAGRAMS)
    bases = [agent.send([s], [a]).basis.tolist() for s, a in zip(sent, ages, strict=True)]
    sure = SURE_DATAGRAMS - 1
    assert bases[:sure] == [[TimeBasis.EXPORTER] * 3] * sure
    assert bases[sure:] == [[TimeBasis.INTERPOLATED] * 3] * (sure + 2)


def test_an_offset_that_a_delay_might_explain_is_measured_and_left() -> None:
    agent = Agent(-CORRECTED_NS + 10 * MS)
    times = agent.send(*every_100_ms(1, 20))
    assert set(times.basis.tolist()) == {TimeBasis.EXPORTER}
    offset = agent.clocks.offset(0)
    assert offset is not None
    assert offset.low_ns <= -490 * MS <= offset.high_ns + agent.delay_ns
    assert offset.high_ns - offset.low_ns <= 2 * MS


@pytest.mark.parametrize("ahead_ms", [30, 200])
def test_what_comes_before_it_was_taken_is_of_a_clock_that_is_ahead(ahead_ms: int) -> None:
    agent = Agent(ahead_ms * MS)
    times = agent.send(*every_100_ms(1, 20))
    assert set(times.basis.tolist()) == {TimeBasis.INTERPOLATED}
    [correction] = agent.clocks.corrections(1).tolist()
    assert 0 <= ahead_ms * MS - correction <= 2 * MS


def test_a_clock_that_was_ahead_and_is_right_again_is_left_alone() -> None:
    agent = Agent(40 * MS)
    agent.send(*every_100_ms(1, 50))
    assert agent.clocks.corrections(1)[0] > 0
    agent.offset_ns = 0
    agent.send(*every_100_ms(51, 1800))
    assert agent.clocks.corrections(1).tolist() == [0]


def test_a_correction_stays_while_it_fits() -> None:
    agent = Agent(-3000 * MS)
    agent.send(*every_100_ms(1, 20))
    before = agent.clocks.corrections(1)[0]
    agent.delay_ns = 30 * MS  # a queue fills on the way
    times = agent.send(*every_100_ms(21, 20))
    agent.delay_ns = 100_000
    agent.send(*every_100_ms(41, 20))
    assert agent.clocks.corrections(1)[0] == before
    assert set(times.basis.tolist()) == {TimeBasis.INTERPOLATED}


def test_a_clock_that_is_set_is_followed() -> None:
    agent = Agent(-3000 * MS)
    agent.send(*every_100_ms(1, 20))
    agent.offset_ns = 0
    times = agent.send(*every_100_ms(21, 20))
    assert agent.clocks.steps(1).tolist() == [1]
    assert agent.clocks.corrections(1).tolist() == [0]
    assert set(times.basis.tolist()) == {TimeBasis.EXPORTER}
    assert not times.absurd.any()
    agent.offset_ns = 4000 * MS
    times = agent.send(*every_100_ms(41, 20))
    assert set(times.basis.tolist()) == {TimeBasis.INTERPOLATED}


def test_datagrams_that_wait_are_no_clock_that_was_set() -> None:
    """A sender, or a queue, that stands still for seconds delays all that is sent meanwhile."""
    agent = Agent()
    agent.send(*every_100_ms(1, 20))
    agent.delay_ns = 3000 * MS
    waiting = agent.send(*every_100_ms(21, 300))
    agent.delay_ns = 200_000
    agent.send(*every_100_ms(321, 20))
    assert set(waiting.basis.tolist()) == {TimeBasis.EXPORTER}
    assert agent.clocks.corrections(1).tolist() == [0]
    assert agent.clocks.steps(1).tolist() == [0]


def test_a_clock_that_is_set_back_is_followed_after_a_minute() -> None:
    agent = Agent()
    agent.send(*every_100_ms(1, 20))
    agent.offset_ns = -3000 * MS
    first = agent.send(*every_100_ms(21, 590))
    assert set(first.basis.tolist()) == {TimeBasis.EXPORTER}
    times = agent.send(*every_100_ms(611, 30))
    assert agent.clocks.steps(1).tolist() == [1]
    # Those before the minute was over are put right with the rest of their batch.
    assert set(times.basis.tolist()) == {TimeBasis.INTERPOLATED}


def test_one_absurd_stamp_changes_nothing() -> None:
    agent = Agent()
    sent, ages = every_100_ms(1, 20)
    ages[7] = [99 * MS, 7_200_000 * MS, 1 * MS]
    times = agent.send(sent, ages)
    assert np.flatnonzero(times.absurd).tolist() == [22]
    assert times.basis[22] == TimeBasis.ARRIVAL
    offset = agent.clocks.offset(0)
    assert offset is not None
    assert offset.datagrams == 19


def test_late_datagrams_say_nothing_of_the_clock() -> None:
    agent = Agent()
    agent.send(*every_100_ms(1, 20), prompt=False)
    assert agent.clocks.offset(0) is None


def test_skew_is_told_when_it_is_sure() -> None:
    agent = Agent(skew=40e-6)
    sent, ages = every_100_ms(1, 20)
    agent.send(sent, ages)
    offset = agent.clocks.offset(0)
    assert offset is not None
    assert offset.skew_ppm is None
    for minute in range(1, 20):
        agent.send(*every_100_ms(600 * minute, 20))
    offset = agent.clocks.offset(0)
    assert offset is not None
    assert offset.skew_ppm is not None
    assert abs(offset.skew_ppm - 40) < 5
    assert offset.low_ns <= agent.stamp(agent.before_ns) - agent.before_ns <= offset.high_ns + MS
    [correction] = agent.clocks.corrections(1).tolist()
    assert 0 <= correction <= offset.low_ns


def test_without_stamps_times_are_of_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    monkeypatch.setattr(agent, "stamp", lambda _: 0)
    times = agent.send(*every_100_ms(1, 20))
    assert set(times.basis.tolist()) == {TimeBasis.ARRIVAL}
    assert (times.time_ns - times.time_min_ns).max() == FLUSH_NS
    assert agent.clocks.offset(0) is None


@given(
    offset_ns=st.integers(-400 * MS, 400 * MS),
    sent_ms=st.lists(st.integers(1, 1000), min_size=6, max_size=40),
    ages=st.lists(st.integers(0, 999_999), min_size=40, max_size=40),
    delays=st.lists(st.integers(0, 20_000), min_size=40, max_size=40),
)
def test_the_offset_lies_between_its_bounds(
    offset_ns: int, sent_ms: list[int], ages: list[int], delays: list[int]
) -> None:
    """By intervals in fractions, each of which holds the truth."""
    clocks = Clocks()
    sent = e.EPOCH_NS + np.cumsum(sent_ms) * MS
    arrival = sent + np.array(delays[: len(sent)]) * 1000
    arrival = np.maximum.accumulate(arrival)
    earliest = arrival - FLUSH_NS
    earliest[1:] = np.maximum(earliest[1:], arrival[:-1])
    taken = [
        int(s) - min(int(age * Fraction(step, 1)), step * MS - 1)
        for s, age, step in zip(sent, ages, sent_ms, strict=False)
    ]
    clocks.place(
        1,
        np.zeros(len(sent), np.int64),
        np.ones(len(sent), np.bool_),
        arrival,
        earliest,
        np.arange(len(sent)),
        np.array([t + offset_ns for t in taken], np.uint64),
    )
    offset = clocks.offset(0)
    assert offset is not None
    widest_ns = max(delays) * 1000
    drift_ns = 500 * sum(sent_ms)
    assert offset.low_ns - drift_ns <= offset_ns <= offset.high_ns + drift_ns + widest_ns
