from __future__ import annotations

import numpy as np

from collector.roster import Roster


def test_numbers_never_change() -> None:
    roster = Roster(2)
    roster.grow((2, 0))
    roster.grow((2, 1))
    roster.grow((4, 2))
    assert roster.entries == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1)]
    assert roster.number(0, np.arange(4)).tolist() == [0, 1, 3, 4]
    assert roster.number(1, np.array([1, 0, 1])).tolist() == [5, 2, 5]
    assert roster.own(0).tolist() == [0, 1, -1, 2, 3, -1]
    assert roster.own(1).tolist() == [-1, -1, 0, -1, -1, 1]
