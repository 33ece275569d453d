"""Captured datagrams on their way out again: when each is due, and with which timestamps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from collector import sflow
from collector.capture import Progress, read_captures
from collector.errors import ReplayRefused
from collector.ipfix.messages import of_records
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import I64, U8, DecodeError
from collector.sflow import Sampled

# Small, so that the first datagram leaves soon and progress is told often.
_BLOCK_BYTES: Final = 1 << 16
_MOST_SPEED: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class Departures:
    """Datagrams to be sent in this order; columns of shape (n,).

    Attributes
    ----------
    buffer : uint8, shape (m,)
    offset, length : int64
        Where each payload lies in `buffer`.
    due_ns : int64
        When it is to leave, ns since the epoch; never falls.
    """

    buffer: U8
    offset: I64
    length: I64
    due_ns: I64


class Replay:
    """The sFlow datagrams of captures, to be sent as they came.

    All times move by one constant, so that the first datagram is due when the replay begins. The
    exporter's identity stands in the payload and stays; of a payload, record 0:1043 alone changes.

    Parameters
    ----------
    captures
        pcap or pcapng files, plain or gzip; sent one after another, in the order `ingest` reads
        them. Where two overlap in time, the later one's first datagrams are due at once.
    speed
        How much faster than they came. Timestamps (0:1043) are drawn together around the first one.
    keep_time
        Leave 0:1043 where it is, but for `speed`.

    Attributes
    ----------
    errors
        What could not be read, complete when `departures` has ended.

    Raises
    ------
    ReplayRefused
        `speed` is out of range, or is not 1 while a flow sample carries no timestamp: samples
        without one are placed by the second an exporter takes at most to flush, and no speed
        changes that second.
    NothingReadError
        None of the files could be read as a capture.
    """

    def __init__(self, captures: Sequence[Path], speed: float, *, keep_time: bool) -> None:
        if not (math.isfinite(speed) and 1 / _MOST_SPEED <= speed <= _MOST_SPEED):
            raise ReplayRefused(f"speed {speed:g}: not from 0.001 to 1000")
        self.errors: list[DecodeError] = []
        self._captures = captures
        self._speed = speed
        self._keep_time = keep_time
        self._centre_ns = self._first_stamp_ns() if speed != 1 else 0

    def departures(
        self, now_ns: Callable[[], int], on_progress: Progress | None = None
    ) -> Iterator[Departures]:
        """All datagrams, as they are read.

        Parameters
        ----------
        now_ns
            Asked once, when the first datagrams have been read: the time it gives is the start.
        on_progress
            Called now and then with the bytes read so far and the bytes of all files.

        Raises
        ------
        ReplayRefused
            The capture does not say when its datagrams came.
        NothingReadError
            None of the files could be read as a capture.
        """
        first_ns: int | None = None
        shift_ns = 0
        for read, faults in read_captures(self._captures, self.errors, on_progress, _BLOCK_BYTES):
            batch = _samples(read, faults)
            if not len(batch):
                continue
            sampled = sflow.decode(batch).sampled
            if first_ns is None:
                first_ns = int(batch.arrival_ns[0])
                if first_ns == 0:
                    raise ReplayRefused("the capture does not say when its datagrams came")
                shift_ns = now_ns() - first_ns
            since_ns = np.where(batch.arrival_ns == 0, 0, batch.arrival_ns - first_ns)
            yield Departures(
                buffer=self._restamped(batch.buffer, sampled, 0 if self._keep_time else shift_ns),
                offset=batch.offset,
                length=batch.length,
                due_ns=np.maximum.accumulate(first_ns + shift_ns + self._scaled(since_ns)),
            )

    def _scaled(self, span_ns: I64) -> I64:
        return span_ns if self._speed == 1 else np.rint(span_ns / self._speed).astype(np.int64)

    def _restamped(self, buffer: U8, sampled: Sampled, shift_ns: int) -> U8:
        """The buffer with every timestamp moved; a copy where anything changes."""
        stamped = sampled.stamp_ns > 0
        if not stamped.any() or (shift_ns == 0 and self._speed == 1):
            return buffer
        at = sampled.stamp_at[stamped]
        # As int64, wrapping: a nonsense stamp stays one, by the same distance.
        since_ns = sampled.stamp_ns[stamped].astype(np.int64) - self._centre_ns
        moved_ns = self._scaled(since_ns) + (self._centre_ns + shift_ns)
        copy = buffer.copy()
        places = at[:, np.newaxis] + np.arange(8)
        copy[places] = moved_ns.astype(">i8").view(np.uint8).reshape(-1, 8)
        return copy

    def _first_stamp_ns(self) -> int:
        """Read the captures once to see that every flow sample carries a timestamp."""
        pipe = next((path for path in self._captures if not os.path.isfile(path)), None)
        if pipe is not None and pipe.exists():
            raise ReplayRefused(f"{pipe}: no file; with a speed other than 1 it is read twice")
        first_ns, flows, bare = 0, 0, 0
        for batch, _ in read_captures(self._captures, []):
            stamp_ns = sflow.decode(batch).sampled.stamp_ns
            stamped = stamp_ns[stamp_ns > 0]
            if not first_ns and len(stamped):
                first_ns = int(stamped[:1].astype(np.int64)[0])
            flows += len(stamp_ns)
            bare += len(stamp_ns) - len(stamped)
        if bare or not flows:
            raise ReplayRefused(
                f"{bare} of {flows} flow samples carry no exporter timestamp (record 0:1043):"
                " their times are known only to the second, and a speed other than 1 falsifies that"
            )
        return first_ns


def _samples(batch: DatagramBatch, faults: Faults) -> DatagramBatch:
    """Without flow records, whose times are in too many places to move them."""
    records = of_records(batch)
    if not records.any():
        return batch
    faults.note("flow records are not sent again", None, int(records.sum()))
    return batch.take(~records)
