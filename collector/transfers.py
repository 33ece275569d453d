"""Tables of transfers in, flow records out: CSV and Parquet, one row a message or burst of them.

That is how mirrored packets are often kept (as in LLMPrism, DSN 2025): when a transfer began, how
long it took, from where, to where, and how many bytes it carried.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from collector.capture import Progress
from collector.errors import CaptureError
from collector.packets import Faults
from collector.records import RecordBatch
from collector.source import ByteSource
from collector.transfer_names import TableError, known_names

if TYPE_CHECKING:
    from collector.transfer_columns import TransferColumns

_PARQUET: Final = b"PAR1"
_DELIMITERS: Final = ",;\t|"
_PEEK_BYTES: Final = 1 << 14  # the names of the columns are within
_LEAST_KNOWN: Final = 3  # names of columns: else a text is something else
_ROWS: Final = 1 << 18  # at a time
_LONGEST_TEXT: Final = 64
_BLOCK_BYTES: Final = 16 << 20
_ENCODING: Final = "latin-1"  # whatever the bytes are, they are text; what is read of them is ASCII


def is_table(path: Path) -> bool:
    """Whether a file is a table of transfers, by its first bytes; not one that cannot be read."""
    if not os.path.isfile(path):  # a pipe has no way back; unlike pathlib's, this never raises
        return False
    try:
        head = _head(path)
    except CaptureError:
        return False
    return head.startswith(_PARQUET) or _delimiter(head) is not None


def read_transfers(
    path: Path, faults: Faults, on_progress: Progress | None = None
) -> Iterator[RecordBatch]:
    """Read a table of transfers.

    Parameters
    ----------
    path
        CSV, also gzip, with the names of its columns in the first line, or Parquet. Which names are
        known: `collector.transfer_names`.
    faults
        Takes note of what could not be read. Rows count from 1, without the line of names and
        without lines that are no rows.
    on_progress
        Called after each batch with the bytes of the file that are done, and their total.

    Yields
    ------
    RecordBatch
        Rows in the order of the file; never empty.

    Raises
    ------
    CaptureError
        The columns make no table of transfers, or nothing can be read.
    """
    from pyarrow import ArrowException

    from collector.transfer_columns import TransferColumns

    head = _head(path)
    read = _parquet if head.startswith(_PARQUET) else _csv
    found = bad = first = at = 0
    try:
        names, batches = read(path, head, faults)
        columns = TransferColumns(names)
        for batch, done in batches(columns):
            rows, usable = columns.rows(batch.to_pandas())
            if not usable.all() and not bad:
                first = at + int(np.argmin(usable)) + 1
            at += len(usable)
            bad += int(len(usable) - usable.sum())
            found += len(rows)
            if len(rows):
                yield rows
            if on_progress is not None:
                on_progress(done, path.stat().st_size)
    except (TableError, ArrowException, OSError) as error:
        if not at:
            raise CaptureError(path, 0, str(error)) from error
        faults.note(f"reading failed behind row {at} ({error})", None)
    if bad:
        reason = f"rows without times, addresses or bytes that can be; the first is row {first}"
        faults.note(reason, None, bad)
    if not found:
        faults.note("no transfer in this table", None)


Batches = Callable[["TransferColumns"], Iterator[tuple[Any, int]]]


def _parquet(path: Path, _head: bytes, _faults: Faults) -> tuple[list[str], Batches]:
    """Names of the columns, and what reads those wanted: tables of Arrow, and bytes done."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    # As a dictionary, one long text in many rows takes its memory once.
    file = pq.ParquetFile(path, read_dictionary=names)

    def batches(columns: TransferColumns) -> Iterator[tuple[Any, int]]:
        rows, size = max(file.metadata.num_rows, 1), path.stat().st_size
        done = 0
        for batch in file.iter_batches(_ROWS, columns=columns.names):
            done += len(batch)
            yield (
                pa.table([_short(column) for column in batch.columns], batch.schema.names),
                (size * done // rows),
            )

    return names, batches


def _short(column: Any) -> Any:
    """A column of Arrow whose texts are no longer than a time or an address is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return column
    texts = column.dictionary
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        texts = pc.utf8_slice_codeunits(texts, 0, _LONGEST_TEXT)
    return pa.DictionaryArray.from_arrays(column.indices, texts).cast(texts.type)


def _csv(path: Path, head: bytes, faults: Faults) -> tuple[list[str], Batches]:
    """As `_parquet`; all values are text."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    delimiter = _delimiter(head) or ","
    names = _names(head, delimiter)

    strange: list[int] = []  # the first such line, and how many there are

    def skip(row: Any) -> str:
        lines = 1 + row.text.rstrip("\n").count("\n")  # more, where a quote is left open
        strange[:] = [strange[0], strange[1] + lines] if strange else [row.number, lines]
        return "skip"

    def batches(columns: TransferColumns) -> Iterator[tuple[Any, int]]:
        with ByteSource(path) as source:
            reader = arrow_csv.open_csv(
                pa.PythonFile(_Readable(source), "r"),
                arrow_csv.ReadOptions(
                    use_threads=False,  # else it does not number lines
                    block_size=_BLOCK_BYTES,
                    column_names=names,
                    skip_rows=1,
                    encoding=_ENCODING,
                ),
                arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip),
                arrow_csv.ConvertOptions(
                    include_columns=columns.names,
                    column_types=dict.fromkeys(columns.names, pa.string()),
                ),
            )
            try:
                for batch in reader:
                    yield batch, source.position_bytes
            finally:
                if source.fault is not None:
                    faults.note(source.fault, None)
                if strange:
                    where = f"the first is line {strange[0]}"
                    reason = f"lines that have not {len(names)} columns; {where}"
                    faults.note(reason, None, strange[1])

    return names, batches


class _Readable:
    """A `ByteSource` as a file that Arrow reads."""

    closed = False

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than asked for mean the end."""
        target = np.empty(size, np.uint8)
        return target[: self._source.read_into(target)].tobytes()


def _head(path: Path) -> bytes:
    with ByteSource(path) as source:
        target = np.empty(_PEEK_BYTES, np.uint8)
        return target[: source.read_into(target)].tobytes()


def _delimiter(head: bytes) -> str | None:
    """What parts the columns of a CSV file; None where its first line names no transfers."""
    known = {each: known_names(_names(head, each)) for each in _DELIMITERS}
    best = max(known, key=lambda each: known[each])
    return best if known[best] >= _LEAST_KNOWN else None


def _names(head: bytes, delimiter: str) -> list[str]:
    line = head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1]
    text = line[0].decode(_ENCODING) if line else ""
    return [name.strip() for name in next(csv.reader([text], delimiter=delimiter), [])]
