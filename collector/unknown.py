"""Formats that exporters send and nobody here knows: how often each came, by exporter."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.keys import KeyTable
from collector.schema import I64, UnknownTag
from collector.sflow.strange import Strange
from collector.sflow.tags import Kind

# A forged exporter can make up a tag for every record; a real one has a handful.
MOST_TAGS: Final = 1 << 12
_KINDS: Final = {
    Kind.SAMPLE: "sample",
    Kind.FLOW_RECORD: "flow record",
    Kind.COUNTER_RECORD: "counter record",
}


class TagTable:
    """Counts of unknown tags over any number of batches."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_TAGS)
        self._counts = np.zeros(MOST_TAGS + 1, np.int64)  # the last one is of those beyond

    def take(self, strange: Strange, exporter: I64, fresh: NDArray[np.bool_]) -> None:
        """Take in the tags of a batch.

        Parameters
        ----------
        strange
            By datagram and tag.
        exporter : int64, shape (datagrams,)
        fresh : bool, shape (datagrams,)
            Which datagrams count.
        """
        used = int(strange.used[0])
        if not used:
            return
        rows = np.flatnonzero(fresh[strange.datagram[:used]])
        number = self._keys.number(
            exporter[strange.datagram[rows]].astype(np.uint64),
            strange.kind[rows].astype(np.uint64),
            strange.tag[rows].astype(np.uint64),
        )
        np.add.at(self._counts, number, strange.times[rows])

    def tags(self) -> tuple[UnknownTag, ...]:
        """All that were seen, in the order of first appearance."""
        return tuple(
            UnknownTag(exporter, _KINDS[Kind(kind)], tag >> 12, tag & 0xFFF, count)
            for (exporter, kind, tag), count in zip(
                self._keys.keys.tolist(), self._counts.tolist(), strict=False
            )
        )
