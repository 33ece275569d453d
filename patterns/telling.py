"""Telling: which shape a part has, where several draw its edges and times tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from patterns import single_trees
from patterns.alternation import alternate
from patterns.layers import Part
from patterns.result import Claim
from patterns.shape import Edge, Shape
from reconstruct.edges import Flows


def tell(flows: Flows, parts: Sequence[Part]) -> list[tuple[Shape | None, Claim | None]]:
    """Each part's shape after a look at the times, and how sure its order is where they say it.

    What times say of one of several like parts holds for those of which they say nothing.
    """
    own = {
        id(shape): alternate(flows, [rows_of(flows, part.flows, edges) for edges in shape.in_turn])
        for part in parts
        for shape in _choices(part)
    }
    of_like: dict[tuple[object, ...], set[bool | None]] = {}
    for part in parts:
        for shape in _choices(part):
            of_like.setdefault(_kind(shape), set()).add(own[id(shape)])
    return [_told(flows, part, own, of_like) for part in parts]


def _choices(part: Part) -> Iterator[Shape]:
    """The shapes that a part may be, the likeliest first, as far as times tell them apart."""
    shape = part.shape
    while shape is not None and shape.in_turn:
        yield shape
        shape = shape.instead


def _kind(shape: Shape) -> tuple[object, ...]:
    return shape.algorithm, shape.variant, len(shape.members)


def _told(
    flows: Flows,
    part: Part,
    own: Mapping[int, bool | None],
    of_like: Mapping[tuple[object, ...], set[bool | None]],
) -> tuple[Shape | None, Claim | None]:
    shape = _in_turn(part, own, of_like)
    if shape is None:
        return None, None
    if shape.algorithm == "chain":
        shape = single_trees.of_four(flows, part.flows, shape) or shape
    if shape.roots:
        return single_trees.place_root(flows, part.flows, shape)
    return shape, None


def _in_turn(
    part: Part,
    own: Mapping[int, bool | None],
    of_like: Mapping[tuple[object, ...], set[bool | None]],
) -> Shape | None:
    """A shape that is used in turn only where times do not contradict it.

    Where something else draws the same picture, times have to agree.
    """
    for shape in _choices(part):
        told = own[id(shape)]
        like = of_like[_kind(shape)] - {None}
        if told is None and len(like) == 1:
            (told,) = like
        if told:
            return replace(shape, ambiguous=None)
        if told is None and shape.ambiguous is None:
            return shape
    shapes = list(_choices(part))
    return shapes[-1].instead if shapes else part.shape


def rows_of(flows: Flows, rows: NDArray[np.intp], edges: Iterable[Edge]) -> NDArray[np.intp]:
    """Those of some rows that lie on some edges."""
    wanted = set(edges)
    ends = zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True)
    return rows[[edge in wanted for edge in ends]]
