from __future__ import annotations

import numpy as np

from reconstruct.lockstep import TOGETHER, eras, together


def test_connections_with_lines_of_their_own_go_one_way() -> None:
    rng = np.random.default_rng(9)
    true = np.sort(rng.uniform(0, 1000, 600))
    owner = rng.integers(0, 6, 600)
    place = rng.uniform(1, 5, 6)[owner] * true + rng.uniform(-1e6, 1e6, 6)[owner]
    rows, gone, apart = together(place, owner)
    assert len(rows) == 600
    assert apart.max() < 0.5
    assert np.abs(np.polyval(np.polyfit(gone, true, 1), gone) - true).max() < 1000 / 600


def test_a_connection_whose_counter_went_round_is_left_out() -> None:
    rng = np.random.default_rng(10)
    true = np.sort(rng.uniform(0, 1000, 600))
    owner = rng.integers(0, 6, 600)
    rows, _, apart = together(true - 300 * ((owner == 2) & (true > 500)), owner)
    assert set(owner[rows].tolist()) == {0, 1, 3, 4, 5}
    assert apart.max() < TOGETHER


def test_connections_that_gave_way_to_others_are_of_another_era() -> None:
    assert eras(np.array([3, 1, 3, 1, 2, 2, 5, 2, 5])).tolist() == [0] * 4 + [1] * 5
    assert not eras(np.array([3, 1, 2, 1, 3, 2])).any()
