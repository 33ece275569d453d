"""Sequence numbers without their wrap.

Two sampled packets of one connection tell how much was sent between them, as long as less than
one turn of the counter went by. This is what makes a sample worth more than "one of N".
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

# A quarter of the turn counts as "behind": clocks of two agents may differ by more than a
# retransmission reaches back, and a gap of three quarters of a turn is still read forward.
BEHIND_SHARE: Final = 0.25


@njit(cache=True)
def unwrap(
    connection: NDArray[np.int32], seq: NDArray[np.uint32], width: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Unwrapped positions of samples sorted by connection, then time.

    Parameters
    ----------
    connection : int32[n]
        Connection of each sample; equal ones stand together.
    seq : uint32[n]
        Sequence number as sampled.
    width : uint8[n]
        Bits of the counter: 24 for a RoCE PSN, 32 for TCP.

    Returns
    -------
    int64[n]
        Position in the counter's own unit (packets or bytes). The first sample of a connection
        keeps its raw value; a sample at most a quarter turn behind the one before it is read as
        behind (reordered or sent again), all else as ahead.
    """
    out = np.empty(len(seq), np.int64)
    for i in range(len(seq)):
        if i == 0 or connection[i] != connection[i - 1]:
            out[i] = seq[i]
            continue
        turn = np.int64(1) << np.int64(width[i])
        step = (np.int64(seq[i]) - out[i - 1]) % turn
        if step > turn - np.int64(turn * BEHIND_SHARE):
            step -= turn
        out[i] = out[i - 1] + step
    return out


@njit(cache=True)
def fell_behind(
    connection: NDArray[np.int32], position: NDArray[np.int64], window: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Samples whose position lies more than `window` behind the highest seen before.

    That is a retransmission where the samples come from one observation point.

    Parameters
    ----------
    connection, position : int32[n], int64[n]
        As given to and returned by `unwrap`.
    window : int64[n]
        Reordering that is still normal, in the unit of `position`.

    Returns
    -------
    bool[n]
    """
    out = np.zeros(len(position), np.bool_)
    top = np.int64(0)
    for i in range(len(position)):
        if i == 0 or connection[i] != connection[i - 1] or position[i] > top:
            top = position[i]
        elif position[i] < top - window[i]:
            out[i] = True
    return out
