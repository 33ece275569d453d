from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.reports.drawing import chain_lines, forest_lines, ring_lines, tree_lines

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=2, max_size=40, unique=True)


def test_ring_closes() -> None:
    assert ring_lines(["a", "b", "c"], 80) == ["a → b → c → (a)"]


def test_chain_is_open() -> None:
    assert chain_lines(["a", "b", "c"], 80) == ["a ⇄ b ⇄ c"]


@given(NAMES, st.integers(12, 60))
def test_wrapping_loses_nothing(names: list[str], width: int) -> None:
    lines = ring_lines(names, width)
    assert all(len(line) <= width for line in lines)
    assert " ".join(lines) == " → ".join(names) + f" → ({names[0]})"


def test_tree_is_indented_from_its_root() -> None:
    assert tree_lines({"n1": "n2", "n3": "n2", "n2": "n0", "n10": "n3"}) == [
        "n0",
        "└─ n2",
        "   ├─ n1",
        "   └─ n3",
        "      └─ n10",
    ]


def test_siblings_stand_in_natural_order() -> None:
    assert tree_lines({"n10": "n0", "n9": "n0"}) == ["n0", "├─ n9", "└─ n10"]


def test_deep_tree_does_not_overflow() -> None:
    parent_of = {f"n{depth + 1}": f"n{depth}" for depth in range(3000)}
    assert len(tree_lines(parent_of)) == 3001


@given(st.permutations([f"n{i}" for i in range(8)]), st.data())
def test_every_node_of_a_tree_is_drawn_once(names: list[str], data: st.DataObject) -> None:
    parent_of = {
        child: names[data.draw(st.integers(0, nth))] for nth, child in enumerate(names[1:])
    }
    drawn = [line.split()[-1] for line in tree_lines(parent_of)]
    assert sorted(drawn) == sorted(names)


def test_trees_stand_side_by_side_where_they_fit() -> None:
    trees = [{"b": "a"}, {"a": "b"}]
    assert forest_lines(trees, 40) == ["a       b", "└─ b    └─ a"]
    assert forest_lines(trees, 8) == ["a", "└─ b", "b", "└─ a"]
