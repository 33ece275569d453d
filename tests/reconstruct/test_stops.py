from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct.stops import CYCLES, between_stops


def bursts(pauses: list[int]) -> NDArray[np.float64]:
    """Bursts of ten bins with pauses of so many bins between them."""
    parts = [np.ones(10)]
    for pause in pauses:
        parts += [np.zeros(pause), np.ones(10)]
    return np.concatenate(parts)


def lengths(pauses: list[int]) -> list[int]:
    return [len(piece) for piece in between_stops(bursts(pauses))]


def test_a_cycle_without_a_stop_is_one_piece() -> None:
    whole = bursts([20, 21, 19, 20, 22, 20, 18])
    [piece] = between_stops(whole)
    assert piece.tolist() == whole.tolist()


@pytest.mark.parametrize("places", [[3], [3, 9], [2, 5, 8, 11]])
def test_a_signal_is_parted_at_its_stops(places: list[int]) -> None:
    pauses = [20] * 14
    for place in places:
        pauses[place] = 60
    edges = [-1, *places, 14]
    wanted = [10 + 30 * (b - a - 1) for a, b in pairwise(edges)]
    assert lengths(pauses) == wanted


def test_what_happens_as_often_as_a_cycle_is_no_stop() -> None:
    pauses = [4, 4, 4, 60] * CYCLES
    assert len(lengths(pauses)) == 1


def written(pauses: list[int], within: list[int], always: float = 0.0) -> NDArray[np.float64]:
    """What is sent to others: something in every bin, and much in the pauses at some places."""
    parts = [np.full(10, always)]
    for place, pause in enumerate(pauses):
        parts += [np.full(pause, 5.0 if place in within else always), np.full(10, always)]
    return np.concatenate(parts)


def test_a_checkpoint_is_a_stop_however_often_it_comes() -> None:
    pauses = [4, 4, 4, 60] * CYCLES
    checkpoints = list(range(3, len(pauses), 4))
    pieces = between_stops(bursts(pauses), written(pauses, checkpoints))
    assert [len(piece) for piece in pieces] == [4 * 10 + 3 * 4] * CYCLES + [10]


@pytest.mark.parametrize(
    ("within", "always"),
    [
        (list(range(3, 4 * CYCLES, 4)), 5.0),  # it writes all the time
        (list(range(4 * CYCLES)), 0.0),  # in every pause
        ([0, 5, 10], 0.0),  # in some short ones
        ([], 0.0),
    ],
)
def test_a_pause_of_the_cycle_is_no_checkpoint(within: list[int], always: float) -> None:
    pauses = [4, 4, 4, 60] * CYCLES
    assert len(between_stops(bursts(pauses), written(pauses, within, always))) == 1


def test_a_pause_a_little_longer_is_no_stop() -> None:
    assert len(lengths([20, 20, 29, 20, 20, 20, 20])) == 1


def test_silence_before_and_behind_is_no_piece() -> None:
    signal = np.concatenate([np.zeros(70), bursts([20] * 8), np.zeros(90)])
    assert [len(piece) for piece in between_stops(signal)] == [10 + 30 * 8]


@pytest.mark.parametrize("signal", [np.zeros(0), np.zeros(50), np.ones(50)])
def test_what_never_pauses_has_no_stop(signal: NDArray[np.float64]) -> None:
    [piece] = between_stops(signal)
    assert piece.tolist() == signal.tolist()
