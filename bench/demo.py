"""A labelled capture, what `ringscope analyze` makes of it, and the truth beside it.

    python -m bench.demo [SCENARIO] [--seed N] [--level rich|normal|starved]

Exits with 1 where truth and result differ by more than `bench.judge` allows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from textwrap import shorten
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.accuracy import SCENARIOS, AnalysisFailed, InvalidDocument, analyse, check
from bench.captures import ROOT, Capture, CaptureFailed, capture
from bench.compare import (
    Document,
    Measured,
    Verdict,
    compare_order,
    has_order,
    orders_of,
    parents_of,
)
from bench.judge import (
    BYTES_ERROR,
    PERIOD_ERROR,
    Shortfall,
    judge,
    overconfident,
)
from bench.pairing import JobPair, pair_documents
from bench.score import group_byte_errors, period_error, score, size_verdicts

_MARKS: Final = {
    Verdict.RIGHT: Text("✓", "green"),
    Verdict.IN_CANDIDATES: Text("✓ open", "green"),
    Verdict.ABSTAINED: Text("– not said", "yellow"),
}
_PLAIN_WIDTH: Final = 140
_SHORTFALLS_SHOWN: Final = 5
_WRONG: Final = Text("✗", "bold red")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of the truth beside the result's."""

    what: str
    true: str
    said: str
    verdict: Verdict


def compare(truth: Document, result: Document) -> Iterator[Line]:
    """Everything the demo shows, in the order a reader asks: jobs, sizes, groups, period, bytes."""
    pairs, lone = pair_documents(truth, result)
    for pair in pairs:
        yield from _about(pair)
    for job in lone:
        yield Line(f"job {job['id']}", "none", _size(job), Verdict.WRONG)
    if not pairs and not lone:
        yield Line("jobs", "none", "none", Verdict.RIGHT)


def _about(pair: JobPair) -> Iterator[Line]:
    true, said = pair.true, pair.said
    name = true["id"]
    if said is None:
        yield Line(f"job {name}", _size(true), "none", Verdict.MISSING)
        return
    same = set(true["endpoints"]) == set(said["endpoints"])
    yield Line(f"job {name}", _size(true), _size(said), Verdict.RIGHT if same else Verdict.WRONG)
    for judged in size_verdicts(pair):
        stated = "?" if judged.said == "None" else judged.said
        yield Line(judged.subject, judged.true, stated, judged.verdict)
    yield from _groups(pair, {rank["endpoint"]: rank["host"] for rank in said["ranks"]})
    for period in period_error(pair):
        yield _measured(f"{name} period", period, PERIOD_ERROR, "{:.5f} s")
    volumes = list(group_byte_errors(pair))
    if volumes:
        far = max(volumes, key=lambda m: inf if m.error is None else m.error)
        what = f"{far.subject} bytes (of {len(volumes)} groups the furthest off)"
        yield _measured(what, far, BYTES_ERROR, "{:,.0f}")


def _groups(pair: JobPair, host_of: Mapping[str, str]) -> Iterator[Line]:
    """A line per drawing: groups on other rails that look alike are counted, not repeated."""
    lines: Counter[Line] = Counter()
    for _, true, said in pair.answers():
        what = f"{pair.true['id']} {true['kind']} {true['algorithm']}"
        if said is None:
            lines[Line(what, _drawn(true, host_of), "none", Verdict.MISSING)] += 1
            continue
        verdict = Verdict.RIGHT
        if set(true["members"]) != set(said["members"]) or true["kind"] != said["kind"]:
            verdict = Verdict.WRONG
        elif has_order(true):
            verdict = compare_order(true, said)
        elif true["algorithm"] != said["algorithm"]:
            verdict = Verdict.WRONG
        lines[Line(what, _drawn(true, host_of), _drawn(said, host_of), verdict)] += 1
    for line, count in lines.items():
        times = f" ×{count}" if count > 1 else ""
        yield Line(line.what + times, line.true, line.said, line.verdict)


def _drawn(group: Document, host_of: Mapping[str, str]) -> str:
    members = [host_of.get(member, member) for member in group["members"]]
    if group["algorithm"] == "tree":
        trees = parents_of(group)
        roots = [{up for _, up in tree} - {child for child, _ in tree} for tree in trees]
        named = sorted(host_of.get(root, root) for of_tree in roots for root in of_tree)
        return f"{len(trees)} trees over {len(members)}, roots {', '.join(named)}"
    orders = orders_of(group)
    if not orders:
        return f"{group['kind']} {group['algorithm']}: {', '.join(sorted(members))}"
    names = [host_of.get(member, member) for member in orders[0]]
    if group["algorithm"] == "ring":
        first = names.index(min(names))
        names = names[first:] + names[:first]
    return (" → " if group["algorithm"] == "ring" else " ⇄ ").join(names)


def _size(job: Document) -> str:
    return f"{len(job['hosts'])} hosts, {len(job['endpoints'])} endpoints"


def _measured(what: str, measured: Measured, limit: float, number: str) -> Line:
    true = number.format(measured.true)
    if measured.said is None or measured.error is None:
        return Line(what, true, "?", Verdict.ABSTAINED)
    said = f"{number.format(measured.said)} ({measured.error:.3%} off)"
    return Line(what, true, said, Verdict.RIGHT if measured.error <= limit else Verdict.WRONG)


def table(lines: Sequence[Line]) -> Table:
    """Truth beside result."""
    drawn = Table(box=SIMPLE_HEAD)
    for name in ("truth beside result", "truth", "result", ""):
        drawn.add_column(name, overflow="fold")
    for line in lines:
        drawn.add_row(line.what, line.true, line.said, _MARKS.get(line.verdict, _WRONG))
    return drawn


def missed(truth: Document, result: Document, level: str) -> list[Shortfall]:
    """What falls short: of every threshold at level rich, else confident errors only."""
    scored = score(truth, result)
    return judge([scored]) if level == "rich" else overconfident(scored)


def demonstrate(made: Capture, console: Console) -> bool:
    """Analyse one capture and print picture and comparison; whether they agree.

    Raises
    ------
    AnalysisFailed, InvalidDocument
        There is nothing to compare.
    """
    command = ["analyze", str(made.pcap), "--inventory", str(made.inventory)]
    console.print(f"$ ringscope {' '.join(command)}\n", style="bold", soft_wrap=True)
    subprocess.run(
        [sys.executable, "-m", "api", *command, "--format", "text"], cwd=ROOT, check=False
    )
    truth = json.loads(made.truth.read_text(encoding="utf-8"))
    check(truth, "document")
    result, run = analyse([made.pcap], made.inventory)
    console.print()
    console.print(table(list(compare(truth, result))))
    console.print(f"analysed in {run.wall_s:.1f} s with {run.peak_bytes / 1e6:.0f} MB")
    shortfalls = missed(truth, result, made.level)
    for shortfall in shortfalls[:_SHORTFALLS_SHOWN]:
        found = shorten(shortfall.found, _PLAIN_WIDTH)
        console.print(f"✗ {shortfall.threshold}: {found}", style="red")
    if len(shortfalls) > _SHORTFALLS_SHOWN:
        console.print(f"✗ and {len(shortfalls) - _SHORTFALLS_SHOWN} more", style="red")
    if not shortfalls:
        console.print("✓ truth and result agree", style="green")
    return not shortfalls


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("scenario", nargs="?", default="tp8_pp4_dp8", choices=SCENARIOS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", choices=("rich", "normal", "starved"), default="rich")
    chosen = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    console.print(f"Making the capture {chosen.scenario}, seed {chosen.seed}, {chosen.level} ...")
    try:
        made = capture(chosen.scenario, chosen.seed, chosen.level)
        return 0 if demonstrate(made, console) else 1
    except (CaptureFailed, AnalysisFailed, InvalidDocument, OSError) as error:
        console.print(f"✗ {error}", style="red")
        return 1


if __name__ == "__main__":
    sys.exit(main())
