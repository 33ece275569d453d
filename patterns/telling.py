"""Telling: which shape a part has, where several draw its edges and times tell them apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from patterns import single_trees
from patterns.alternation import alternate
from patterns.layers import Part
from patterns.result import Claim
from patterns.shape import Edge, Shape
from reconstruct.edges import Flows


def tell(flows: Flows, part: Part) -> tuple[Shape | None, Claim | None]:
    """The part's shape after a look at the times, and how sure its order is where they say it."""
    shape = _in_turn(flows, part)
    if shape is None:
        return None, None
    if shape.algorithm == "chain":
        shape = single_trees.of_four(flows, part.flows, shape) or shape
    if shape.roots:
        return single_trees.place_root(flows, part.flows, shape)
    return shape, None


def _in_turn(flows: Flows, part: Part) -> Shape | None:
    """A shape that is used in turn only where times do not contradict it.

    Where something else draws the same picture, times have to agree.
    """
    shape = part.shape
    while shape is not None and shape.in_turn:
        told = alternate(flows, [rows_of(flows, part.flows, edges) for edges in shape.in_turn])
        if told:
            return replace(shape, ambiguous=None)
        if told is None and shape.ambiguous is None:
            return shape
        shape = shape.instead
    return shape


def rows_of(flows: Flows, rows: NDArray[np.intp], edges: Iterable[Edge]) -> NDArray[np.intp]:
    """Those of some rows that lie on some edges."""
    wanted = set(edges)
    ends = zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True)
    return rows[[edge in wanted for edge in ends]]
