"""`ringscope analyze`: from captures to a written result and an exit code."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.cli.app import Format
from api.cli.output import write_whole
from api.cli.progress import progress_bar
from api.contract import to_contract
from api.errors import ApiError
from api.offline import analyze
from collector.errors import CollectorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.schema import DecodeError, Telemetry
    from patterns.result import Analysis

DONE: Final = 0
NOT_ALL_READ: Final = 1
NOTHING_DONE: Final = 2

STDOUT: Final = Path("-")
TRACEBACK: Final = "RINGSCOPE_TRACEBACK"  # if it is set, an internal error shows all of itself
_BY_SUFFIX: Final = {".json": Format.JSON, ".html": Format.HTML, ".txt": Format.TEXT}
_ERRORS_SHOWN: Final = 10  # more are in the result; a broken file must not flood a terminal
_PLAIN_WIDTH: Final = 100


def run(
    captures: Sequence[Path],
    inventory: Path | None,
    output: Path,
    output_format: Format | None,
    *,
    strict: bool,
) -> int:
    """Analyse captures and write the result.

    Returns
    -------
    int
        The exit code: DONE, NOT_ALL_READ (only if `strict`) or NOTHING_DONE. With NOTHING_DONE
        no output was written.
    """
    try:
        with progress_bar() as on_progress:
            analysis, telemetry = analyze(captures, inventory, on_progress)
        chosen = output_format or _default_format(output)
        write_whole(_render(analysis, telemetry, chosen, output), output)
    except (ApiError, CollectorError) as error:
        _say(str(error))
        return NOTHING_DONE
    except KeyboardInterrupt:
        _say("interrupted")
        return NOTHING_DONE
    except MemoryError as error:
        _say(f"not enough memory for these captures: {error or 'the system has no more'}")
        return NOTHING_DONE
    except Exception as error:  # our own fault; an uncaught one would exit with 1: "done, but ..."
        if TRACEBACK in os.environ:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        _say(
            f"internal error: {type(error).__name__}: {error}"
            f" ({Path(place.filename).name}:{place.lineno});"
            f" please report it with what {TRACEBACK}=1 shows"
        )
        return NOTHING_DONE
    _say_errors(telemetry.errors)
    return NOT_ALL_READ if strict and telemetry.errors else DONE


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


def _say_errors(errors: Sequence[DecodeError]) -> None:
    for error in errors[:_ERRORS_SHOWN]:
        where = [
            error.file,
            None if error.offset is None else f"offset {error.offset}",
            error.exporter and f"exporter {error.exporter}",
        ]
        times = f" ({error.count} times)" if error.count > 1 else ""
        _say(": ".join([*filter(None, where), error.reason]) + times)
    if len(errors) > _ERRORS_SHOWN:
        _say(f"{len(errors) - _ERRORS_SHOWN} more kinds of error are listed in the json result")


def _say(message: str) -> None:
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    print(f"ringscope: {message}", file=sys.stderr)  # noqa: T201
