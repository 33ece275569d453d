"""A result as one self-contained page."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from api.reports.claims import hint_line
from api.reports.drawing import shape_lines
from api.reports.picture import KINDS, blocks_of, sizes_line, steps_of, unknowns_of
from api.reports.svg import map_svg, strip_svg
from api.reports.templates import template
from collector.schema import Telemetry
from patterns.result import Analysis, JobResult

_CANDIDATES_SHOWN: Final = 8
_PRE_WIDTH: Final = 110  # columns of a drawing before it wraps


def render_html(analysis: Analysis, telemetry: Telemetry) -> str:
    """Draw a result as an HTML page that loads nothing else.

    Parameters
    ----------
    analysis, telemetry
        The window's result and what was read for it.
    """
    return template("page.html.j2").render(
        analysis=analysis,
        telemetry=telemetry,
        jobs=[_job(job) for job in analysis.jobs],
        kinds=(*KINDS, "unknown"),
    )


def _job(job: JobResult) -> dict[str, object]:
    blocks = blocks_of(job)
    steps = steps_of(job)
    return {
        "result": job,
        # Both drawings escape the names in them themselves.
        "map": Markup(map_svg(job)),
        "strip": Markup(strip_svg(steps)),
        "complete": sum(step.relative is not None for step in steps),
        "sizes": [(kind, getattr(job.parallelism, kind)) for kind in KINDS],
        "candidates": sizes_line(job.parallelism.candidates, _CANDIDATES_SHOWN)
        if job.parallelism.candidates
        else "",
        "blocks": [
            (
                block,
                [
                    (len(shape.groups), "\n".join(shape_lines(block, shape, _PRE_WIDTH)))
                    for shape in block.shapes
                ],
            )
            for block in blocks
        ],
        "hints": [(hint_line(name, hint), hint.claim) for name, hint in job.hints.items()],
        "unknowns": unknowns_of(job),
    }
