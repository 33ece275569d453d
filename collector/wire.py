"""Reading integers out of a byte buffer, for use inside compiled kernels.

None of these checks bounds: the caller has compared `at` with the end of what it may read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from collector.schema import U8


@njit(cache=True)
def u8(buffer: U8, at: int) -> int:
    """The byte at `at`, as int64 (never as uint64, which would turn sums into floats).

    An unsigned index cannot count from the end: bytes side by side are then loaded as one word.
    """
    return int(np.int64(buffer[np.uintp(at)]))


@njit(cache=True)
def u16(buffer: U8, at: int) -> int:
    """Big-endian unsigned 16 bits at `at`, as int64."""
    return (u8(buffer, at) << 8) | u8(buffer, at + 1)


@njit(cache=True)
def u24(buffer: U8, at: int) -> int:
    """Big-endian unsigned 24 bits at `at`, as int64."""
    return (u8(buffer, at) << 16) | u16(buffer, at + 1)


@njit(cache=True)
def u32(buffer: U8, at: int) -> int:
    """Big-endian unsigned 32 bits at `at`, as int64."""
    return (u16(buffer, at) << 16) | u16(buffer, at + 2)


@njit(cache=True)
def u32_little(buffer: U8, at: int) -> int:
    """Little-endian unsigned 32 bits at `at`, as int64."""
    low = u8(buffer, at) | (u8(buffer, at + 1) << 8)
    return low | (u8(buffer, at + 2) << 16) | (u8(buffer, at + 3) << 24)


@njit(cache=True)
def u64(buffer: U8, at: int) -> np.uint64:
    """Big-endian unsigned 64 bits at `at`."""
    return (np.uint64(u32(buffer, at)) << np.uint64(32)) | np.uint64(u32(buffer, at + 4))


@njit(cache=True)
def mapped(buffer: U8, at: int) -> np.uint64:
    """The lower half of the IPv4-mapped address (RFC 4291, 2.5.5.2) of the 4 bytes at `at`."""
    return np.uint64(0x0000_FFFF_0000_0000) | np.uint64(u32(buffer, at))
