"""Roles of whole jobs, drawn by rank maps: what each group serves, told from all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patterns.groups import Found, build, recognise
from patterns.layers import split
from tests.patterns.drawn import both, cycle, path
from tests.patterns.made import MIB, Wire, flows_of, rows

Kinds = dict[frozenset[int], str]

GRADIENTS = Wire(0, 0, 100 * MIB, 300, active=(0.85, 1.0), lengths={"ring_simple": 3})
LAYERS = Wire(0, 0, 700 * MIB, 900, active=(0.0, 0.84), lengths={"ring_simple": 9})
BLOCKS = Wire(0, 0, 300 * MIB, 600, active=(0.0, 0.84), lengths={"p2p_128k": 9})
UNREAD: dict[str, int] = {}


def ring(members: Sequence[int], like: Wire) -> list[Wire]:
    """Two members are a ring as well: one edge each way."""
    return [replace(like, src=u, dst=v) for u, v in cycle(members)]


def everyone(members: Sequence[int], like: Wire, uneven: float = 0.0) -> list[Wire]:
    return [
        replace(like, src=u, dst=v, bytes=like.bytes * (1 + uneven * (u - v) / len(members)))
        for u, v in permutations(members, 2)
    ]


def stages(members: Sequence[int], like: Wire, lag: float = 0.1) -> list[Wire]:
    """Activations along the members, gradients back a lag of the turn later."""
    low, high = like.active
    ahead = [replace(like, src=u, dst=v) for u, v in path(members)]
    late = replace(like, active=(low + lag, high + lag))
    return ahead + [replace(late, src=v, dst=u) for u, v in path(members)]


def found_in(wires: Iterable[Wire]) -> list[Found]:
    flows = flows_of(list(wires))
    return recognise(flows, split(flows, rows(flows), {}))


def kinds_of(wires: Iterable[Wire]) -> Kinds:
    """Kind of each group by its members; groups of the same members are of one kind here."""
    return {frozenset(f.shape.members): f.role.kind for f in found_in(wires)}


def blocks(hosts: int, size: int) -> list[range]:
    return [range(at, at + size) for at in range(0, hosts, size)]


def strides(hosts: int, size: int) -> list[range]:
    """What lies across blocks of a size: the first of each, the second of each, ..."""
    return [range(at, hosts, size) for at in range(size)]


def wanted(groups: Iterable[Sequence[int]], kind: str) -> Kinds:
    return {frozenset(group): kind for group in groups}


def tensor_parallel() -> list[Wire]:
    """Twelve hosts: layers spread over two hosts each, six replicas."""
    wires = [w for block in blocks(12, 2) for w in ring(block, LAYERS)]
    return wires + [w for members in strides(12, 2) for w in ring(members, GRADIENTS)]


def experts(size: int = 2, like: Wire = BLOCKS, uneven: float = 0.3) -> list[Wire]:
    """Twelve hosts: experts spread over some, their replicas across, dense rings over all."""
    wires = ring(range(12), replace(GRADIENTS, bytes=260 * MIB))
    for block in blocks(12, size):
        wires += everyone(block, like, uneven)
    for members in strides(12, size):
        wires += ring(members, GRADIENTS)
    return wires


def context(size: int, like: Wire = BLOCKS) -> list[Wire]:
    """Twelve hosts that reduce one gradient, and hand on blocks of a sequence among a few."""
    return ring(range(12), GRADIENTS) + [w for b in blocks(12, size) for w in ring(b, like)]


def test_what_every_layer_sends_across_gradient_groups_is_tensor_parallel() -> None:
    assert kinds_of(tensor_parallel()) == (
        wanted(blocks(12, 2), "tp") | wanted(strides(12, 2), "dp")
    )


def test_the_same_over_four_hosts_each() -> None:
    wires = [w for block in blocks(16, 4) for w in ring(block, LAYERS)]
    wires += [w for members in strides(16, 4) for w in ring(members, GRADIENTS)]
    assert kinds_of(wires) == wanted(blocks(16, 4), "tp") | wanted(strides(16, 4), "dp")


@pytest.mark.parametrize("size", [2, 4, 6])
def test_experts_exchange_inside_and_their_replicas_reduce_across(size: int) -> None:
    found = kinds_of(experts(size))
    everywhere = {frozenset(range(12)): "dp"}
    assert found == (everywhere | wanted(blocks(12, size), "ep") | wanted(strides(12, size), "dp"))


def test_experts_that_exchange_across_rails_are_told_as_well() -> None:
    # Six hosts of two NICs, 2 h and 2 h + 1, experts over two hosts each.
    wires = [w for rail in strides(12, 2) for w in ring(rail, replace(GRADIENTS, bytes=260 * MIB))]
    wires += [w for block in blocks(12, 4) for w in everyone(block, BLOCKS, 0.3)]
    wires += [w for members in strides(12, 4) for w in ring(members, GRADIENTS)]
    assert kinds_of(wires) == (
        wanted(strides(12, 2), "dp") | wanted(blocks(12, 4), "ep") | wanted(strides(12, 4), "dp")
    )


def test_pairs_that_records_tell_of_are_experts_where_only_rings_lie_across() -> None:
    # No lengths of messages, and records of a second hide when in the turn anything passes.
    wires = [replace(w, lengths=UNREAD, active=(0.0, 1.0)) for w in experts(uneven=0.0)]
    kinds = kinds_of(wires)
    assert {kinds[frozenset(block)] for block in blocks(12, 2)} == {"ep"}
    assert kinds[frozenset(range(12))] == "dp"


def test_experts_are_told_without_uneven_volumes() -> None:
    assert kinds_of(experts(uneven=0.0))[frozenset({0, 1})] == "ep"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_blocks_handed_on_inside_a_gradient_group_are_context(size: int) -> None:
    assert kinds_of(context(size)) == (
        {frozenset(range(12)): "dp"} | wanted(blocks(12, size), "cp")
    )


def test_pairs_inside_that_carry_unlike_volumes_are_not_context() -> None:
    wires = ring(range(12), GRADIENTS)
    wires += [w for block in blocks(12, 2) for w in everyone(block, BLOCKS, 0.3)]
    found = {frozenset(f.shape.members): f.role for f in found_in(wires)}
    assert found[frozenset({0, 1})].kind == "ep"
    assert found[frozenset({0, 1})].kind_claim.confidence < 0.8


@pytest.mark.parametrize("lag", [0.1, 0.0])
def test_pairs_across_by_send_and_receive_are_stages(lag: float) -> None:
    like = replace(BLOCKS, bytes=20 * MIB, active=(0.0, 0.7))
    wires = [w for block in blocks(8, 4) for w in ring(block, GRADIENTS)]
    wires += [w for i in range(4) for w in stages([i, i + 4], like, lag)]
    assert kinds_of(wires) == wanted(blocks(8, 4), "dp") | wanted(strides(8, 4), "pp")


def test_longer_pipelines_are_stages() -> None:
    like = replace(BLOCKS, bytes=20 * MIB, active=(0.0, 0.7))
    wires = [w for block in blocks(12, 4) for w in ring(block, GRADIENTS)]
    wires += [w for members in strides(12, 4) for w in stages(members, like)]
    assert kinds_of(wires) == wanted(blocks(12, 4), "dp") | wanted(strides(12, 4), "pp")


@pytest.mark.parametrize(
    ("there", "back", "kind"),
    [
        ((0.50, 0.54), (0.56, 0.60), "dp"),  # a reduction to member 0, and its broadcast
        ((0.50, 0.60), (0.50, 0.60), "unknown"),  # neighbours
        ((0.40, 0.52), (0.54, 0.66), "unknown"),  # or one micro-batch, and a long rest
        ((0.05, 0.65), (0.20, 0.80), "pp"),
    ],
)
def test_a_path_that_is_used_in_a_burst_has_no_stages_that_compute(
    there: tuple[float, float], back: tuple[float, float], kind: str
) -> None:
    to_root = Wire(0, 0, 8 * MIB, 400, active=there, written=False)
    wires = [replace(to_root, src=v, dst=u) for u, v in path(range(6))]
    wires += [replace(to_root, src=u, dst=v, active=back) for u, v in path(range(6))]
    [found] = found_in(wires)
    assert (found.role.kind, found.role.algorithm) == (kind, "chain")
    if kind == "dp":
        assert found.shape.members == found.shape.channels[0].order == tuple(range(6))
        [group] = build(flows_of(wires), [found], str, ("unknown", found.order))
        assert (group.collective, group.kind) == ("all_reduce", "dp")
        assert group.confidence <= 0.85


def test_pairs_across_that_show_neither_lag_nor_length_are_unknown() -> None:
    like = replace(BLOCKS, bytes=20 * MIB, active=(0.0, 0.7), lengths=UNREAD)
    wires = [w for block in blocks(8, 4) for w in ring(block, GRADIENTS)]
    wires += [w for i in range(4) for w in stages([i, i + 4], like, 0.0)]
    assert kinds_of(wires) == wanted(blocks(8, 4), "dp") | wanted(strides(8, 4), "unknown")


def test_two_rings_that_cross_and_pass_together_both_reduce_but_not_surely() -> None:
    inner = replace(GRADIENTS, bytes=300 * MIB)
    wires = [w for block in blocks(12, 4) for w in ring(block, inner)]
    wires += [w for members in strides(12, 4) for w in ring(members, GRADIENTS)]
    for found in found_in(wires):
        assert found.role.kind == "dp"
        assert found.role.kind_claim.confidence <= 0.7


def test_two_rings_that_cross_and_never_meet_in_time_are_not_told() -> None:
    inner = replace(GRADIENTS, bytes=300 * MIB, active=(0.1, 0.3))
    wires = [w for block in blocks(12, 4) for w in ring(block, inner)]
    wires += [w for members in strides(12, 4) for w in ring(members, GRADIENTS)]
    assert set(kinds_of(wires).values()) == {"unknown"}


@pytest.mark.parametrize("factor", [1, 2])
def test_volumes_of_sharding_inside_put_tensor_parallelism_in_doubt(factor: int) -> None:
    # Parameters gathered twice and scattered once over 2 hosts, shards reduced over 6.
    ratio = (2 + factor) * 2 * 6 / (2 * factor * 5)
    like = replace(LAYERS, bytes=ratio * GRADIENTS.bytes)
    wires = [w for block in blocks(12, 2) for w in ring(block, like)]
    wires += [w for members in strides(12, 2) for w in ring(members, GRADIENTS)]
    found = {frozenset(f.shape.members): f.role for f in found_in(wires)}
    doubted = found[frozenset({0, 1})]
    assert doubted.kind == "tp"
    assert doubted.kind_claim.confidence == pytest.approx(0.75)
    assert "sharding" in doubted.kind_claim.basis
    plain = {frozenset(f.shape.members): f.role for f in found_in(tensor_parallel())}
    assert plain[frozenset({0, 1})].kind_claim.confidence > 0.9


def test_the_only_ring_reduces_however_long_it_takes() -> None:
    always = replace(GRADIENTS, active=(0.0, 1.0))
    [alone] = found_in(ring(range(5), always))
    assert alone.role.kind == "dp"
    assert 0.9 <= alone.role.kind_claim.confidence < 0.95


def test_pairs_alone_need_lengths_of_a_collective() -> None:
    for lengths, kind in (
        (GRADIENTS.lengths, "dp"),
        (UNREAD, "unknown"),
        (BLOCKS.lengths, "unknown"),
    ):
        wires = [w for i in range(4) for w in ring([i, i + 4], replace(GRADIENTS, lengths=lengths))]
        assert set(kinds_of(wires).values()) == {kind}


def test_too_few_samples_tell_no_tensor_parallelism() -> None:
    few = [replace(w, samples=4) for w in tensor_parallel()]
    assert set(kinds_of(few).values()) == {"unknown"}


def test_a_pair_runs_what_larger_groups_run_with_messages_of_its_length() -> None:
    larger = {"ll128": 5}
    wires = [w for w in tensor_parallel() if w.bytes == GRADIENTS.bytes]
    wires = [replace(w, lengths=larger) for w in wires]
    wires += [w for b in blocks(12, 2) for w in ring(b, replace(LAYERS, lengths=larger))]
    pairs = [f.role for f in found_in(wires) if len(f.shape.members) == 2]
    assert {role.algorithm for role in pairs} == {"ring"}
    assert min(role.algorithm_claim.confidence for role in pairs) > 0.9


@pytest.mark.parametrize(("volume", "algorithm"), [(200 * MIB, "ring"), (40 * MIB, "unknown")])
def test_a_pair_without_a_length_runs_what_larger_groups_run_on_less(
    volume: int, algorithm: str
) -> None:
    unread = replace(GRADIENTS, bytes=volume, lengths=UNREAD)
    dense = [w for w in experts(6) if w.bytes == 260 * MIB]
    exchange = [w for block in blocks(12, 6) for w in everyone(block, BLOCKS, 0.3)]
    wires = [*dense, *exchange, *(w for pair in strides(12, 6) for w in ring(pair, unread))]
    pairs = [f.role for f in found_in(wires) if len(f.shape.members) == 2]
    assert {(role.kind, role.algorithm) for role in pairs} == {("dp", algorithm)}
    assert max(role.algorithm_claim.confidence for role in pairs) < 0.8


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(12)), st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(names: list[int], random: Random) -> None:
    for wires in (tensor_parallel(), experts(), context(3)):
        renamed = [replace(w, src=names[w.src], dst=names[w.dst]) for w in wires]
        random.shuffle(renamed)
        plain = kinds_of(wires)
        assert kinds_of(renamed) == {
            frozenset(names[v] for v in members): kind for members, kind in plain.items()
        }


def test_no_groups_have_no_kinds() -> None:
    assert found_in([]) == []
    assert kinds_of([Wire(u, v) for u, v in both([(0, 1), (0, 2), (0, 3)])]) == {}
