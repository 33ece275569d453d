"""Bytes of each connection over the whole window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.bins import I64, Progress


@dataclass(frozen=True, slots=True)
class Volumes:
    """One row per connection.

    Parameters
    ----------
    bytes : float64[c]
        Payload by sequence progress, first to last sample, with one mean gap added at each end.
    wire_bytes : float64[c]
        The same with headers, at the observed segment size.
    bytes_by_count : float64[c]
        Frames times sampling rate: the cross-check.
    samples, retransmitted : int64[c]
    """

    bytes: NDArray[np.float64]
    wire_bytes: NDArray[np.float64]
    bytes_by_count: NDArray[np.float64]
    samples: I64
    retransmitted: I64


def window_volumes(progress: Progress) -> Volumes:
    """Volume of every connection in the window.

    Notes
    -----
    n uniform samples of a stretch span (n - 1) / (n + 1) of it on average. With fewer than three,
    the count is the better estimate and stands in.
    """
    bins, connections = progress.bins, progress.connections
    count = len(connections)
    samples = np.bincount(bins.connection, bins.samples, count)
    scaled = np.bincount(bins.connection, bins.scaled_bytes, count)
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.full(count, np.iinfo(np.int64).min)
    for seq in (bins.first_seq, bins.last_seq):
        np.minimum.at(low, bins.connection, seq)
        np.maximum.at(high, bins.connection, seq)
    span = np.where(samples > 0, high - low, 0).astype(np.float64)
    span *= (samples + 1) / np.maximum(samples - 1, 1)
    payload_share = connections.mean_payload / np.maximum(connections.mean_frame, 1)
    told = samples >= 3
    full = np.minimum(connections.unit_bytes, np.maximum(connections.mean_payload, 1))
    unit = np.where(connections.unit_bytes > 1, full, 1)
    volume = np.where(told, span * unit, scaled * payload_share)
    return Volumes(
        bytes=volume,
        wire_bytes=volume / np.maximum(payload_share, 1e-9),
        bytes_by_count=scaled,
        samples=samples.astype(np.int64),
        retransmitted=np.bincount(bins.connection, bins.retransmitted, count).astype(np.int64),
    )
