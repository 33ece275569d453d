"""How right `ringscope analyze` is: scenarios, seeds and levels against their truth.

    python bench/accuracy.py --level rich --seeds 1-3
    python bench/accuracy.py --part structure
    python bench/accuracy.py --part time
    python bench/accuracy.py --part records

Makes each capture (or takes it from the cache), analyses it in a process of its own, validates the
result, scores it and prints the tables. Exits with 1 where a threshold is missed.

Without a part: eight plain scenarios, of which each rich capture must meet every threshold of
`bench.judge.judge`, and the others say nothing wrong with a confidence of 0.9 or more. Part
"structure": all scenarios that there are, held to the limits of `bench.structure_judge`. Part
"time": the same held to those of `bench.timing_judge`, beside what published methods reach. Part
"records": all of them told by flow records, and fleets told by counters (`bench.records`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jsonschema import Draft202012Validator
from rich.console import Console
from rich.progress import Progress

from bench import records
from bench.baselines.documents import SFLOW_RT, baselines
from bench.captures import ROOT, Capture, CaptureFailed, capture
from bench.compare import Document
from bench.judge import Shortfall, judge, overconfident, summarise
from bench.limits import each_short, over_all, threshold_table
from bench.measure import Run, run_measured
from bench.score import Score, score
from bench.structure_judge import THRESHOLDS as STRUCTURE
from bench.tables import Row, accuracy_table, claims_table, reliability_table, shortfall_table
from bench.timing import RINGSCOPE, Timing, period_only, timing
from bench.timing_judge import THRESHOLDS as TIME
from bench.timing_tables import beside_table
from fixtures.scenarios import LEVELS as FIXTURE_LEVELS
from fixtures.scenarios import SCENARIOS as EVERY

SCENARIOS: Final = (
    "dp_ring",
    "dp_tree",
    "dp_zero1",
    "tp8_pp4_dp8",
    "two_jobs",
    "storage_only",
    "every_hop",
    "no_timestamps",
)
LEVELS: Final = tuple(FIXTURE_LEVELS)
PLAIN: Final = "plain"
RECORDS: Final = "records"
PARTS: Final = (PLAIN, "structure", "time", RECORDS, "all")
SCHEMA: Final = ROOT / "docs" / "schema" / "result.schema.json"
# Wrong claims are listed from here on: those that nearly are confident errors.
LISTED: Final = 0.8


class AnalysisFailed(Exception):
    """`analyze` exited with an error or wrote nothing."""


class InvalidDocument(Exception):
    """A document that does not follow the schema; the text names the place."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One capture, scored, or why it could not be."""

    capture: tuple[str, int]
    score: Score | None
    run: Run | None
    failure: str | None
    timings: tuple[Timing, ...] = ()


def analyse(pcaps: Sequence[Path], inventory: Path) -> tuple[dict[str, Any], Run]:
    """The result document of `ringscope analyze` in a process of its own, and what it took.

    Raises
    ------
    AnalysisFailed
        The command failed.
    InvalidDocument
        Its result does not follow the schema.
    """
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "result.json"
        command = [sys.executable, "-m", "api", "analyze", *map(str, pcaps)]
        command += ["--inventory", str(inventory), "--format", "json", "--output", str(output)]
        run = run_measured(command, ROOT)
        if run.code or not output.is_file():
            # The last line names the error; a traceback before it would not fit a table.
            raise AnalysisFailed(f"exit code {run.code}: " + run.errors.rpartition("\n")[2])
        result: dict[str, Any] = json.loads(output.read_text())
    check(result, "result")
    return result, run


@lru_cache
def validator(form: str) -> Draft202012Validator:
    """Validator of one of the schema's forms: "result", or "document" that truths follow too."""
    schema = json.loads(SCHEMA.read_text())
    return Draft202012Validator({**schema, "$ref": f"#/$defs/{form}"})


def check(document: Document, form: str) -> None:
    """Raise InvalidDocument where `document` does not follow this form of the schema."""
    error = next(iter(validator(form).iter_errors(document)), None)
    if error:
        raise InvalidDocument(f"not a valid {form}: {error.json_path}: {error.message[:500]}")


def measure(scenario: str, seed: int, level: str, thinned: int, part: str) -> Outcome:
    """Make, analyse and score one capture; baselines too, for the part "time"."""
    try:
        made: Capture = capture(scenario, seed, level, thinned)
        truth = json.loads(made.truth.read_text())
        check(truth, "document")
        result, run = analyse([made.pcap], made.inventory)
    except (CaptureFailed, AnalysisFailed, InvalidDocument) as error:
        return Outcome((scenario, seed), None, None, str(error))
    outcome = Outcome((scenario, seed), score(truth, result), run, None)
    if part in (PLAIN, "structure"):
        return outcome
    timings = [timing(RINGSCOPE, truth, result)]
    for name, said in baselines(made, thinned).items():
        if name == SFLOW_RT:
            timings.append(period_only(name, truth, said["period_s"]))
        else:
            timings.append(timing(name, truth, said))
    return replace(outcome, timings=tuple(timings))


def measure_all(chosen: argparse.Namespace, level: str, console: Console) -> list[Outcome]:
    """Measure every chosen scenario and seed at a level, `jobs` at a time, in the order given."""
    wanted = [(name, seed) for name in chosen.scenarios.split(",") for seed in chosen.seeds]
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        task = progress.add_task(level, total=len(wanted))
        step: Callable[[object], None] = lambda _: progress.advance(task)  # noqa: E731
        futures = [
            pool.submit(measure, name, seed, level, chosen.thin, chosen.part)
            for name, seed in wanted
        ]
        for future in futures:
            future.add_done_callback(step)
        return [future.result() for future in futures]


def seed_range(text: str) -> list[int]:
    """Seeds of ``1-3,7``: ranges and single numbers, ascending as given."""
    seeds: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        try:
            seeds += range(int(low), int(high if dash else low) + 1)
        except ValueError:
            raise argparse.ArgumentTypeError(f"no seeds: {text!r} (as in 1-3 or 1,5)") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"no seeds: {text!r} (as in 1-3 or 1,5)")
    return seeds


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=PARTS, default=PLAIN)
    parser.add_argument("--level", choices=LEVELS, help="rich; for all parts but plain, all three")
    parser.add_argument("--seeds", type=seed_range, default=seed_range("1-3"), help="1-3 or 1,5")
    parser.add_argument("--scenarios", help="names, with commas; for all parts but plain, all")
    parser.add_argument("--jobs", type=int, help="captures at a time: 1, or 2 for --part time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all scores here")
    parser.add_argument("--thin", type=int, default=1, metavar="K", help="keep one sample in K")
    chosen = parser.parse_args(argv)
    usual = chosen.part == PLAIN
    chosen.levels = [chosen.level] if chosen.level else ["rich"] if usual else list(LEVELS)
    every = records.EVERY if chosen.part == RECORDS else EVERY
    chosen.scenarios = chosen.scenarios or ",".join(SCENARIOS if usual else every)
    timed = chosen.part in ("time", "all")
    chosen.jobs = (2 if timed else 1) if chosen.jobs is None else chosen.jobs
    if chosen.jobs < 1 or chosen.thin < 1:
        parser.error("--jobs and --thin are 1 or more")
    return chosen


def report(outcomes: Sequence[Outcome], level: str, thinned: int, console: Console) -> bool:
    """Print all tables of the plain scenarios; True where every threshold is met."""
    missed = failures(outcomes, level)
    scores = report_scores(outcomes, level, thinned, console)
    if scores:
        strict = level == "rich" and thinned == 1
        missed += judge(scores) if strict else [s for one in scores for s in overconfident(one)]
    console.print(shortfall_table(missed))
    return concluded(not missed, len(outcomes), console)


def report_scores(
    outcomes: Sequence[Outcome], level: str, thinned: int, console: Console
) -> list[Score]:
    """Print what was scored, and how far its confidences hold; the scores."""
    rows = [Row(o.score, o.run) for o in outcomes if o.score]
    scores = [row.score for row in rows]
    if scores:
        total = summarise(scores)
        title = f"Accuracy, {level}" + (f", one sample in {thinned} kept" if thinned > 1 else "")
        console.print(accuracy_table([*rows, Row(total, None)], title))
        console.print(reliability_table(total.claims))
        console.print(claims_table(scores, LISTED))
    return scores


def report_structure(of_level: dict[str, list[Outcome]], thinned: int, console: Console) -> bool:
    """Print scores and the limits over all captures; True where every one is met."""
    found, short = [], []
    for level, outcomes in of_level.items():
        scores = report_scores(outcomes, level, thinned, console)
        found += over_all(STRUCTURE, scores, level)
        short += each_short(STRUCTURE, scores)
    failed = [s for level, some in of_level.items() for s in failures(some, level)]
    console.print(shortfall_table(short + failed))
    console.print(threshold_table(found, "Groups, roles, algorithms and sizes"))
    met = all(finding.met for finding in found) and not failed
    return concluded(met, sum(map(len, of_level.values())), console)


def failures(outcomes: Sequence[Outcome], level: str) -> list[Shortfall]:
    """Captures that could not be made or analysed."""
    return [
        Shortfall("the capture can be analysed", *o.capture, f"{level}: {o.failure}")
        for o in outcomes
        if o.failure
    ]


def concluded(met: bool, captures: int, console: Console) -> bool:
    """Print the last line; `met` again."""
    console.print("passed" if met else "FAILED", f"({captures} captures)")
    return met


def report_times(of_level: dict[str, list[Outcome]], console: Console) -> bool:
    """Print what methods reach side by side, and the limits; True where every one is met."""
    found, short = [], []
    for level, outcomes in of_level.items():
        timings = [timing for outcome in outcomes for timing in outcome.timings]
        ours = [timing for timing in timings if timing.method == RINGSCOPE]
        console.print(beside_table(timings, level))
        found += over_all(TIME, ours, level)
        short += each_short(TIME, ours)
    failed = [s for level, some in of_level.items() for s in failures(some, level)]
    console.print(shortfall_table(short + failed))
    console.print(threshold_table(found, "Jobs, volumes and iterations"))
    met = all(finding.met for finding in found) and not failed
    return concluded(met, sum(map(len, of_level.values())), console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    chosen = arguments(argv)
    on_terminal = sys.stdout.isatty()
    console = Console(width=None if on_terminal else 320, soft_wrap=not on_terminal)
    if chosen.part == RECORDS:
        names = chosen.scenarios.split(",")
        failures = (AnalysisFailed, InvalidDocument)
        return 0 if records.run(names, chosen.seeds, analyse, failures, console) else 1
    progress = Console(stderr=True)
    of_level = {level: measure_all(chosen, level, progress) for level in chosen.levels}
    if chosen.json:
        document = [asdict(outcome) for outcomes in of_level.values() for outcome in outcomes]
        chosen.json.write_text(json.dumps(document, indent=1, default=lambda o: o.value) + "\n")
    good = True
    if chosen.part == PLAIN:
        for level, outcomes in of_level.items():
            good &= report(outcomes, level, chosen.thin, console)
    if chosen.part in ("structure", "all"):
        good &= report_structure(of_level, chosen.thin, console)
    if chosen.part in ("time", "all"):
        good &= report_times(of_level, console)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
