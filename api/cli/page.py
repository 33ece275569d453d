"""What the reading commands write: tables on a terminal, plain lines elsewhere, or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from api.cli.output import write_whole
from api.client import Client, ServiceError
from api.reports.text import Line, render_lines

STDOUT: Final = Path("-")
PICTURE_WIDTH: Final = 100  # of a picture that goes to no terminal
_UNCUT: Final = 10_000  # columns of a table that goes to no terminal: a row is a line, for grep


@contextmanager
def answers_of(client: Client) -> Generator[None]:
    """What is not as expected in a service's answers is its fault, and is said in one line.

    Raises
    ------
    ServiceError
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"its answers cannot be read: {type(error).__name__}: {error}"
        raise ServiceError(client.url, reason) from error


def clean(value: Any) -> Any:
    """The same JSON without characters that steer a terminal; names come from elsewhere."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_printable, value))
    if isinstance(value, list):
        return [clean(each) for each in value]
    if isinstance(value, dict):
        return {clean(name): clean(each) for name, each in value.items()}
    return value


def _printable(character: str) -> str:
    return character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def on_terminal() -> bool:
    """Whether somebody looks at standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def in_colour() -> bool:
    """Whether standard output is to have colours."""
    return on_terminal() and "NO_COLOR" not in os.environ


def picture_width() -> int:
    """Columns for a picture on standard output."""
    return shutil.get_terminal_size().columns if on_terminal() else PICTURE_WIDTH


def table(*columns: str) -> Table:
    """An empty table; without lines, as a terminal's other listings are."""
    empty = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        empty.add_column(column, overflow="fold")
    return empty


def show(lines: Iterable[Line], width: int | None = None) -> None:
    """Write lines and tables to standard output.

    Parameters
    ----------
    width
        Columns; None: as wide as the terminal, and without an end elsewhere.

    Raises
    ------
    OutputFailed
    """
    if width is None:
        width = picture_width() if on_terminal() else _UNCUT
    write_whole(render_lines(lines, width=width, colour=in_colour()), STDOUT)


def show_json(document: Any) -> None:
    """Write an answer as it came.

    Raises
    ------
    OutputFailed
    """
    write_whole(json.dumps(document, indent=1) + "\n", STDOUT)
