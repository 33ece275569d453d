"""Flow records of a labelled capture, as columns: all of them, or what sampled packets leave.

A record is one transfer between two endpoints (`fixtures/flow_records.py`).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

I64 = NDArray[np.int64]
_UDP = 17  # what carries RoCE
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FlowRecords:
    """One row per record; all columns of shape (records,).

    `start_s` and `end_s` count from the capture's start; `src` and `dst` point into `Ends`;
    `size` is payload in bytes.
    """

    start_s: F64
    end_s: F64
    src: I64
    dst: I64
    size: I64
    packets: I64
    roce: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start_s)

    def take(self, index: NDArray[Any]) -> FlowRecords:
        """Rows by index or mask."""
        return FlowRecords(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Ends:
    """The endpoints of the records: their addresses, and the server each sits in.

    `server` is a number per server that the inventory lists as a GPU host, -1 for any other
    endpoint; where there is no inventory, every endpoint is a server of its own.
    """

    address: tuple[str, ...]
    server: I64


def read(flows: Path, inventory: Path) -> tuple[FlowRecords, Ends]:
    """The records of a Parquet file, and what an inventory says of their ends."""
    table = pq.read_table(flows)
    column = {name: table.column(name).to_numpy() for name in table.column_names}
    vni = column["vni"].astype(str)
    names = [
        np.char.add(np.char.add(vni, "/"), column[side].astype(str)) for side in ("src", "dst")
    ]
    keys, place = np.unique(np.concatenate(names), return_inverse=True)
    nic = np.empty(len(keys), object)
    nic[place] = np.concatenate([column["src_nic"], column["dst_nic"]])
    hosts = tomllib.loads(inventory.read_text()).get("hosts", [])
    home = {address: number for number, host in enumerate(hosts) for address in host["nics"]}
    server = [home.get(address, -1) for address in nic] if hosts else range(len(keys))
    start_s = column["start_ns"] / 1e9
    count = len(start_s)
    records = FlowRecords(
        start_s,
        start_s + column["duration_ns"] / 1e9,
        place[:count].astype(np.int64),
        place[count:].astype(np.int64),
        column["bytes"],
        column["packets"],
        column["protocol"] == _UDP,
    )
    addresses = tuple(key.partition("/")[2] for key in keys.tolist())
    return records, Ends(addresses, np.array(server, np.int64))


def sample_packets(records: FlowRecords, one_in: int, rng: np.random.Generator) -> tuple[I64, F64]:
    """Packets that a sampler of one in `one_in` copies, each packet by itself.

    Returns
    -------
    The record of each sampled packet (int64, ascending) and its time in seconds (float64); the
    packets of a record are evenly spaced.
    """
    taken = rng.binomial(records.packets, 1.0 / one_in)
    record = np.repeat(np.arange(len(records)), taken)
    span = records.end_s - records.start_s
    return record, records.start_s[record] + span[record] * rng.random(len(record))


def sampled(records: FlowRecords, one_in: int, rng: np.random.Generator) -> FlowRecords:
    """The records that a sampling exporter would write: from the first sampled packet to the last.

    Transfers without a sample leave none; sizes are counts times the rate.
    """
    record, time_s = sample_packets(records, one_in, rng)
    order = np.lexsort((time_s, record))
    record, time_s = record[order], time_s[order]
    first = np.flatnonzero(np.diff(record, prepend=-1))
    count = np.diff(first, append=len(record))
    kept = records.take(record[first])
    payload = kept.size / np.maximum(kept.packets, 1)
    start_s, end_s = time_s[first], time_s[first + count - 1]
    estimate = np.rint(count * one_in * payload).astype(np.int64)
    seen = FlowRecords(start_s, end_s, kept.src, kept.dst, estimate, count * one_in, kept.roce)
    return seen.take(np.argsort(start_s, kind="stable"))
