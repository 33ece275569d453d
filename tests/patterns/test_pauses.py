from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.pauses import FIRM_ROWS, FIRM_STEPS, Pace, read_pace

TURNS, PERIOD_S, BURST_S = 20, 4.0, 3.0
PAUSES = {0.2: 0.1, 0.5: 0.2, 0.8: 0.1}  # share: seconds


def left_s(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds to the end of a usual turn's traffic."""
    steady = BURST_S - sum(PAUSES.values())
    behind = sum((length * (share < at) for at, length in PAUSES.items()), np.zeros(len(share)))
    return (1 - share) * steady + behind


def clock(rows: int, lasted_s: NDArray[np.float64]) -> tuple[VolumeClock, NDArray[np.int64]]:
    """Samples of one connection in turns that take so long, and the turns' ends."""
    rng = np.random.default_rng(1)
    ends_s = np.cumsum(lasted_s)
    turn, share = rng.integers(1, TURNS, rows), rng.random(rows)
    usual = np.minimum(lasted_s / PERIOD_S, 1.5)
    return VolumeClock(
        owner=np.zeros(rows, np.intp),
        group=np.zeros(1, np.intp),
        turn=turn,
        volume=turn - 1 + share,
        time_s=ends_s[turn] - left_s(share) * usual[turn],
        origin_ns=0,
        turns=TURNS,
    ), np.rint(ends_s * 1e9).astype(np.int64)


def pauses_in(pace: Pace) -> dict[float, float]:
    """Shares and lengths of the steps that stand out."""
    steps = -np.diff(pace.left_s)
    found = np.flatnonzero(steps > pace.usual_s + 0.03)
    return {float(i + 1) / pace.steps: float(steps[i] - pace.usual_s) for i in found}


@pytest.mark.parametrize("jitter", [0.0, 0.02, 0.05])
def test_turns_that_take_a_little_longer_blur_no_pause(jitter: float) -> None:
    rng = np.random.default_rng(2)
    pace = read_pace(*clock(1200, PERIOD_S * (1 + jitter * rng.standard_normal(TURNS))), PERIOD_S)
    assert pace is not None
    assert pace.steps == 100
    found = pauses_in(pace)
    assert [round(share, 1) for share in found] == list(PAUSES)
    assert np.abs(np.array(list(found)) - list(PAUSES)).max() <= 1.5 / pace.steps
    assert list(found.values()) == pytest.approx(list(PAUSES.values()), abs=0.03)


def test_a_turn_that_stood_still_moves_no_pause() -> None:
    lasted = np.full(TURNS, PERIOD_S)
    lasted[7] = 9 * PERIOD_S
    pace = read_pace(*clock(1200, lasted), PERIOD_S)
    assert pace is not None
    assert [round(share, 1) for share in pauses_in(pace)] == list(PAUSES)


def test_ends_that_fall_together_are_no_division_by_nothing() -> None:
    lasted = np.full(TURNS, PERIOD_S)
    lasted[5] = 0.0
    pace = read_pace(*clock(1200, lasted), PERIOD_S)
    assert pace is not None
    assert np.isfinite(pace.left_s).all()


@pytest.mark.parametrize("rows", [500, 3000, 50_000])
def test_a_firm_pace_has_rows_enough_in_each_step(rows: int) -> None:
    pace = read_pace(*clock(rows, np.full(TURNS, PERIOD_S)), PERIOD_S)
    assert pace is not None
    firm = pace.firm(rows)
    assert firm.steps <= FIRM_STEPS
    assert rows >= FIRM_ROWS * firm.steps or firm.steps < 80
    assert firm.left_s[0] == pytest.approx(BURST_S, rel=0.03)
