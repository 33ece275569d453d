"""A result as a picture in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.reports.claims import hint_line
from api.reports.drawing import shape_lines
from api.reports.picture import (
    KINDS,
    Block,
    blocks_of,
    natural,
    sizes_line,
    steps_of,
    unknowns_of,
)
from api.reports.units import calendar_time, clock_time, human_bytes, human_duration
from collector.schema import ExporterHealth, Telemetry
from patterns.result import Analysis, Anomaly, JobResult, Unassigned

Line = Text | Table

_LABEL: Final = 10  # columns of the left margin, where a line says what it is about
_SHAPES_SHOWN: Final = 12  # drawings per block; a job of a thousand hosts must stay readable
_ENDPOINTS_SHOWN: Final = 6
_NOTES_SHOWN: Final = 10
_CANDIDATES_SHOWN: Final = 4
_BARS: Final = "▁▂▃▄▅▆▇█"
_CUT: Final = "·"
# A bar's height runs from 0.8 to 1.6 of the usual duration: ordinary jitter stays one height.
_LOWEST: Final = 0.8
_HIGHEST: Final = 1.6
_SEVERITY_STYLE: Final = {"info": "cyan", "warning": "yellow", "critical": "bold red"}
_KIND_STYLE: Final = {
    "dp": "green",
    "tp": "magenta",
    "pp": "blue",
    "cp": "cyan",
    "ep": "yellow",
    "unknown": "dim",
}


def render_text(
    analysis: Analysis, telemetry: Telemetry, *, width: int = 100, colour: bool = False
) -> str:
    """Draw a result.

    Parameters
    ----------
    analysis, telemetry
        The window's result and what was read for it.
    width
        Columns of the terminal.
    colour
        Whether to use ANSI colours.
    """
    return render_lines(_lines(analysis, telemetry, width), width=width, colour=colour)


def render_lines(lines: Iterable[Line], *, width: int, colour: bool) -> str:
    """Lines and tables as text, without spaces at the ends of lines.

    Parameters
    ----------
    width
        Columns; what is longer is folded.
    colour
        Whether to use ANSI colours.
    """
    page = StringIO()
    console = Console(
        file=page,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        soft_wrap=False,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line)
    return "\n".join(line.rstrip() for line in page.getvalue().split("\n"))


def _lines(analysis: Analysis, telemetry: Telemetry, width: int) -> Iterator[Line]:
    yield _window(analysis, telemetry)
    if not analysis.jobs:
        yield Text()
        yield Text("No training job in this window.", "bold")
    for job in analysis.jobs:
        yield Text()
        yield from job_lines(job, width)
    yield Text()
    yield from _unassigned(analysis.unassigned)
    yield from _telemetry(telemetry)


def _window(analysis: Analysis, telemetry: Telemetry) -> Text:
    seconds = (analysis.window_end_ns - analysis.window_start_ns) / 1e9
    jobs = f"{len(analysis.jobs)} job{'s' * (len(analysis.jobs) != 1)}"
    return Text.assemble(
        ("ringscope", "bold"),
        f"  {jobs} in {seconds:.1f} s from {calendar_time(analysis.window_start_ns)} UTC,"
        f" {telemetry.flow_samples:,} samples",
    )


def _labelled(label: str, *parts: str | Text | tuple[str, str]) -> Table:
    """One line, or what it wraps to, beside a left margin that says what it is about."""
    row = Table.grid()
    row.add_column(width=_LABEL, no_wrap=True, style="dim")
    row.add_column(overflow="fold")
    row.add_row(label, Text.assemble(*parts))
    return row


def job_lines(job: JobResult, width: int) -> Iterator[Line]:
    """The picture of one job, for `render_lines` of the same width."""
    yield Text.assemble(
        (job.id, "bold"),
        f"  {job.status}" + (f", {job.name}" * (job.name is not None)),
        f"  {len(job.hosts)} hosts, {len(job.endpoints)} endpoints  ",
        _sure(job.confidence),
    )
    yield Text("─" * width, "dim")
    yield _labelled("hosts", _shortened(job.hosts, _ENDPOINTS_SHOWN * 2))
    yield _labelled("period", *_period(job))
    yield from _sizes(job)
    for block in blocks_of(job):
        yield from _block(block, width)
    yield from _strip(job, width)
    for anomaly in job.anomalies:
        yield from _anomaly(anomaly)
    for name, hint in job.hints.items():
        yield _labelled("hint", hint_line(name, hint), "  ", _sure(hint.claim.confidence))
    for contradiction in job.contradictions:
        yield _labelled("conflict", (contradiction, "yellow"))
    for what, why in unknowns_of(job):
        yield _labelled("unknown", (what, "bold"), f": {why}")


def _sure(confidence: float) -> tuple[str, str]:
    return f"sure {confidence:.2f}", "green" if confidence >= 0.9 else "yellow"


def _period(job: JobResult) -> Iterator[str | tuple[str, str]]:
    yield human_duration(job.period_s)
    if job.period_s is not None and job.period_ci_s is not None:
        low, high = job.period_ci_s
        yield f" ± {human_duration((high - low) / 2)}"
    claim = job.evidence.get("period")
    if claim is not None:
        yield "  "
        yield _sure(claim.confidence)


def _sizes(job: JobResult) -> Iterator[Line]:
    sizes = job.parallelism
    named: list[str | tuple[str, str]] = []
    for kind in KINDS:
        size = getattr(sizes, kind)
        style = "dim" if size == 1 else _KIND_STYLE[kind]
        named += [(f"{kind} {'?' if size is None else size}", style), "  "]
    yield _labelled("sizes", *named, _sure(sizes.confidence))
    if len(sizes.candidates) > 1:
        yield _labelled("", sizes_line(sizes.candidates, _CANDIDATES_SHOWN))
    for kind in KINDS:
        size = getattr(sizes, kind)
        if size is not None and size > 1 and kind in sizes.basis:
            yield _labelled("", (f"{kind}: {sizes.basis[kind]}", "dim"))


def _block(block: Block, width: int) -> Iterator[Line]:
    yield Text()
    yield _labelled(
        block.kind,
        (f"{block.algorithm}", f"bold {_KIND_STYLE[block.kind]}"),
        f" ({block.variant})" if block.variant and block.variant != block.algorithm else "",
        f"  {block.collective}  {_count(block)}",
        f"  {human_bytes(block.bytes_per_iteration)} an iteration"
        + (" each" if len(block.groups) > 1 else "")
        + "  ",
        _sure(block.confidence),
    )
    for shape in block.shapes[:_SHAPES_SHOWN]:
        times = f"×{len(shape.groups)}" if len(shape.groups) > 1 else ""
        for nth, line in enumerate(shape_lines(block, shape, width - _LABEL)):
            yield _labelled(f"{times:>{_LABEL - 2}}" if nth == 0 else "", line)
    if len(block.shapes) > _SHAPES_SHOWN:
        yield _labelled("", (f"... and {len(block.shapes) - _SHAPES_SHOWN} more like these", "dim"))


def _count(block: Block) -> str:
    groups = len(block.groups)
    if groups == 1:
        return f"1 group of {block.size}"
    folds = {len(shape.groups) for shape in block.shapes}
    if len(folds) == 1 and (rails := folds.pop()) > 1 and len(block.shapes) > 1:
        return f"{groups} groups of {block.size} ({len(block.shapes)} on {rails} rails each)"
    return f"{groups} groups of {block.size}"


def _strip(job: JobResult, width: int) -> Iterator[Line]:
    steps = steps_of(job)
    if not steps:
        return
    complete = [step.iteration.duration_s for step in steps if step.relative is not None]
    yield Text()
    yield _labelled(
        "steps",
        f"{len(complete)} complete of {len(steps)}",
        f", {human_duration(min(complete))} to {human_duration(max(complete))}" if complete else "",
        (f", {sum(step.slow for step in steps)} slow", "red") if any(s.slow for s in steps) else "",
    )
    columns = max(width - _LABEL, 1)
    for start in range(0, len(steps), columns):
        row = steps[start : start + columns]
        bars = [(bar(step.relative), "bold red" if step.slow else "green") for step in row]
        yield _labelled(f"{row[0].iteration.index:>{_LABEL - 2}}", *bars)
        if any(step.slow for step in row):
            marks = "".join("▲" if step.slow else " " for step in row)
            yield _labelled("", (marks, "red"))


def bar(relative: float | None) -> str:
    """An iteration by its length over the usual one, as one character; None: it was cut."""
    if relative is None:
        return _CUT
    height = (relative - _LOWEST) / (_HIGHEST - _LOWEST)
    return _BARS[min(max(int(height * len(_BARS)), 0), len(_BARS) - 1)]


def _anomaly(anomaly: Anomaly) -> Iterator[Line]:
    end = "now" if anomaly.end_ns is None else clock_time(anomaly.end_ns)
    yield Text()
    yield _labelled(
        anomaly.severity,
        (anomaly.kind, _SEVERITY_STYLE[anomaly.severity]),
        f"  {clock_time(anomaly.start_ns)} to {end}  {anomaly.verdict}  ",
        _sure(anomaly.confidence),
    )
    yield _labelled("", anomaly.summary)
    if anomaly.subjects:
        yield _labelled("", ", ".join(f"{s.type} {s.id}" for s in anomaly.subjects))


def _unassigned(unassigned: Unassigned) -> Iterator[Line]:
    classes = ", ".join(
        f"{name} {human_bytes(volume)}"
        for name, volume in sorted(unassigned.by_class.items(), key=lambda item: -item[1])
        if volume > 0
    )
    yield _labelled(
        "no job",
        human_bytes(unassigned.bytes),
        f" ({classes})" if classes else "",
        f" on {_shortened(unassigned.endpoints, _ENDPOINTS_SHOWN)}" if unassigned.endpoints else "",
    )


def _telemetry(telemetry: Telemetry) -> Iterator[Line]:
    lost, bad = telemetry.lost_datagrams, telemetry.decode_errors
    yield _labelled(
        "telemetry",
        f"{telemetry.flow_samples:,} flow and {telemetry.counter_samples:,} counter samples"
        + (f" and {telemetry.flow_records:,} flow records" if telemetry.flow_records else "")
        + f" in {telemetry.datagrams:,} datagrams, ",
        (f"{lost:,} lost", "yellow" if lost else ""),
        ", ",
        (f"{bad:,} decode errors", "yellow" if bad else ""),
    )
    # One line for all exporters that behave alike: a fabric has dozens.
    alike: dict[tuple[str, ...], list[ExporterHealth]] = {}
    for exporter in sorted(telemetry.exporters, key=lambda e: natural(e.agent)):
        time = "no samples"
        if exporter.flow_samples or exporter.flow_records:
            time = f"time by {exporter.time_basis.name.lower()}"
        alike.setdefault((exporter.protocol, time, exporter.state), []).append(exporter)
    for behaviour, exporters in alike.items():
        names = [f"{exporter.agent}/{exporter.sub_agent}" for exporter in exporters]
        rates = sorted({rate for exporter in exporters for rate in exporter.sampling_rates})
        shown = (
            f"1:{rates[0]:,}" + (f" to 1:{rates[-1]:,}" if len(rates) > 1 else "") if rates else ""
        )
        parts = [*behaviour, shown, _shortened(names, _ENDPOINTS_SHOWN)]
        yield _labelled("", "  ".join(filter(None, parts)))
    yield from _happened(telemetry)


def _happened(telemetry: Telemetry) -> Iterator[Line]:
    """What happened to exporters, oldest first."""
    notes = sorted(
        ((note, exporter) for exporter in telemetry.exporters for note in exporter.notes),
        key=lambda pair: pair[0].time_ns,
    )
    for note, exporter in notes[:_NOTES_SHOWN]:
        often = f" ({note.count:,} times)" if note.count > 1 else ""
        name = f"{exporter.agent}/{exporter.sub_agent}"
        yield _labelled("", f"{clock_time(note.time_ns)}  {name}  {note.text}{often}")
    if len(notes) > _NOTES_SHOWN:
        yield _labelled("", f"and {len(notes) - _NOTES_SHOWN} more: see notes of the json")


def _shortened(names: tuple[str, ...] | list[str], most: int) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
