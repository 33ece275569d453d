"""Rings, chains and trees as lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from api.reports.picture import Block, Shape, natural

_GAP: Final = 4  # columns between trees that stand side by side


def shape_lines(block: Block, shape: Shape, width: int) -> list[str]:
    """The drawing that fits the block's algorithm."""
    if block.algorithm == "ring":
        return ring_lines(shape.nodes, width)
    if block.algorithm == "chain":
        return chain_lines(shape.nodes, width)
    if block.algorithm == "tree" and shape.trees:
        return forest_lines(shape.trees, width)
    return set_lines(shape.nodes, width)


def ring_lines(nodes: Sequence[str], width: int) -> list[str]:
    """A ring along its edges, as "a → b → c → (a)", wrapped behind arrows."""
    return _wrap([f"{node} →" for node in nodes] + [f"({nodes[0]})"], width)


def chain_lines(nodes: Sequence[str], width: int) -> list[str]:
    """A chain by stage, as "a ⇄ b ⇄ c", wrapped behind arrows."""
    return _wrap([f"{node} ⇄" for node in nodes[:-1]] + [nodes[-1]], width)


def set_lines(nodes: Sequence[str], width: int) -> list[str]:
    """Nodes without an order, as "a, b, c"."""
    return _wrap([f"{node}," for node in nodes[:-1]] + [nodes[-1]], width)


def forest_lines(trees: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Trees side by side as far as `width` allows, else below each other.

    Parameters
    ----------
    trees
        Child -> parent, each.
    width
        Columns.
    """
    drawn = [tree_lines(tree) for tree in trees]
    widths = [max(map(len, lines)) for lines in drawn]
    if sum(widths) + _GAP * (len(widths) - 1) > width:
        return [line for lines in drawn for line in lines]
    height = max(map(len, drawn))
    rows = [
        (" " * _GAP).join(
            (lines[row] if row < len(lines) else "").ljust(columns)
            for lines, columns in zip(drawn, widths, strict=True)
        )
        for row in range(height)
    ]
    return [row.rstrip() for row in rows]


def tree_lines(parent_of: Mapping[str, str]) -> list[str]:
    """One tree from its root downward; a node that no root reaches is left out.

    Parameters
    ----------
    parent_of
        Child -> parent.
    """
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in sorted(parent_of.items(), key=lambda link: natural(link[0])):
        children[parent].append(child)
    lines: list[str] = []
    for root in sorted(set(parent_of.values()) - set(parent_of), key=natural):
        # Depth first with an own stack: a chain-like tree may be deeper than Python's.
        stack = [(root, "", "")]
        while stack:
            node, lead, below = stack.pop()
            lines.append(f"{lead}{node}")
            for nth, child in enumerate(reversed(children[node])):
                last = nth == 0
                stack.append(
                    (child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
                )
    return lines


def _wrap(words: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]
