"""Bytes of each connection over the whole window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64
from reconstruct.bins import Progress, Verb

COUNT_SIGMAS: Final = 6.0  # of counting noise between the two ways to a volume
COUNT_LOSS: Final = 0.25  # share of the samples that may be lost: progress does not miss them


@dataclass(frozen=True, slots=True)
class Volumes:
    """One row per connection.

    Parameters
    ----------
    bytes : float64[c]
        Payload by sequence progress, first to last sample, with one mean gap added at each end.
    wire_bytes : float64[c]
        The same with headers, at the observed segment size, and frames that hold nothing else.
    bytes_by_count : float64[c]
        Frames times sampling rate: the cross-check.
    spanned : float64[c]
        Payload between the first sample and the last one; nan where the count stands in.
    samples, retransmitted : int64[c]
    """

    bytes: NDArray[np.float64]
    wire_bytes: NDArray[np.float64]
    bytes_by_count: NDArray[np.float64]
    spanned: NDArray[np.float64]
    samples: I64
    retransmitted: I64


def window_volumes(progress: Progress) -> Volumes:
    """Volume of every connection in the window.

    Notes
    -----
    n uniform samples of a stretch span (n - 1) / (n + 1) of it on average. With fewer than three,
    the count is the better estimate and stands in. Flow records count from the first byte on.
    """
    bins, connections = progress.bins, progress.connections
    count = len(connections)
    samples = np.bincount(bins.connection, bins.samples, count)
    scaled = np.bincount(bins.connection, bins.scaled_bytes, count).astype(np.float64)
    held, first = np.unique(bins.connection, return_index=True)  # they are sorted by it
    span = np.zeros(count)
    if len(held):
        low = np.minimum.reduceat(np.minimum(bins.first_seq, bins.last_seq), first)
        high = np.maximum.reduceat(np.maximum(bins.first_seq, bins.last_seq), first)
        span[held] = high - low
    recorded = connections.verbs & Verb.RECORDED != 0
    whole = np.where(recorded, 1, (samples + 1) / np.maximum(samples - 1, 1))
    payload_share = connections.mean_payload / np.maximum(connections.mean_frame, 1)
    told = recorded | (samples >= 3)
    full = np.minimum(connections.unit_bytes, np.maximum(connections.mean_payload, 1))
    unit = np.where((connections.unit_bytes > 1) & ~recorded, full, connections.unit_bytes)
    counted = scaled * payload_share
    followed = told & ~contradicts(span * whole * unit, counted, samples)
    volume = np.where(followed, span * whole * unit, counted)
    return Volumes(
        bytes=volume,
        wire_bytes=volume / np.maximum(payload_share, 1e-9) + connections.bare_bytes,
        bytes_by_count=scaled,
        spanned=np.where(followed, span * unit, np.nan),
        samples=samples.astype(np.int64),
        retransmitted=np.bincount(bins.connection, bins.retransmitted, count).astype(np.int64),
    )


def contradicts(
    volume: NDArray[np.float64], counted: NDArray[np.float64], samples: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Where a volume by progress and one by count differ by more than sampling noise explains.

    Progress fails where more than a turn of the counter lies between two samples, where a queue
    pair changed, and where a tool repeats one packet; a slope through two samples may be anything.
    A count of nothing, where samples carry no rate, contradicts nothing.
    """
    noise = np.maximum(COUNT_SIGMAS / np.sqrt(np.maximum(samples, 1)), COUNT_LOSS)
    far = np.abs(volume - counted) > noise * np.maximum(counted, 1)
    return np.asarray(np.isfinite(volume) & far & (counted > 0))
