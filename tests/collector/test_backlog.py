from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.backlog import Backlog
from collector.link import DatagramBatch
from tests.collector.test_mmsg import payloads
from tests.collector.twins import batch_of

LARGE = 1 << 30


def numbered(number: int, rows: int = 1) -> DatagramBatch:
    """A batch whose datagrams, senders and stamps all say which one it is."""
    batch = batch_of([b"%d.%d" % (number, row) for row in range(rows)])
    return replace(
        batch,
        arrival_ns=np.full(rows, number, np.int64),
        src_port=np.full(rows, number, np.uint16),
        file_offset=np.zeros(rows, np.int64),
    )


def test_small_batches_are_taken_together_in_order() -> None:
    backlog = Backlog(LARGE)
    for number in (1, 2, 3):
        backlog.put(numbered(number, rows=number))
    taken = backlog.take()
    assert taken is not None
    assert payloads(taken) == [b"1.0", b"2.0", b"2.1", b"3.0", b"3.1", b"3.2"]
    assert taken.arrival_ns.tolist() == taken.src_port.tolist() == [1, 2, 2, 3, 3, 3]
    assert taken.file_offset.tolist() == [0] * 6
    assert backlog.take(timeout_s=0) is None
    assert not backlog.finished


def test_little_waits_for_more_until_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.backlog._GATHER_S", 60.0)
    backlog = Backlog(LARGE)
    taken: list[DatagramBatch | None] = []
    taking = threading.Thread(target=lambda: taken.append(backlog.take()))
    taking.start()
    for number in (1, 2):
        backlog.put(numbered(number))
    backlog.put(batch_of([bytes(4 << 20)]))
    taking.join(60)
    (batch,) = taken
    assert batch is not None
    assert len(batch) == 3


def test_little_does_not_wait_for_long() -> None:
    backlog = Backlog(LARGE)
    backlog.put(numbered(1))
    assert backlog.take() is not None


def test_one_take_is_bounded() -> None:
    backlog = Backlog(LARGE)
    wide = batch_of([bytes(3 << 20)])
    for _ in range(3):
        backlog.put(wide)
    taken = [backlog.take(timeout_s=0) for _ in range(3)]
    assert [None if batch is None else len(batch) for batch in taken] == [2, 1, None]


def test_when_full_the_oldest_go_and_are_counted() -> None:
    backlog = Backlog(10_000)
    wide = batch_of([bytes(1000)] * 3)  # two fit, with their columns; three do not
    for batch in (numbered(1, rows=5), wide, wide):
        backlog.put(batch)
    assert backlog.dropped_datagrams == 0
    backlog.put(wide)
    assert backlog.dropped_datagrams == 5 + 3
    taken = backlog.take()
    assert taken is not None
    assert payloads(taken) == [bytes(1000)] * 6


def test_the_newest_batch_is_kept_whatever_its_size() -> None:
    backlog = Backlog(0)
    backlog.put(numbered(1, rows=4))
    backlog.put(numbered(2))
    taken = backlog.take()
    assert taken is not None
    assert payloads(taken) == [b"2.0"]
    assert backlog.dropped_datagrams == 4


@given(
    st.integers(0, 3000),
    st.lists(st.one_of(st.none(), st.integers(1, 9)), max_size=30),
)
def test_nothing_is_lost_uncounted(limit_bytes: int, steps: list[int | None]) -> None:
    """`None` takes, a number puts so many rows: in = out + dropped, and out keeps its order."""
    backlog = Backlog(limit_bytes)
    rows = 0
    out: list[int] = []
    for number, step in enumerate(steps):
        if step is None:
            taken = backlog.take(timeout_s=0)
            out += [] if taken is None else taken.arrival_ns.tolist()
        else:
            backlog.put(numbered(number, rows=step))
            rows += step
    backlog.close()
    while (taken := backlog.take()) is not None:
        out += taken.arrival_ns.tolist()
    assert out == sorted(out)
    assert rows == len(out) + backlog.dropped_datagrams


def test_closing_wakes_who_waits_and_leaves_the_rest() -> None:
    backlog = Backlog(LARGE)
    answers: list[DatagramBatch | None] = []
    waiting = threading.Thread(target=lambda: answers.append(backlog.take()))
    waiting.start()
    backlog.close()
    waiting.join(60)
    assert answers == [None]
    assert backlog.finished


def test_what_waited_can_be_taken_after_closing() -> None:
    backlog = Backlog(LARGE)
    backlog.put(numbered(1))
    backlog.close()
    assert not backlog.finished
    assert backlog.take() is not None
    assert backlog.finished


def test_a_putting_and_a_taking_thread() -> None:
    backlog = Backlog(LARGE)
    count = 300

    def put() -> None:
        for number in range(count):
            backlog.put(numbered(number))
        backlog.close()

    putting = threading.Thread(target=put)
    putting.start()
    out: list[int] = []
    while (taken := backlog.take()) is not None:
        out += taken.arrival_ns.tolist()
    putting.join()
    assert out == list(range(count))
