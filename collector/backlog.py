"""What waits between the receiving thread and the decoder."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import fields
from typing import Final

import numpy as np

from collector.link import DatagramBatch

# What is taken at once: decoding costs the least per datagram in batches of some thousands.
_JOINED_BYTES: Final = 4 << 20
# How long less than that may gather: each batch costs an account of all exporters, so a quiet wire
# is read in batches of this length and not datagram by datagram.
_GATHER_S: Final = 0.05


class Backlog:
    """A queue of datagram batches that, when full, drops what is oldest. Safe between threads.

    Parameters
    ----------
    limit_bytes
        Memory the waiting batches may take. The newest batch is always kept.

    Attributes
    ----------
    dropped_datagrams
        Datagrams that were dropped here.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.dropped_datagrams = 0
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._batches: deque[DatagramBatch] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put(self, batch: DatagramBatch) -> None:
        """Add the newest batch."""
        with self._changed:
            self._batches.append(batch)
            self._bytes += _memory_bytes(batch)
            while self._bytes > self._limit_bytes and len(self._batches) > 1:
                self.dropped_datagrams += len(self._pop())
            if len(self._batches) == 1 or self._enough():  # not for each: waking costs
                self._changed.notify()

    def take(self, timeout_s: float | None = None) -> DatagramBatch | None:
        """Remove what waited longest: of many small batches, several joined.

        What comes within a moment of the first is waited for, unless it is much.

        Returns
        -------
        DatagramBatch or None
            None: nothing came in `timeout_s`, or the backlog is closed and empty.
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._batches or self._closed, timeout_s):
                self._changed.wait_for(self._enough, _GATHER_S)
            taken: list[DatagramBatch] = []
            size = 0
            while self._batches and size < _JOINED_BYTES:
                taken.append(self._pop())
                size += _memory_bytes(taken[-1])
        return _join(taken) if taken else None

    def close(self) -> None:
        """Nothing more will come; what is there can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def finished(self) -> bool:
        """Whether it is closed and everything has been taken."""
        with self._changed:
            return self._closed and not self._batches

    @property
    def has_room(self) -> bool:
        """Whether half of it is free."""
        with self._changed:
            return 2 * self._bytes <= self._limit_bytes

    def _enough(self) -> bool:
        return self._closed or self._bytes >= _JOINED_BYTES

    def _pop(self) -> DatagramBatch:
        batch = self._batches.popleft()
        self._bytes -= _memory_bytes(batch)
        return batch


def _memory_bytes(batch: DatagramBatch) -> int:
    return sum(getattr(batch, column.name).nbytes for column in fields(batch))


def _join(batches: list[DatagramBatch]) -> DatagramBatch:
    if len(batches) == 1:
        return batches[0]
    columns = {
        column.name: np.concatenate([getattr(batch, column.name) for batch in batches])
        for column in fields(DatagramBatch)
    }
    starts = np.cumsum([0, *(len(batch.buffer) for batch in batches[:-1])])
    columns["offset"] += np.repeat(starts, [len(batch) for batch in batches])
    return DatagramBatch(**columns)
