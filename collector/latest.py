"""The newest that agents told of each port and of themselves.

Little of it changes, and nobody asks for its history.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collector.keys import KeyTable
from collector.polled import (
    ABSENT_POLLED,
    HOST_COLUMNS,
    PORT_COLUMNS,
    Columns,
    HostBatch,
    PortBatch,
    unsaid,
)
from collector.schema import I64

# A forged agent can name a new port in every sample; the largest chassis have some thousands.
MOST_PORTS: Final = 1 << 16


class Latest:
    """The newest of each port and of each exporter, over any number of batches."""

    def __init__(self) -> None:
        self._port_keys = KeyTable(MOST_PORTS)
        self._host_keys = KeyTable()  # exporters are bounded before they come here
        self._ports = PortBatch.empty()
        self._hosts = HostBatch.empty()

    def take(self, ports: PortBatch, hosts: HostBatch) -> None:
        """Take in rows in the order of their arrival; what one does not say stays as it was."""
        if len(ports):
            number = self._port_keys.number(
                ports.exporter.astype(np.uint64),
                ports.ifindex.astype(np.uint64),
                np.zeros(len(ports), np.uint64),
            )
            kept = number < MOST_PORTS
            rows = _longer(self._ports, PORT_COLUMNS, len(self._port_keys))
            _merge(rows, ports.take(kept), number[kept])
            self._ports = PortBatch(**rows)
        if len(hosts):
            nothing = np.zeros(len(hosts), np.uint64)
            number = self._host_keys.number(hosts.exporter.astype(np.uint64), nothing, nothing)
            rows = _longer(self._hosts, HOST_COLUMNS, len(self._host_keys))
            _merge(rows, hosts, number)
            self._hosts = HostBatch(**rows)

    @property
    def ports(self) -> PortBatch:
        """One row per port, in the order of first appearance; never changed afterwards."""
        return self._ports

    @property
    def hosts(self) -> HostBatch:
        """One row per exporter that told of its machine, likewise."""
        return self._hosts


def _longer(batch: PortBatch | HostBatch, columns: Columns, rows: int) -> dict[str, NDArray[Any]]:
    """Copies of all columns, so many rows long: who holds the batch does not see it change."""
    out = unsaid(columns, rows)
    for name, column in out.items():
        column[: len(batch)] = getattr(batch, name)
    return out


def _merge(rows: dict[str, NDArray[Any]], news: PortBatch | HostBatch, number: I64) -> None:
    """Write what `news` say to the rows `number`; of several on one row the last stays."""
    for name, column in rows.items():
        new = getattr(news, name)
        if name in ("time_ns", "exporter", "ifindex"):
            column[number] = new
        else:
            said = new != (b"" if new.dtype.kind == "S" else ABSENT_POLLED.get(name, 0))
            column[number[said]] = new[said]
