"""What a single value of an answer looks like: unknown is "?", a claim has its confidence."""

from __future__ import annotations

from statistics import median
from typing import Final

from rich.text import Text

from api.client import Document
from api.reports.picture import KINDS
from api.reports.text import bar
from api.reports.units import human_duration, human_span

UNKNOWN: Final = "?"
SURE: Final = 0.9
STATUS_STYLE: Final = {
    "training": "green",
    "idle": "yellow",
    "hung": "bold red",
    "ended": "dim",
}
SEVERITY_STYLE: Final = {"info": "cyan", "warning": "yellow", "critical": "bold red"}


def ago(time_ns: int, now_ns: int) -> str:
    """How long a moment is past, in its largest unit, as "2 min ago"."""
    seconds = (now_ns - time_ns) / 1e9
    if seconds < 1:
        return "now"
    count, unit, *_ = human_span(seconds).split()
    return f"{count} {unit} ago"


def sure(confidence: float | None) -> Text:
    """A confidence by itself."""
    if confidence is None:
        return Text(UNKNOWN)
    return Text(f"{confidence:.2f}", "green" if confidence >= SURE else "yellow")


def claimed(text: str, confidence: float | None) -> Text:
    """A statement and, where it says something, its confidence in brackets."""
    if text == UNKNOWN or confidence is None:
        return Text(text)
    return Text.assemble(f"{text} (", sure(confidence), ")")


def period(period_s: float | None, interval_s: tuple[float, float] | None) -> str:
    """A period with half the width of its interval, as "3.2 s ± 4.1 ms"."""
    if period_s is None or interval_s is None:
        return human_duration(period_s)
    low, high = interval_s
    return f"{human_duration(period_s)} ± {human_duration(float(f'{(high - low) / 2:.2g}'))}"


def sizes(parallelism: Document) -> str:
    """Sizes by kind, as "dp 8 tp ?"; kinds that are surely absent are left out."""
    named = [
        f"{kind} {UNKNOWN if parallelism[kind] is None else parallelism[kind]}"
        for kind in KINDS
        if parallelism[kind] != 1
    ]
    if all(parallelism[kind] is None for kind in KINDS):
        return UNKNOWN
    return " ".join(named) or "one GPU"


def groups(counts: list[Document]) -> str:
    """Equal groups of a summary, as "8 dp ring of 4"."""
    named = [
        f"{each['count']} {_known(each['kind'])} {_known(each['algorithm'])} of {each['size']}"
        for each in counts
    ]
    return ", ".join(named) or UNKNOWN


def _known(name: str) -> str:
    return UNKNOWN if name == "unknown" else name


def spark(durations_s: list[float | None]) -> str:
    """Iterations by their length over the usual one, a character each; None: it was cut."""
    complete = [each for each in durations_s if each is not None]
    usual = median(complete) if complete else 0.0
    return "".join(bar(each / usual if each and usual else None) for each in durations_s)


def anomaly_count(counts: Document) -> Text:
    """Anomalies of a summary, as "1 open of 3"."""
    if not counts["all"]:
        return Text("-", "dim")
    opened = f"{counts['open']} open of " if counts["open"] else ""
    return Text(f"{opened}{counts['all']}", "red" if counts["open"] else "")
