"""How bench.score judges rings, chains and trees, against answers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compare import Verdict
from bench.score import Overlap
from tests.bench.documents import chain, ring, tree
from tests.bench.scored import Json, scored, verdicts


class TestRings:
    @given(st.permutations("abcde"), st.integers(0, 4))
    def test_rotation_is_the_same_ring(self, order: list[str], turn: int) -> None:
        s = scored([ring("g", order)], [ring("g", order[turn:] + order[:turn])])
        assert verdicts(s.rings) == [Verdict.RIGHT]

    @given(st.permutations("abcde"), st.integers(0, 4))
    def test_reflection_is_the_wrong_direction(self, order: list[str], turn: int) -> None:
        said = (order[turn:] + order[:turn])[::-1]
        s = scored([ring("g", order)], [ring("g", said)])
        assert verdicts(s.rings) == [Verdict.REVERSED]
        assert [c.right for c in s.claims if c.what == "order"] == [False]

    @given(st.permutations("abcde"))
    def test_any_other_order_is_wrong(self, order: list[str]) -> None:
        swapped = [order[1], order[0], *order[2:]]
        assert verdicts(scored([ring("g", order)], [ring("g", swapped)]).rings) == [Verdict.WRONG]

    def test_without_an_order_it_abstained(self) -> None:
        said = ring("g", "abcd")
        said["algorithms"][0]["channels"][0]["order"] = None
        s = scored([ring("g", "abcd")], [said])
        assert verdicts(s.rings) == [Verdict.ABSTAINED]
        assert not [c for c in s.claims if c.what == "order"]

    def test_members_are_the_order_where_no_algorithms_are_listed(self) -> None:
        bare: Json = {"algorithms": []}
        s = scored([ring("g", "abcd", **bare)], [ring("g", "cdab", **bare)])
        assert verdicts(s.rings) == [Verdict.RIGHT]

    def test_a_pair_has_no_order(self) -> None:
        s = scored([ring("g", "ab")], [ring("g", "ba")])
        assert s.rings == ()
        assert not [c for c in s.claims if c.what == "order"]

    def test_only_the_main_algorithm_states_the_order(self) -> None:
        said = ring("g", "abcd")
        said["algorithms"] += chain("c", "dbca")["algorithms"]
        assert verdicts(scored([ring("g", "abcd")], [said]).rings) == [Verdict.RIGHT]

    def test_several_channels_are_a_set_of_rings(self) -> None:
        true, half, both = ring("g", "abcd"), ring("g", "abcd"), ring("g", "acbd")
        true["algorithms"][0]["channels"] += ring("g", "acbd")["algorithms"][0]["channels"]
        both["algorithms"][0]["channels"] += ring("g", "bcda")["algorithms"][0]["channels"]
        assert verdicts(scored([true], [half]).rings) == [Verdict.WRONG]
        assert verdicts(scored([true], [both]).rings) == [Verdict.RIGHT]


class TestChains:
    def test_stages_in_order(self) -> None:
        assert verdicts(scored([chain("c", "abc")], [chain("c", "abc")]).chains) == [Verdict.RIGHT]

    def test_last_stage_taken_for_the_first(self) -> None:
        s = scored([chain("c", "abc")], [chain("c", "cba")])
        assert verdicts(s.chains) == [Verdict.REVERSED]

    def test_further_channels_may_run_either_way(self) -> None:
        said = chain("c", "abc")
        said["algorithms"][0]["channels"] += chain("c", "cba")["algorithms"][0]["channels"]
        assert verdicts(scored([chain("c", "abc")], [said]).chains) == [Verdict.RIGHT]

    def test_the_first_channel_says_where_the_stages_begin(self) -> None:
        said = chain("c", "cba")
        said["algorithms"][0]["channels"] += chain("c", "abc")["algorithms"][0]["channels"]
        assert verdicts(scored([chain("c", "abc")], [said]).chains) == [Verdict.REVERSED]

    def test_another_order_is_wrong(self) -> None:
        assert verdicts(scored([chain("c", "abc")], [chain("c", "bac")]).chains) == [Verdict.WRONG]


A = {"b": "c", "c": "a", "d": "c"}  # four nodes, rooted in a
B = {"a": "b", "b": "d", "c": "b"}


class TestTrees:
    def test_the_same_parent_maps_in_any_order(self) -> None:
        s = scored([tree("g", A, B)], [tree("g", B, A)])
        assert verdicts(s.trees) == [Verdict.RIGHT]
        assert s.tree_edges == Overlap(5, 5, 5)  # six links, b-c in both trees

    def test_another_root_on_the_same_edges(self) -> None:
        turned = {"a": "c", "b": "c", "d": "c"}
        s = scored([tree("g", A)], [tree("g", turned)])
        assert verdicts(s.trees) == [Verdict.WRONG]
        assert s.tree_edges.f1 == 1.0

    def test_edges_f1(self) -> None:
        # Truth b-c, c-a, d-c; result b-c, c-a, d-a: two of three, F1 = 2*2/6.
        s = scored([tree("g", A)], [tree("g", {"b": "c", "c": "a", "d": "a"})])
        assert s.tree_edges == Overlap(2, 3, 3)
        assert s.tree_edges.f1 == pytest.approx(2 / 3)

    def test_edges_without_parents(self) -> None:
        said = tree("g", A)
        said["algorithms"][0]["channels"][0]["parent"] = None
        s = scored([tree("g", A)], [said])
        assert verdicts(s.trees) == [Verdict.ABSTAINED]
        assert s.tree_edges.f1 == 1.0

    def test_a_ring_where_a_tree_is(self) -> None:
        s = scored([tree("g", A)], [ring("g", "abcd")])
        assert verdicts(s.trees) == [Verdict.WRONG]
        assert verdicts(s.algorithms) == [Verdict.WRONG]
