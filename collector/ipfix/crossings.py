"""Flows that one exporter tells of twice: as they enter it, and again as they leave.

Open vSwitch, and any switch that meters both directions of its ports, sends a record of each. They
are about the same packets, so the second is marked, and counts for nothing where bytes are added.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collector.ipfix.names import Names
from collector.keys import KeyTable
from collector.records import Doubt, RecordBatch
from collector.schema import I64

MOST_FLOWS: Final = 1 << 17
_ENTERING: Final = 1
_LEAVING: Final = 2


class Crossings:
    """Follows the flows of exporters that tell of both directions; see `mark`.

    Parameters
    ----------
    most
        Flows that are remembered; when there are more, all are forgotten.
    """

    def __init__(self, most: int = MOST_FLOWS) -> None:
        self._most = most
        self._names = Names()
        self._both = np.zeros(0, np.bool_)  # by exporter: it told of a flow that left
        self._begin()

    def _begin(self) -> None:
        self._keys = KeyTable(self._most)
        self._entered = np.zeros(self._most + 1, np.bool_)

    def mark(self, records: RecordBatch) -> None:
        """Mark, in place, records of flows that leave and were told of as they entered.

        Notes
        -----
        What enters may be told behind what leaves: then it must be in the same batch, or the flow
        have been told of before. An exporter's flows are remembered from the first on that leaves.
        """
        if not len(records):
            return
        exporter = records.exporter.astype(np.int64)
        leaving = records.direction == _LEAVING
        missing = int(exporter.max()) + 1 - len(self._both)
        if missing > 0:
            self._both = np.concatenate((self._both, np.zeros(missing, np.bool_)))
        self._both[exporter[leaving]] = True
        rows = np.flatnonzero(self._both[exporter] & (records.direction > 0))
        if not len(rows):
            return
        if len(self._keys) >= self._most:
            self._begin()
        flow = self._numbered(records, rows)
        self._entered[flow[records.direction[rows] == _ENTERING]] = True
        self._entered[self._most] = False
        twice = rows[leaving[rows] & self._entered[flow]]
        records.doubts[twice] |= np.uint8(Doubt.TWICE)

    def _numbered(self, records: RecordBatch, rows: I64) -> I64:
        ends = (records.src_port[rows].astype(np.uint64) << np.uint64(32)) | (
            records.dst_port[rows].astype(np.uint64) << np.uint64(8)
        )
        key = (
            records.src_hi[rows],
            records.src_lo[rows],
            records.dst_hi[rows],
            records.dst_lo[rows],
            ends | records.protocol[rows],
            records.exporter[rows].astype(np.uint64),
        )
        return self._keys.number(*self._names.of(key), np.zeros(len(rows), np.uint64))
