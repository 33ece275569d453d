from __future__ import annotations

import numpy as np

from reconstruct.bins import Progress
from reconstruct.steadied import steadied
from reconstruct.volumes import window_volumes
from tests.reconstruct.made import MTU, S, Stream, progress_of
from tests.reconstruct.test_edges import TURNS, flows_of

PER_TURN, SAMPLES = 400, 50
EDGES = 8


def drawn(
    edge: int,
    seed: int,
    samples: int = SAMPLES,
    turns: tuple[int, int] = (0, TURNS),
    begin: int = 0,
) -> Stream:
    """A burst in each of some turns, sampled packet by packet, from the one numbered `begin` on."""
    first, last = (turn * PER_TURN for turn in turns)
    rng = np.random.default_rng([seed, edge])
    seen = np.sort(rng.choice(np.arange(first + begin, last), samples, replace=False))
    return spread(edge, seen)


def spread(edge: int, seen: np.ndarray, ahead: int = 0) -> Stream:
    """Packets at their times, in bursts from 0.3 to 0.5 of each second; `ahead` came before."""
    time = (seen // PER_TURN + 0.3 + 0.2 * (seen % PER_TURN) / PER_TURN) * S
    return Stream(edge, (edge + 1) % EDGES, time.astype(np.int64), seen + ahead)


def packets(progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Of each connection, by itself and by its group."""
    volumes, flows = window_volumes(progress), flows_of(progress)
    found = steadied(volumes, flows, [np.arange(len(flows))])
    assert np.allclose(found.wire_bytes / found.bytes, volumes.wire_bytes / volumes.bytes)
    return volumes.bytes / MTU, found.bytes / MTU


def test_edges_that_serve_the_same_turns_tell_each_other_when_they_began_and_ended() -> None:
    rate = PER_TURN * TURNS // SAMPLES
    alone, together = [], []
    for seed in range(30):
        streams = [drawn(edge, seed) for edge in range(EDGES)]
        by_itself, by_group = packets(progress_of(*streams, rate=rate))
        alone.append(np.abs(by_itself / PER_TURN / TURNS - 1))
        together.append(np.abs(by_group / PER_TURN / TURNS - 1))
    assert np.max(alone) > 0.05
    assert np.max(together) < 0.035
    assert np.sqrt(np.mean(np.square(together))) < 0.5 * np.sqrt(np.mean(np.square(alone)))


def test_a_first_sample_that_came_late_is_made_up_for() -> None:
    late = PER_TURN * TURNS // 10  # in five mean gaps between samples, none fell
    streams = [drawn(0, 1, begin=late), *(drawn(edge, 1) for edge in range(1, EDGES))]
    alone, together = packets(progress_of(*streams, rate=PER_TURN * TURNS // SAMPLES))
    assert alone[0] < 0.95 * PER_TURN * TURNS
    assert abs(together[0] / PER_TURN / TURNS - 1) < 0.02


def test_what_is_sent_once_counts() -> None:
    start_up = 10 * PER_TURN
    seen = np.arange(0, PER_TURN * TURNS, 20)
    at_once = Stream(0, 1, np.arange(40) * S // 200, np.arange(40) * start_up // 40)
    repeats = spread(0, seen, start_up)
    first = Stream(
        0,
        1,
        np.concatenate([at_once.time_ns, repeats.time_ns]),
        np.concatenate([at_once.position, repeats.position]),
    )
    progress = progress_of(first, *(spread(edge, seen) for edge in range(1, EDGES)), rate=20)
    alone, together = packets(progress)
    assert together[0] == alone[0]
    assert abs(together[1] / PER_TURN / TURNS - 1) < 0.01


def test_a_connection_of_some_turns_did_not_serve_all() -> None:
    short = drawn(0, 1, turns=(0, TURNS // 2))
    progress = progress_of(short, *(drawn(edge, 1, 2 * SAMPLES) for edge in range(1, EDGES)))
    alone, together = packets(progress)
    assert together[0] == alone[0] < 0.6 * PER_TURN * TURNS


def test_counts_and_connections_of_no_group_stay() -> None:
    progress = progress_of(*(drawn(edge, 1) for edge in range(EDGES)), rate=1)
    volumes, flows = window_volumes(progress), flows_of(progress)
    assert np.isnan(volumes.spanned).all()  # progress contradicts so low a rate
    assert (steadied(volumes, flows, [np.arange(EDGES)]).bytes == volumes.bytes).all()
    assert (steadied(volumes, flows, []).bytes == volumes.bytes).all()
