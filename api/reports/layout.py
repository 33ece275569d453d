"""Where the hosts of a job stand in its map: rows of a grid, or a circle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Final

from patterns.result import Edge

_COLUMN: Final = 110.0  # px between nodes of a row
_ROW: Final = 96.0  # px between rows
_MARGIN: Final = 90.0  # px around everything; arcs and labels reach into it
_SMALLEST_RADIUS: Final = 120.0
_ARC_PER_NODE: Final = 64.0  # px of the circle that one label needs


@dataclass(frozen=True, slots=True)
class Layout:
    """Host positions in px, y downward."""

    width: float
    height: float
    places: dict[str, tuple[float, float]]
    is_grid: bool


def lay_out(rows: Sequence[Sequence[str]], links: set[Edge]) -> Layout:
    """Place the hosts of a job.

    Parameters
    ----------
    rows
        Hosts, row by row; no host stands twice.
    links
        Edges between hosts. A row is ordered by what links it to the row above, so that pipelines
        run down the columns.

    Returns
    -------
    Layout
        A grid, or a circle if there is but one row.
    """
    joined = {frozenset(link) for link in links}
    aligned = [tuple(row) for row in rows[:1]]
    for row in rows[1:]:
        aligned.append(_aligned(row, aligned[-1], joined))
    return _grid(aligned) if len(aligned) > 1 else _circle(aligned[0] if aligned else ())


def _aligned(
    row: Sequence[str], above: Sequence[str], links: set[frozenset[str]]
) -> tuple[str, ...]:
    column = {node: nth for nth, node in enumerate(above)}
    own = {node: nth for nth, node in enumerate(row)}

    def place(node: str) -> tuple[int, int]:
        under = [column[top] for top in above if frozenset((node, top)) in links]
        return (min(under, default=own[node]), own[node])

    return tuple(sorted(row, key=place))


def _grid(rows: Sequence[Sequence[str]]) -> Layout:
    longest = max(map(len, rows))
    return Layout(
        width=2 * _MARGIN + (longest - 1) * _COLUMN,
        height=2 * _MARGIN + (len(rows) - 1) * _ROW,
        places={
            node: (_MARGIN + nth * _COLUMN, _MARGIN + depth * _ROW)
            for depth, row in enumerate(rows)
            for nth, node in enumerate(row)
        },
        is_grid=True,
    )


def _circle(nodes: Sequence[str]) -> Layout:
    radius = max(_SMALLEST_RADIUS, len(nodes) * _ARC_PER_NODE / (2 * pi))
    centre = radius + _MARGIN
    turns = [2 * pi * nth / max(len(nodes), 1) - pi / 2 for nth in range(len(nodes))]
    return Layout(
        width=2 * centre,
        height=2 * centre,
        places={
            node: (centre + radius * cos(turn), centre + radius * sin(turn))
            for node, turn in zip(nodes, turns, strict=True)
        },
        is_grid=False,
    )
