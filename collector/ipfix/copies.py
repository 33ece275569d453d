"""Messages that came twice: networks, and mirrored ports, deliver copies."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.digest import digest
from collector.link import DatagramBatch
from collector.schema import I64, U8, U64

_REMEMBERED: Final = 64  # of a stream: further apart no network delivers two copies
# A copy comes at once. An exporter that says the same a while later, its number too, says it again.
_SOON_NS: Final = 1_000_000_000


class _Ring(NamedTuple):
    """The newest messages, by stream."""

    digest: U64  # shape (streams, _REMEMBERED)
    arrival_ns: I64  # likewise; 0 = none
    next: I64


@njit(cache=True, nogil=True)
def _find(
    buffer: U8, offset: I64, length: I64, arrival_ns: I64, stream: I64, ring: _Ring, out: U8
) -> None:
    for row in range(len(stream)):
        s = stream[row]
        now = arrival_ns[row]
        if s < 0 or now == 0:
            continue
        start = int(offset[row])
        found = digest(buffer, start, start + int(length[row]))
        for place in range(_REMEMBERED):
            then = ring.arrival_ns[s, place]
            if then != 0 and ring.digest[s, place] == found and abs(now - then) <= _SOON_NS:
                out[row] = 1
                break
        if not out[row]:
            place = ring.next[s]
            ring.digest[s, place] = found
            ring.arrival_ns[s, place] = now
            ring.next[s] = (place + 1) % _REMEMBERED


class Copies:
    """Follows any number of streams over any number of batches."""

    def __init__(self) -> None:
        self._ring = _rows(0)

    def find(self, batch: DatagramBatch, stream: I64, streams: int) -> NDArray[np.bool_]:
        """Which messages are copies of one that came within a second before.

        Parameters
        ----------
        batch
            n messages; of one whose arrival is not known nothing is said.
        stream : int64, shape (n,)
            -1 = of none.
        streams
            How many there are by now.
        """
        missing = streams - len(self._ring.next)
        if missing > 0:
            self._ring = joined((self._ring, _rows(max(missing, len(self._ring.next)))))
        out = np.zeros(len(stream), np.uint8)
        columns = batch.buffer, batch.offset, batch.length, batch.arrival_ns
        _find(*columns, stream, self._ring, out)
        return out.astype(np.bool_)


def _rows(count: int) -> _Ring:
    return _Ring(
        np.zeros((count, _REMEMBERED), np.uint64),
        np.zeros((count, _REMEMBERED), np.int64),
        np.zeros(count, np.int64),
    )
