"""A hash of bytes, for kernels: what tells a message that came twice from two messages."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.schema import U8

# Two odd constants with their bits well spread, and a third for the end of a message.
_FIRST: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_SECOND: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)
_PRIME: Final = np.uint64(0x0000_0100_0000_01B3)


@njit(cache=True, nogil=True)
def _word(buffer: U8, at: int) -> np.uint64:
    """Eight bytes, least first: compilers know this as one load where machines are little-endian.

    The index is unsigned, since for a signed one each load would ask whether to count from the end.
    """
    i = np.uintp(at)
    return (
        np.uint64(buffer[i])
        | (np.uint64(buffer[i + np.uintp(1)]) << np.uint64(8))
        | (np.uint64(buffer[i + np.uintp(2)]) << np.uint64(16))
        | (np.uint64(buffer[i + np.uintp(3)]) << np.uint64(24))
        | (np.uint64(buffer[i + np.uintp(4)]) << np.uint64(32))
        | (np.uint64(buffer[i + np.uintp(5)]) << np.uint64(40))
        | (np.uint64(buffer[i + np.uintp(6)]) << np.uint64(48))
        | (np.uint64(buffer[i + np.uintp(7)]) << np.uint64(56))
    )


@njit(cache=True, nogil=True)
def _mix(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = (lane ^ word) * _FIRST
    return (lane << np.uint64(31)) | (lane >> np.uint64(33))


@njit(cache=True, nogil=True)
def digest(buffer: U8, start: int, end: int) -> np.uint64:
    """A 64-bit hash of the bytes from `start` to `end`, against accident and not against malice.

    Four lanes that do not wait for each other: one lane alone would take longer than all decoding.
    """
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    at = start
    while end - at >= 32:
        a = _mix(a, _word(buffer, at))
        b = _mix(b, _word(buffer, at + 8))
        c = _mix(c, _word(buffer, at + 16))
        d = _mix(d, _word(buffer, at + 24))
        at += 32
    value = ((a * _SECOND + b) * _SECOND + c) * _SECOND + d
    while at < end:
        value = (value ^ np.uint64(buffer[at])) * _PRIME
        value ^= value >> np.uint64(29)
        at += 1
    return value ^ np.uint64(end - start)
