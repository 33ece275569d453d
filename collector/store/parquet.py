"""Tables as Parquet files: how they are laid out, and reading them piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

# Small enough that a query reads few rows beside its window, large enough to compress.
_ROWS_PER_GROUP: Final = 1 << 17
# Beside times: their values hardly repeat, so as differences they take half of what a dictionary
# does.
_RISING: Final = ("seq", "ack_seq", "msn")


def write_file(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables one after the other into one file.

    Raises
    ------
    OSError
        The disk did not take it; what is at `path` is of no use then.
    """
    rising = [field.name for field in schema if _rises(field)]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in rising],
        column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=_ROWS_PER_GROUP)


def read_pieces(paths: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of some files, file by file, never more than a row group at once."""
    for path in paths:
        with pq.ParquetFile(path) as parquet:
            for number in range(parquet.num_row_groups):
                yield parquet.read_row_group(number)


def packed(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of a whole row group each, but the last."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while (rows := sum(map(len, held))) >= _ROWS_PER_GROUP:
            joined = _joined(held)
            yield joined.slice(0, _ROWS_PER_GROUP)
            held = [joined.slice(_ROWS_PER_GROUP)] if rows > _ROWS_PER_GROUP else []
    if held:
        yield _joined(held)


def _joined(tables: list[pa.Table]) -> pa.Table:
    # Every file has a dictionary of its own, and a row group takes one.
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _rises(field: pa.Field) -> bool:
    rises = field.name in _RISING and pa.types.is_integer(field.type)
    return bool(rises or pa.types.is_timestamp(field.type))
