"""Limits by level: figures over many captures, and whether each is good enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, Protocol, TypeVar

from rich.table import Table

from bench.judge import Shortfall
from bench.tables import NOTHING, plain_table


class Scored(Protocol):
    """What one capture came to."""

    @property
    def scenario(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def level(self) -> str: ...


S = TypeVar("S", bound=Scored)


@dataclass(frozen=True, slots=True)
class Threshold(Generic[S]):
    """One row of a table of limits.

    `figure` works out the number of several captures, None where nothing counts; `limits` holds
    by level what it may be at most (at least where `least`), None where it is only shown.
    """

    name: str
    figure: Callable[[Sequence[S]], float | None]
    limits: dict[str, float | None]
    least: bool = False
    as_count: bool = False

    def met(self, found: float | None, level: str) -> bool:
        """Whether a figure is within the level's limit; nothing to count is."""
        limit = self.limits[level]
        if limit is None or found is None:
            return True
        return found >= limit if self.least else found <= limit


@dataclass(frozen=True, slots=True)
class Finding(Generic[S]):
    """What all captures of a level reach."""

    threshold: Threshold[S]
    level: str
    found: float | None

    @property
    def met(self) -> bool:
        return self.threshold.met(self.found, self.level)


def by_level(
    rich: float | None, normal: float | None, starved: float | None
) -> dict[str, float | None]:
    """Limits of one threshold."""
    return {"rich": rich, "normal": normal, "starved": starved}


def over_all(
    thresholds: Sequence[Threshold[S]], scored: Sequence[S], level: str
) -> list[Finding[S]]:
    """Every threshold over all captures of a level."""
    return [Finding(threshold, level, threshold.figure(scored)) for threshold in thresholds]


def each_short(thresholds: Sequence[Threshold[S]], scored: Sequence[S]) -> list[Shortfall]:
    """Captures that alone would miss a threshold: where to look when all together do."""
    return [
        Shortfall(
            threshold.name, one.scenario, one.seed, f"{one.level}: {written(found, threshold)}"
        )
        for threshold in thresholds
        for one in scored
        if not threshold.met(found := threshold.figure([one]), one.level)
    ]


def written(value: float | None, threshold: Threshold[S]) -> str:
    """A figure or a limit as text."""
    if value is None:
        return NOTHING
    if threshold.as_count:
        return f"{value:.0f}"
    return "missing" if value == inf else f"{100 * value:.3g} %"


def threshold_table(found: Sequence[Finding[S]], title: str) -> Table:
    """One line per threshold: for each level what was found, and its limit."""
    levels = list(dict.fromkeys(f.level for f in found))
    columns = [
        "threshold",
        *(f"{level}{part}" for level in levels for part in (" found", " limit")),
    ]
    table = plain_table(title, columns, left=1)
    for name in dict.fromkeys(f.threshold.name for f in found):
        cells = []
        for level in levels:
            (one,) = (f for f in found if (f.threshold.name, f.level) == (name, level))
            limit = one.threshold.limits[level]
            cells.append(written(one.found, one.threshold) + ("" if one.met else " (short)"))
            cells.append("reported" if limit is None else written(limit, one.threshold))
        table.add_row(name, *cells)
    return table
