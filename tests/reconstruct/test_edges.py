from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.bins import Progress
from reconstruct.edges import PHASES, Flows, measure
from reconstruct.jobs import Candidate, discover
from reconstruct.progress import follow
from reconstruct.traffic import classify
from tests import naive
from tests.reconstruct.made import HEADERS, MTU, START_NS, S, Stream, progress_of, telemetry
from tests.reconstruct.rhythm import cuts, repeated

TURNS = 20


@cache
def any_job() -> Candidate:
    """A candidate as `discover` makes one; only its connections and turns are of use here."""
    rng = np.random.default_rng(1)
    turns = cuts(1.0, 10, 0.0, rng)
    found = follow(telemetry(repeated(turns, 0, 1, rng), repeated(turns, 1, 0, rng)))
    [job] = discover(found, classify(found, []), {})
    return job


def flows_of(progress: Progress, turns: int = TURNS, connections: list[int] | None = None) -> Flows:
    """Measured over `turns` turns of a second from the start."""
    chosen = range(len(progress.connections)) if connections is None else connections
    job = replace(
        any_job(),
        endpoints=np.arange(len(progress.endpoints), dtype=np.int32),
        connections=np.array(chosen, np.int32),
        turns_ns=START_NS + np.arange(turns + 1) * S,
    )
    return measure(progress, job)


def burst(per_turn: int, samples: int, rng: np.random.Generator, turns: int = TURNS) -> Stream:
    """`per_turn` packets in a burst from 0.3 to 0.5 of each second; `samples` of them seen."""
    seen = np.sort(rng.choice(per_turn * turns, samples, replace=False))
    time = (seen // per_turn + 0.3 + 0.2 * (seen % per_turn) / per_turn) * S
    return Stream(0, 1, time.astype(np.int64), seen)


PAIRS = [(0, 1), (1, 2), (2, 0)]
STEPS = st.lists(st.integers(800, 1200), min_size=3, max_size=TURNS)


def test_of_a_job_that_was_started_again_each_connection_counts_for_its_own_turns() -> None:
    """Turns 0 to 4, killed in the next one, and on from turn 9: 5 and 10 of them are whole."""
    per_turn, step = 400, np.arange(20)

    def streams(first: int, last: float) -> list[Stream]:
        turn = np.repeat(np.arange(first, TURNS), len(step))
        part = np.tile(step / len(step), TURNS - first)
        time, position = turn + 0.3 + 0.2 * part, ((turn - first + part) * per_turn).astype(int)
        seen = time < last
        return [Stream(*pair, (time[seen] * S).astype(int), position[seen]) for pair in PAIRS]

    flows = flows_of(progress_of(*streams(0, 5.4), *streams(9, TURNS)))
    assert flows.bytes_per_turn / MTU == pytest.approx(np.full(6, per_turn), rel=0.01)
    assert flows.share == pytest.approx(np.repeat([5 / 15, 10 / 15], 3))
    assert flows.together() == pytest.approx(3 * per_turn * MTU, rel=0.01)
    assert flows.together(np.array([0, 3])) == pytest.approx(per_turn * MTU, rel=0.01)


@given(STEPS)
def test_volume_is_the_slope_of_progress_over_turns(steps: list[int]) -> None:
    # One sample at one phase of each turn: the turn's number is all there is of a clock.
    position = np.cumsum(steps)
    time = np.arange(len(steps)) * S + S // 3
    flows = flows_of(progress_of(Stream(0, 1, time, position), rate=1000), len(steps))
    slope, error = naive.slope(range(len(steps)), position.tolist())
    assert flows.bytes_per_turn[0] == pytest.approx(slope * MTU, rel=1e-9)
    assert flows.error[0] == pytest.approx(error, rel=1e-6, abs=1e-6)


def test_bursts_are_measured_without_a_sample_at_their_ends() -> None:
    rng = np.random.default_rng(3)
    wrong = [
        flows_of(progress_of(burst(10_000, 200, rng), rate=1000)).bytes_per_turn[0] / MTU / 10_000
        - 1
        for _ in range(30)
    ]
    assert np.abs(wrong).max() < 0.01
    assert abs(np.mean(wrong)) < 0.002


def test_the_error_says_how_far_volumes_are_off() -> None:
    rng = np.random.default_rng(4)
    for samples in (40, 400):
        found = [
            flows_of(progress_of(burst(10_000, samples, rng), rate=200_000 // samples))
            for _ in range(60)
        ]
        off = np.array([f.bytes_per_turn[0] / MTU / 10_000 - 1 for f in found])
        said = np.array([f.error[0] for f in found])
        assert 0.5 < np.sqrt(np.mean(off**2)) / np.median(said) < 2


def test_a_hundred_times_the_position_changes_no_volume() -> None:
    one = burst(10_000, 200, np.random.default_rng(5))
    far = Stream(0, 1, one.time_ns, np.asarray(one.position) + (1 << 45))
    near, moved = (flows_of(progress_of(s, rate=1000)).bytes_per_turn[0] for s in (one, far))
    assert moved == pytest.approx(near, rel=1e-9)


def test_one_sample_tells_no_volume_and_two_no_error() -> None:
    streams = [
        Stream(0, 1, [S // 2], [5]),
        Stream(1, 2, [S // 2, 3 * S // 2], [0, 1000]),
    ]
    flows = flows_of(progress_of(*streams, rate=10_000))
    assert np.isnan(flows.bytes_per_turn[0])
    assert flows.bytes_per_turn[1] == pytest.approx(1000 * MTU, rel=0.5)
    assert np.isinf(flows.error).all()
    assert flows.samples.tolist() == [1, 2]


def test_the_count_stands_in_where_progress_contradicts_it() -> None:
    # A tool that sends the same few packets again and again.
    time = np.arange(TURNS) * S + S // 3
    position = np.random.default_rng(8).integers(0, 500, TURNS)
    many = {"samples": 10, "scaled_bytes": 1000 * (MTU + HEADERS)}
    flows = flows_of(progress_of(Stream(0, 1, time, position, many)))
    assert flows.bytes_per_turn[0] == pytest.approx(1000 * MTU)
    assert flows.error[0] == pytest.approx(1 / np.sqrt(10 * TURNS))


def test_only_the_turns_and_the_connections_of_the_job_count() -> None:
    position = np.arange(TURNS) * 1000
    time = np.arange(TURNS) * S + S // 3
    progress = progress_of(
        *(
            Stream(src, dst, time, position * k, {"scaled_bytes": 1000 * k * (MTU + HEADERS)})
            for src, dst, k in ((2, 3, 7), (0, 1, 1), (1, 0, 3))
        )
    )
    flows = flows_of(progress, turns=12, connections=[1, 2])
    assert flows.connection.tolist() == [1, 2]
    assert (flows.src.tolist(), flows.dst.tolist()) == ([0, 1], [1, 0])
    assert (flows.bytes_per_turn / MTU / 1000).tolist() == pytest.approx([1, 3])
    assert flows.samples.tolist() == [12, 12]


def test_recurring_compares_with_samples_spread_evenly() -> None:
    every = np.arange(TURNS) * S + S // 3
    start_up = np.arange(TURNS) * S // TURNS
    rng = np.random.default_rng(6)
    anywhere = np.sort(rng.integers(0, TURNS * S, TURNS))
    flows = flows_of(
        progress_of(
            *(Stream(0, 1, t, np.arange(TURNS) * 1000) for t in (every, start_up, anywhere))
        )
    )
    once, all_but_none, spread = flows.recurring[1], flows.recurring[0], flows.recurring[2]
    assert all_but_none > 1.3
    assert once == pytest.approx(1 / (TURNS * (1 - (1 - 1 / TURNS) ** TURNS)))
    assert spread == pytest.approx(1, abs=0.25)


def test_phases_say_when_in_a_turn_samples_fall() -> None:
    one = burst(10_000, 400, np.random.default_rng(7))
    phases = flows_of(progress_of(one)).phases[0]
    assert phases.sum() == 400
    assert np.flatnonzero(phases).tolist() == list(range(int(0.3 * PHASES), int(0.5 * PHASES)))


def test_samples_of_uncertain_time_count_only_where_there_are_few_others() -> None:
    time = np.arange(TURNS) * S + 6 * S // 10
    loose = {"slack_ns": 2 * S // 10}
    hopeless = {"slack_ns": 6 * S // 10}
    sharp = np.arange(2 * TURNS * 3) * S // 6 + S // 20
    slack = np.where(np.arange(len(sharp)) % 6 == 5, 2 * S // 10, 0)
    flows = flows_of(
        progress_of(
            Stream(0, 1, time, np.arange(TURNS), loose),
            Stream(0, 1, time, np.arange(TURNS), hopeless),
            Stream(0, 1, sharp, np.arange(len(sharp)), {"slack_ns": slack}),
        )
    )
    # A moment between 0.4 and 0.6 of the turn is taken to be its middle.
    assert flows.phases[0].argmax() == PHASES // 2
    assert flows.phases.sum(axis=1).tolist() == [TURNS, 0, np.sum(slack == 0)]


def test_small_packets_are_no_sighting_of_data() -> None:
    """What Gloo announces on the connection back while data comes."""
    time = np.arange(2 * TURNS) * S // 2 + S // 3
    scaled = np.where(np.arange(2 * TURNS) % 2, 100 * 100, 100 * (MTU + HEADERS))
    flows = flows_of(
        progress_of(Stream(0, 1, time, np.arange(2 * TURNS), {"scaled_bytes": scaled}))
    )
    assert flows.samples[0] == 2 * TURNS
    assert (flows.sightings.time_ns - START_NS).tolist() == time[::2].tolist()


def test_progress_stands_alone_where_the_sampling_rate_is_unknown() -> None:
    time = np.arange(TURNS) * S + S // 3
    flows = flows_of(progress_of(Stream(0, 1, time, np.arange(TURNS) * 1000), rate=0))
    assert flows.bytes_per_turn[0] == pytest.approx(1000 * MTU)


def test_frames_are_counted_without_their_headers() -> None:
    frame = 1000 + HEADERS
    fields = {"mean_payload": 1000, "mean_frame": frame, "scaled_bytes": frame, "samples": 10}
    time = np.arange(TURNS) * S + S // 3
    flows = flows_of(progress_of(Stream(0, 1, time, np.zeros(TURNS, np.int64), fields)))
    assert flows.bytes_per_turn[0] == pytest.approx(1000)
