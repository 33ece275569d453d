"""The drawings of the page: a job's map and its strip of iterations, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import hypot
from typing import Final

from api.reports.layout import Layout, lay_out
from api.reports.picture import Step, host_edges_of, host_rows_of
from api.reports.units import clock_time, human_duration
from patterns.result import JobResult

_NODE_RADIUS: Final = 7.0
_BEND: Final = 0.16  # how far an edge between nodes that are not neighbours bows, per px of length
_NEIGHBOUR_PX: Final = 115.0  # grid neighbours are joined by straight lines
_BAR_HEIGHT: Final = 90.0
_BAR_WIDTH: Final = 14.0
_TALLEST: Final = 2.0  # times the usual duration; longer bars are cut there


def map_svg(job: JobResult) -> str:
    """The hosts of a job and the edges of its groups, coloured by kind.

    Both directions of an edge are one line without an arrow; a one-way edge has an arrow.
    """
    edges_by_kind = host_edges_of(job)
    layout = lay_out(host_rows_of(job), set().union(*edges_by_kind.values()))
    parts = [_opened("map", "hosts and their groups", layout.width, layout.height)]
    for kind, edges in edges_by_kind.items():
        for src, dst in sorted(edges):
            both = (dst, src) in edges
            if both and dst < src:
                continue
            path = _path(layout.places[src], layout.places[dst], layout.is_grid)
            arrow = "" if both else f' marker-end="url(#tip-{kind})"'
            title = escape(f"{kind}: {src} {'⇄' if both else '→'} {dst}")
            parts.append(
                f'<path class="edge {kind}" d="{path}"{arrow}><title>{title}</title></path>'
            )
    for node, (x, y) in layout.places.items():
        parts.append(
            f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{_NODE_RADIUS:.0f}"/>'
            + _label(node, x, y, layout)
        )
    return "".join([*parts, "</svg>"])


def _label(name: str, x: float, y: float, layout: Layout) -> str:
    """Below the node in a grid, outside the circle elsewhere, where no edge runs."""
    anchor, dx, dy = "middle", 0.0, 22.0
    if not layout.is_grid:
        centre_x, centre_y = layout.width / 2, layout.height / 2
        out = hypot(x - centre_x, y - centre_y) or 1.0
        dx, dy = 14 * (x - centre_x) / out, 4 + 16 * (y - centre_y) / out
        anchor = "middle" if abs(dx) < 5 else "start" if dx > 0 else "end"
    return (
        f'<text class="name" text-anchor="{anchor}" x="{x + dx:.1f}" y="{y + dy:.1f}">'
        f"{escape(name)}</text>"
    )


def _path(start: tuple[float, float], end: tuple[float, float], is_grid: bool) -> str:
    (x0, y0), (x1, y1) = start, end
    length = hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    # Leave the nodes' discs free, so that arrow heads are seen.
    x0, y0 = x0 + ux * (_NODE_RADIUS + 2), y0 + uy * (_NODE_RADIUS + 2)
    x1, y1 = x1 - ux * (_NODE_RADIUS + 5), y1 - uy * (_NODE_RADIUS + 5)
    if not is_grid or length <= _NEIGHBOUR_PX:
        return f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
    bow = min(length * _BEND, 48.0)
    middle_x, middle_y = (x0 + x1) / 2 - uy * bow, (y0 + y1) / 2 + ux * bow
    return f"M{x0:.1f} {y0:.1f}Q{middle_x:.1f} {middle_y:.1f} {x1:.1f} {y1:.1f}"


def strip_svg(steps: Sequence[Step]) -> str:
    """One bar per iteration, as high as it took; slow ones stand out, cut ones are hollow."""
    width = max(len(steps) * _BAR_WIDTH, 1.0)
    usual = _BAR_HEIGHT / _TALLEST
    top = _BAR_HEIGHT - usual
    parts = [
        _opened("strip", "iterations", width, _BAR_HEIGHT),
        f'<line class="usual" x1="0" x2="{width:.0f}" y1="{top:.1f}" y2="{top:.1f}"/>',
    ]
    for nth, step in enumerate(steps):
        state = "cut" if step.relative is None else "slow" if step.slow else "step"
        height = usual * min(1.0 if step.relative is None else step.relative, _TALLEST)
        title = (
            f"{step.iteration.index}: {human_duration(step.iteration.duration_s)}"
            f" from {clock_time(step.iteration.start_ns)}" + (", cut" if state == "cut" else "")
        )
        parts.append(
            f'<rect class="{state}" x="{nth * _BAR_WIDTH + 1:.0f}" width="{_BAR_WIDTH - 2:.0f}"'
            f' y="{_BAR_HEIGHT - height:.1f}" height="{height:.1f}">'
            f"<title>{escape(title)}</title></rect>"
        )
    return "".join([*parts, "</svg>"])


def _opened(name: str, label: str, width: float, height: float) -> str:
    return (
        f'<svg class="{name}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' role="img" aria-label="{label}">'
    )
