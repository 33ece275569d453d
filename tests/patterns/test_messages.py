from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collector.messages import CLASS_NAMES, MESSAGE_CLASSES
from patterns import messages
from tests.patterns.made import MIB, Wire, flows_of, rows

NAN = float("nan")


def pooled(*wires: Wire) -> str | None:
    flows = flows_of(wires)
    found = messages.pooled_class(flows, rows(flows))
    return None if found == messages.UNKNOWN else CLASS_NAMES[found]


def test_lengths_are_those_of_nccls_buffers() -> None:
    # NCCL 2.30: 4 MiB in eight steps, two or one a message; LL128 and send/recv as enqueue.cc says.
    assert MESSAGE_CLASSES == {
        "ring_simple": 1 << 20,
        "ll128": 614_400,
        "tree_simple": 1 << 19,
        "p2p_128k": 1 << 17,
        "p2p_64k": 1 << 16,
        "p2p_32k": 1 << 15,
    }


def test_the_length_read_most_often_wins_over_a_pool() -> None:
    wires = [
        Wire(0, 1, lengths={"tree_simple": 2, "p2p_64k": 1}),
        Wire(1, 2, lengths={"p2p_64k": 2}, mean_message_bytes=MIB),
        Wire(2, 3),
    ]
    assert pooled(*wires) == "p2p_64k"
    assert pooled(wires[0], wires[2]) == "tree_simple"


@pytest.mark.parametrize(
    ("means", "wanted"),
    [
        ([MIB], "ring_simple"),
        ([0.95 * MIB], "ring_simple"),
        ([1.005 * MIB, NAN, 0.96 * MIB], "ring_simple"),
        ([0.5 * MIB], "tree_simple"),
        ([131_072 * 0.97], "p2p_128k"),
        ([0.8 * MIB], None),
        ([1.1 * MIB], None),
        ([2000.0], None),
        ([NAN, NAN], None),
        ([0.5 * MIB, 0.5 * MIB, MIB], "tree_simple"),
    ],
)
def test_where_none_was_read_the_mean_tells_if_it_is_near_one(
    means: list[float], wanted: str | None
) -> None:
    assert pooled(*(Wire(0, i, mean_message_bytes=m) for i, m in enumerate(means, 1))) == wanted


def test_a_site_may_have_other_lengths() -> None:
    # NCCL_BUFFSIZE of 8 MiB: a ring's messages are twice as long.
    usual = flows_of([Wire(0, 1, mean_message_bytes=2.0 * MIB)])
    assert messages.pooled_class(usual, rows(usual)) == messages.UNKNOWN
    longer = replace(usual, message_lengths=(2 << 20, *usual.message_lengths[1:]))
    assert CLASS_NAMES[messages.pooled_class(longer, rows(longer))] == "ring_simple"


def test_a_connection_alone_shows_only_what_was_read_of_it() -> None:
    flows = flows_of(
        [Wire(0, 1, lengths={"ll128": 1}), Wire(1, 2, mean_message_bytes=MIB), Wire(2, 3)]
    )
    found = messages.classes_by_connection(flows)
    assert found.tolist() == [CLASS_NAMES.index("ll128"), messages.UNKNOWN, messages.UNKNOWN]


def test_only_send_and_receive_chunks_are_point_to_point() -> None:
    said = {name: messages.is_point_to_point(i) for i, name in enumerate(CLASS_NAMES)}
    assert said == {name: name.startswith("p2p") for name in CLASS_NAMES}
    assert not messages.is_point_to_point(messages.UNKNOWN)


def test_no_connections_have_no_class() -> None:
    empty = flows_of([])
    assert messages.pooled_class(empty, np.zeros(0, np.intp)) == messages.UNKNOWN
    assert len(messages.classes_by_connection(empty)) == 0


def sorts(*wires: Wire) -> list[bool]:
    flows = flows_of(wires)
    return [bool(sent) for sent in messages.sent_by_each(flows, rows(flows))]


EARLY, LATE = (0.0, 0.6), (0.7, 1.0)
SENT = Wire(0, 1, samples=300, active=EARLY, lengths={"p2p_128k": 2})
REDUCED = Wire(1, 2, samples=300, active=LATE, lengths={"ring_simple": 1})


def test_sorts_of_equal_volume_are_told_by_when_they_send() -> None:
    silent = [replace(wire, lengths={}) for wire in (SENT, REDUCED, SENT, REDUCED)]
    assert sorts(SENT, REDUCED, *silent) == [True, False, True, False, True, False]


def test_what_a_connection_shows_itself_goes_before_its_phases() -> None:
    late = replace(SENT, active=LATE)
    assert sorts(SENT, SENT, REDUCED, REDUCED, late) == [True, True, False, False, True]


def test_sorts_that_send_at_once_are_what_most_of_their_like_are() -> None:
    together = replace(REDUCED, active=EARLY)
    silent = replace(SENT, lengths={})
    assert sorts(SENT, together, silent, silent) == [True, False, True, True]
    few = replace(SENT, samples=3), replace(REDUCED, samples=3)
    assert sorts(*few, replace(REDUCED, lengths={})) == [True, False, True]


def test_a_pool_of_one_sort_is_of_that_sort() -> None:
    assert sorts(REDUCED, replace(SENT, lengths={})) == [False, False]
    assert sorts(SENT, replace(REDUCED, lengths={})) == [True, True]
    assert sorts(replace(SENT, lengths={})) == [False]
