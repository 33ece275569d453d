"""`ringscope analyze`: from captures to a written result and an exit code."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.cli.app import Format
from api.cli.exit import DONE, NOT_ALL_READ, exit_code_of, say_errors
from api.cli.output import write_whole
from api.cli.progress import progress_bar
from api.contract import to_contract
from api.offline import analyze, analyze_stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.schema import Telemetry
    from patterns.result import Analysis

STDOUT: Final = Path("-")
_BY_SUFFIX: Final = {".json": Format.JSON, ".html": Format.HTML, ".txt": Format.TEXT}
_PLAIN_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Stored:
    """A window of a store; times in ns since the epoch, None leaves a side open."""

    directory: Path
    start_ns: int | None
    end_ns: int | None


def run(
    captures: Sequence[Path],
    inventory: Path | None,
    output: Path,
    output_format: Format | None,
    *,
    strict: bool,
    stored: Stored | None = None,
) -> int:
    """Analyse captures, or else what is stored, and write the result.

    Returns
    -------
    int
        The exit code: DONE, NOT_ALL_READ (only if `strict`) or NOTHING_DONE. With NOTHING_DONE
        no output was written.
    """

    def work() -> int:
        if stored is None:
            with progress_bar() as on_progress:
                analysis, telemetry = analyze(captures, inventory, on_progress)
        else:
            analysis, telemetry = analyze_stored(
                stored.directory, stored.start_ns, stored.end_ns, inventory
            )
        chosen = output_format or _default_format(output)
        write_whole(_render(analysis, telemetry, chosen, output), output)
        say_errors(telemetry.errors, "are listed in the json result")
        return NOT_ALL_READ if strict and telemetry.errors else DONE

    return exit_code_of(work)


def _default_format(output: Path) -> Format:
    if output == STDOUT:
        return Format.TEXT if _on_terminal() else Format.JSON
    return _BY_SUFFIX.get(output.suffix.lower(), Format.JSON)


def _render(analysis: Analysis, telemetry: Telemetry, chosen: Format, output: Path) -> str:
    if chosen is Format.JSON:
        document = to_contract(analysis, telemetry)
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if chosen is Format.HTML:
        from api.reports.html import render_html

        return render_html(analysis, telemetry)
    from api.reports.text import render_text

    on_terminal = output == STDOUT and _on_terminal()
    width = shutil.get_terminal_size().columns if on_terminal else _PLAIN_WIDTH
    colour = on_terminal and "NO_COLOR" not in os.environ
    return render_text(analysis, telemetry, width=width, colour=colour)


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
