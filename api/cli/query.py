"""`ringscope query`: SQL in, rows out."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.cli.app import RowFormat
from api.cli.exit import DONE, exit_code_of
from api.cli.output import write_whole
from api.errors import QueryFailed
from api.query import ask

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_STDOUT: Final = Path("-")
_ROWS_AT_ONCE: Final = 10_000
_ROWS_ON_TERMINAL: Final = 200
_PLAIN: Final = (
    {"BOOLEAN", "DOUBLE", "FLOAT", "VARCHAR"}
    | {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
    | {"INTEGER", "UINTEGER"}
)
# With a zone: shown in UTC, as `ask` sets.
_MICROSECONDS: Final = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"}


def run(sql: str, store: Path, row_format: RowFormat | None) -> int:
    """Answer a query on standard output.

    Parameters
    ----------
    row_format
        Default: a table on a terminal, else json.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE if the query cannot be answered; then json and csv
        may have been written in part.
    """
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    chosen = row_format or (RowFormat.TABLE if on_terminal else RowFormat.JSON)
    lines = {RowFormat.TABLE: _table, RowFormat.JSON: _json, RowFormat.CSV: _csv}[chosen]

    def work() -> int:
        with _interruptible(), ask(store, sql) as answer:
            for text in lines(answer):
                write_whole(text, _STDOUT)
        return DONE

    return exit_code_of(work)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once: DuckDB gives Python no turn before a batch is ready.

    Nothing is left behind, since a query writes nothing.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _table(answer: DuckDBPyRelation) -> Iterator[str]:
    """As much as a terminal shows; says how many rows and columns are left out."""
    text = io.StringIO()
    with redirect_stdout(text):
        answer.show(max_width=shutil.get_terminal_size().columns, max_rows=_ROWS_ON_TERMINAL)
    yield text.getvalue()


def _json(answer: DuckDBPyRelation) -> Iterator[str]:
    """An array of objects, a line each."""
    names, before = answer.columns, "[\n"
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise QueryFailed(f"json has no place for two columns named {twice[0]!r}: use AS")
    for rows in _chunks(answer):
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        lines = [json.dumps(each, ensure_ascii=False, allow_nan=False) for each in objects]
        yield before + ",\n".join(lines)
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _csv(answer: DuckDBPyRelation) -> Iterator[str]:
    """RFC 4180, but lines end as everywhere on this system; NULL is empty."""
    header: list[tuple[object, ...]] = [tuple(answer.columns)]
    for rows in chain([header], _chunks(answer)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        yield text.getvalue()


def _chunks(answer: DuckDBPyRelation) -> Iterator[list[tuple[object, ...]]]:
    """The rows, some at a time, with nothing in them but numbers, texts, booleans and None."""
    kinds = [str(kind) for kind in answer.types]
    plain = answer.project(", ".join(_plain(f"#{n}", kind) for n, kind in enumerate(kinds, 1)))
    for batch in plain.to_arrow_reader(_ROWS_AT_ONCE):
        yield list(zip(*(map(_value, column.to_pylist()) for column in batch.columns), strict=True))


def _plain(column: str, kind: str) -> str:
    """SQL for a column as a value that json has; times with all digits, as in results."""
    if kind in _PLAIN:
        return column
    if kind.startswith("DECIMAL"):
        return f"{column}::DOUBLE"
    if kind == "TIMESTAMP_NS":
        return f"strftime({column}, '%Y-%m-%dT%H:%M:%S.%nZ')"
    if kind in _MICROSECONDS:
        return f"strftime({column}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ')"
    return f"{column}::VARCHAR"


def _value(value: object) -> object:
    if isinstance(value, Decimal):  # as Arrow holds DuckDB's large integers
        return int(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
