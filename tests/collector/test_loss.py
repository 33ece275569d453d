from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.loss import WINDOW, Order, Streams

Message = tuple[int, int] | tuple[int, int, int]  # number, uptime in ms, digest


def run(messages: Sequence[Message], *, digests: bool = True) -> tuple[int, list[Order]]:
    """Loss and orders of one stream; a message's digest is its number unless it says otherwise."""
    streams = Streams(digests=digests)
    order = streams.follow(
        1,
        np.zeros(len(messages), np.int64),
        np.array([m[0] % 2**32 for m in messages], np.uint32),
        np.array([m[1] % 2**32 for m in messages], np.uint32),
        np.array([m[2] if len(m) == 3 else m[0] % 2**32 for m in messages], np.uint64),
    )
    return int(streams.lost(1)[0]), [Order(value) for value in order]


def ticking(numbers: Sequence[int], start_ms: int = 500_000) -> list[Message]:
    """Messages a second apart by their numbers, in the order given."""
    return [(number, start_ms + 1000 * (number - numbers[0])) for number in numbers]


def test_the_first_number_is_no_loss() -> None:
    assert run(ticking([700, 701, 702]))[0] == 0


def test_a_gap_is_loss() -> None:
    assert run(ticking([1, 2, 5, 6]))[0] == 2


def test_reordering_is_no_loss_and_is_named() -> None:
    assert run(ticking([1, 3, 2, 4])) == (
        0,
        [Order.NEXT, Order.NEXT, Order.LATE, Order.NEXT],
    )


def test_a_stream_may_begin_reordered() -> None:
    assert run(ticking([2, 1, 3]))[0] == 0
    assert run(ticking([4, 1, 5]))[0] == 2  # 2 and 3 never came


def test_duplicates_are_neither_loss_nor_a_restart() -> None:
    lost, order = run(ticking([1, 2, 2, 3, 1, 4]))
    assert lost == 0
    assert [i for i, o in enumerate(order) if o is Order.DUPLICATE] == [2, 4]


def test_a_number_used_again_for_other_content_is_no_duplicate() -> None:
    # Some agents never advance their number: their datagrams must not be thrown away.
    lost, order = run([(0, 1000, 1), (0, 2000, 2), (0, 3000, 3)])
    assert (lost, order[1:]) == (0, [Order.REUSED, Order.REUSED])


@pytest.mark.parametrize("numbers", [(1, 2), (90, 91), (400, 401), (70_000, 70_001)])
def test_a_restart_is_known_by_uptime_and_is_no_loss(numbers: tuple[int, int]) -> None:
    before = ticking([95, 96, 97])
    after: list[Message] = [(numbers[0], 20), (numbers[1], 1020)]
    lost, order = run([*before, *after])
    assert (lost, order[3:]) == (0, [Order.RESTART, Order.NEXT])


def test_what_was_sent_before_a_restart_may_come_after_it() -> None:
    before = ticking([95, 96, 98])
    lost, order = run([*before, (1, 20), (97, 502_000), (99, 504_000), (2, 1020)])
    assert lost == 0  # 97 was late, 99 was ahead of all that had come
    assert order[3:] == [Order.RESTART, Order.LATE, Order.LATE, Order.NEXT]
    assert run([*before, (1, 20), (2, 1020)])[0] == 1
    again = run([*before, (1, 20), (98, 503_000), (2, 1020)])
    assert again == (1, [*order[:3], Order.RESTART, Order.DUPLICATE, Order.NEXT])


def test_a_clock_that_leaps_ahead_after_a_restart_is_not_of_before() -> None:
    # A machine wakes, and its uptime counts the time asleep.
    lost, _ = run([*ticking([1, 2]), (1, 20), (2, 90_000_000), (4, 90_001_000)])
    assert lost == 1


def test_loss_before_a_restart_stays_counted() -> None:
    assert run([*ticking([1, 4]), (1, 10), (3, 2010)])[0] == 2 + 1


def test_numbering_that_falls_far_back_is_a_restart_even_without_uptime() -> None:
    lost, order = run([(5000, 0), (5001, 0), (1, 0), (2, 0)])
    assert (lost, order[2:]) == (0, [Order.LEAP, Order.NEXT])


def test_a_very_late_message_takes_its_loss_back() -> None:
    numbers = [*range(1, 10), *range(11, 40 + WINDOW), 10]
    lost, order = run([(n, 500_000 + 10 * n) for n in numbers])
    assert (lost, order[-1]) == (0, Order.LATE)


def test_numbers_and_uptime_wrap() -> None:
    top = 2**32
    assert run([(top - 2, top - 2000), (top - 1, top - 1000), (0, 0), (2, 2000)])[0] == 1


def test_a_leap_is_another_stream() -> None:
    assert run([(1, 1000), (2**31 - 5, 2000), (2**31 - 4, 3000)])[0] == 0


def test_streams_do_not_mix() -> None:
    # Sub-agents number their datagrams each for itself.
    streams = Streams(digests=True)
    stream = np.array([0, 1, 0, 1, 0, 1], np.int64)
    sequence = np.array([10, 900, 11, 901, 13, 902], np.uint32)
    streams.follow(2, stream, sequence, sequence, sequence.astype(np.uint64))
    assert streams.lost(2).tolist() == [1, 0]


@given(
    lost=st.sets(st.integers(1, 298), max_size=60),
    shuffle=st.lists(st.floats(0, 8), min_size=300, max_size=300),
    repeats=st.lists(st.integers(0, 299), max_size=20),
    first=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 300),
)
def test_loss_is_exact_under_reordering_and_repeats(
    lost: set[int], shuffle: list[float], repeats: list[int], first: int, cut: int
) -> None:
    kept = [n for n in range(300) if n not in lost]
    arriving = sorted([(n + shuffle[n], n) for n in kept])
    arriving += [(n + 9.0, n) for n in repeats if n not in lost]
    numbers = [n for _, n in sorted(arriving)]
    streams = Streams(digests=True)
    for part in (numbers[:cut], numbers[cut:]):  # in two batches
        count = len(part)
        streams.follow(
            1,
            np.zeros(count, np.int64),
            np.array([(first + n) % 2**32 for n in part], np.uint32),
            np.array([1_000_000 + 10 * n for n in part], np.uint32),
            np.array(part, np.uint64),
        )
    assert streams.lost(1)[0] == len(lost)
