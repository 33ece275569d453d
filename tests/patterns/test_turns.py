from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.timeline import Timeline
from patterns.turns import latest
from tests.patterns.placing import placed
from tests.reconstruct.made import START_NS, S, Stream, progress_of
from tests.reconstruct.rhythm import cuts

PERIOD_S, TURNS = 1.3, 24
BEGIN, END = 0.55, 0.85  # of a turn: its steps
PER_TURN = 60_000


def cube(bits: int) -> list[list[tuple[int, int]]]:
    """Edges of recursive doubling by step."""
    members = range(1 << bits)
    return [[(v, v ^ (1 << bit)) for v in members] for bit in range(bits)]


def stepped(
    steps: list[list[tuple[int, int]]],
    turns: NDArray[np.float64],
    samples: int,
    calls: int = 1,
    pause: float = 0.0,
) -> list[Stream]:
    """Each step's connections in turn, `calls` times over; `pause` of a turn lies half way."""
    rng = np.random.default_rng(5)
    count = len(steps) * calls
    length = (END - BEGIN - pause) / count
    streams = []
    for step, edges in enumerate(steps):
        for src, dst in edges:
            total = TURNS * PER_TURN
            seen = np.sort(rng.choice(total, samples * TURNS, replace=False))
            turn, gone = np.divmod(seen / PER_TURN, 1.0)
            call, share = np.divmod(gone * calls, 1.0)
            at = call * len(steps) + step
            phase = BEGIN + (at + share) * length + np.where(at >= count / 2, pause, 0.0)
            turn = turn.astype(np.int64)
            time = turns[turn] + phase * np.diff(turns)[turn]
            streams.append(Stream(src, dst, np.round(time * S).astype(np.int64), seen))
    return streams


def turns_s(seed: int = 3) -> NDArray[np.float64]:
    return cuts(PERIOD_S, TURNS, 0.01, np.random.default_rng(seed))


def worst(found: Timeline, wanted_s: NDArray[np.float64]) -> float:
    """The largest distance of a found end from the next wanted one, in periods."""
    at = (found.ends_ns - START_NS) / S
    return float(np.abs(at[:, None] - wanted_s).min(axis=1).max()) / PERIOD_S


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("samples", [40, 10])
def test_steps_end_with_those_of_the_last_one(calls: int, samples: int) -> None:
    turns = turns_s()
    found = placed(progress_of(*stepped(cube(3), turns, samples, calls)), PERIOD_S, "steps")
    assert len(found.ends_ns) >= TURNS - 1
    assert worst(found, turns[:-1] + END * np.diff(turns)) < 0.004
    assert found.collective == "all_reduce"


@pytest.mark.parametrize("calls", [1, 3])
def test_without_gradients_iterations_begin_with_the_first_step(calls: int) -> None:
    turns = turns_s()
    found = placed(progress_of(*stepped(cube(3), turns, 40, calls)), PERIOD_S, "begin")
    assert len(found.ends_ns) >= TURNS - 2
    assert worst(found, turns[:-1] + BEGIN * np.diff(turns)) < 0.004
    assert found.collective == "unknown"


def test_a_pause_amid_the_steps_leaves_open_what_they_are() -> None:
    found = placed(progress_of(*stepped(cube(2), turns_s(), 40, pause=0.05)), PERIOD_S, "steps")
    assert found.collective == "unknown"
    assert not found.told


def test_a_few_misplaced_samples_do_not_make_a_pace() -> None:
    """Each connection has a sample a turn; one sample more lies a turn's pause away."""
    turns, ends = 12, np.arange(12) * S
    owner, turn = (a.ravel() for a in np.meshgrid(np.arange(6), np.arange(12)))
    share = np.random.default_rng(1).uniform(0.8, 1.0, len(owner))
    time_s = turn - 0.02 * (1 - share)
    astray = np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([0.79, 0.78, 0.77])
    clock = VolumeClock(
        owner=np.concatenate([owner, astray[0]]),
        group=np.zeros(6, np.intp),
        turn=np.concatenate([turn, astray[1]]),
        volume=np.concatenate([turn - 1 + share, astray[1] - 1 + astray[2]]),
        time_s=np.concatenate([time_s, astray[1] - 0.7]),
        origin_ns=0,
        turns=turns,
    )
    assert np.abs(latest(clock, ends) - ends).max() < 0.02 * S
