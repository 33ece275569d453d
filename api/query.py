"""SQL over a store: views of its rows for people, and no way to anything else of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.func import ARROW

from api.errors import QueryFailed
from collector.addresses import distinct
from collector.errors import StoreError
from collector.records import RECORD_ABSENT, RecordTime
from collector.schema import (
    ABSENT,
    Encapsulation,
    HeaderState,
    PortState,
    TimeBasis,
    Transport,
)
from collector.sflow.reasons import REASON_NAMES
from collector.store.files import StoredFile, list_files
from collector.store.rows import SCHEMAS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

# A query may be asked beside a running service: it gets a part of a machine, and says so when that
# is too little.
_MEMORY: Final = "1GiB"
_THREADS: Final = 2

_NAMES: Final[dict[str, type[IntEnum]]] = {
    "time_basis": TimeBasis,
    "input_state": PortState,
    "output_state": PortState,
    "transport": Transport,
    "header_state": HeaderState,
    "encapsulation": Encapsulation,
}
# What a view calls otherwise than the others do: when flows ended is the time of their records.
_NAMES_OF_RECORDS: Final = _NAMES | {"time_basis": RecordTime}
_COLUMN: Final = {"end_ns": "time"}
_ZERO: Final = dict.fromkeys(("sampling_rate", "src_port", "dst_port"), 0)
_WORDS: Final = {"direction": ("unknown", "received", "sent")}

_REASON: Final = (
    "CASE reason "
    + " ".join(f"WHEN {code} THEN '{name}'" for code, name in REASON_NAMES.items())
    + " ELSE 'reason_' || reason END"
)


@contextmanager
def ask(directory: Path, sql: str) -> Iterator[DuckDBPyRelation]:
    """The answer to one SELECT over the views `flows`, `counters` and `discards` of a store.

    Parameters
    ----------
    directory
        A store; it may be written meanwhile, and the answer is of the files there at the start.
        Those that are merged meanwhile stay for ten minutes (`collector.store.retention`); what
        takes longer, or reaches to where rows are forgotten, may find one gone and fail.
    sql
        DuckDB's dialect. Columns are those of `collector.schema`, but: times are timestamps (UTC)
        without ``_ns`` in their name, addresses and enumerations are text, ``exporter`` is
        ``agent``, ``sub_agent`` and ``exporter_protocol``, and what is absent is NULL.

    Yields
    ------
    DuckDBPyRelation
        Not yet computed.

    Raises
    ------
    QueryFailed
        DuckDB does not accept or cannot answer it (also while the answer is read inside the
        block), or it is no single SELECT.
    collector.errors.StoreError
        The directory is no store.
    """
    if not (directory / "flows").is_dir():
        raise StoreError(directory, "no store: it has no folder flows")
    try:
        with duckdb.connect(":memory:") as connection:
            _bind(connection, Path(os.path.realpath(directory)))
            statements = connection.extract_statements(sql)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise QueryFailed("one statement that reads is wanted, as SELECT ... FROM flows")
            yield connection.sql(sql)
    except duckdb.Error as error:
        raise QueryFailed(str(error)) from error


def _bind(connection: DuckDBPyConnection, directory: Path) -> None:
    """Make the views, then shut the door: no other file, no extension, no setting to change."""
    connection.create_function(
        "ipv6_text",
        _ipv6_text,
        [duckdb.sqltype("UBIGINT"), duckdb.sqltype("UBIGINT")],
        duckdb.sqltype("VARCHAR"),
        type=ARROW,
    )
    allowed: list[str] = []
    for view, schema in SCHEMAS.items():
        files = list_files(directory, view)
        connection.register(f"{view}_of_none", schema.empty_table())
        # Columns that came later are NULL in the files before.
        source = " UNION ALL BY NAME ".join(
            f"SELECT * FROM {rows}"
            for rows in (f"{view}_of_none", *map(_read_parquet, _alike(files)))
        )
        connection.execute(f"CREATE VIEW {view} AS SELECT {_columns(view)} FROM ({source})")
        allowed += [str(file.path) for file in files]
    for setting, value in (
        ("memory_limit", _quoted(_MEMORY)),
        ("threads", str(_THREADS)),
        ("temp_directory", "''"),  # nothing is written, also not what does not fit into memory
        ("TimeZone", "'UTC'"),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("python_enable_replacements", "false"),  # variables of this program are no tables
        ("allowed_paths", f"[{', '.join(map(_quoted, allowed))}]"),
        ("enable_external_access", "false"),
        ("lock_configuration", "true"),
    ):
        connection.execute(f"SET {setting} = {value}")


def _alike(files: list[StoredFile]) -> list[list[StoredFile]]:
    """Files by the columns they have, which are the same in all that one writer wrote."""
    columns: dict[str, tuple[str, ...]] = {}
    alike: dict[tuple[str, ...], list[StoredFile]] = {}
    for file in files:
        if file.writer not in columns:
            try:
                columns[file.writer] = tuple(pq.read_schema(file.path).names)
            except (OSError, pa.ArrowException):  # gone or damaged: the next one may say it
                alike.setdefault((), []).append(file)
                continue
        alike.setdefault(columns[file.writer], []).append(file)
    return list(alike.values())


def _read_parquet(files: list[StoredFile]) -> str:
    return f"read_parquet([{', '.join(_quoted(str(file.path)) for file in files)}])"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _columns(view: str) -> str:
    """What a view selects from its files."""
    schema = SCHEMAS[view]
    of_records = view == "records"
    names = _NAMES_OF_RECORDS if of_records else _NAMES
    absent = _ZERO | (RECORD_ABSENT if of_records else ABSENT)
    selected = []
    for name in schema.names:
        if name.endswith("_lo"):
            continue  # goes with its upper half
        if name.endswith("_hi"):
            column = name.removesuffix("_hi")
            expression = _address(name, f"{column}_lo")
        elif name == "exporter":
            selected.append("split_part(exporter, ' ', 1) AS agent")
            selected.append("split_part(exporter, ' ', 2)::UINTEGER AS sub_agent")
            column, expression = "exporter_protocol", "split_part(exporter, ' ', 3)"
        elif name in names or name in _WORDS:
            column = name
            words = _WORDS.get(name) or [member.name.lower() for member in names[name]]
            expression = f"([{', '.join(map(_quoted, words))}])[{name}::INTEGER + 1]"
        elif name == "reason":
            column, expression = name, _REASON
        elif pa.types.is_binary(schema.field(name).type):
            column, expression = name, f"nullif({name}::VARCHAR, '')"
        elif name in absent:
            column, expression = name, f"nullif({name}, {absent[name]})"
        else:
            column, expression = _COLUMN.get(name, name.removesuffix("_ns")), name
        selected.append(f'{expression} AS "{column}"')
    return ", ".join(selected)


def _address(hi: str, lo: str) -> str:
    """An address as text; IPv4, the common one, without a call back into Python."""
    octets = ", ".join(f"({lo} >> {shift}) & 255" for shift in (24, 16, 8, 0))
    return (
        f"CASE WHEN {hi} = 0 AND {lo} = 0 THEN NULL"
        f" WHEN {hi} = 0 AND {lo} >> 32 = 65535 THEN concat_ws('.', {octets})"
        f" ELSE ipv6_text({hi}, {lo}) END"
    )


def _ipv6_text(hi: pa.ChunkedArray, lo: pa.ChunkedArray) -> pa.Array:
    """Addresses as RFC 5952 texts, for DuckDB."""
    texts, which = distinct(
        np.asarray(hi.to_numpy(), np.uint64), np.asarray(lo.to_numpy(), np.uint64)
    )
    return pa.array(texts, pa.string()).take(pa.array(which))
