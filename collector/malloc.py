"""What the C library does with freed memory, in a process that takes in batch after batch."""

from __future__ import annotations

import ctypes
from typing import Final

# mallopt(3), and malloc.h of the GNU C library.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_BYTES: Final = 1 << 25  # the most that it accepts
_KEPT_BYTES: Final = 1 << 28


def keep_freed() -> bool:
    """Let the process keep up to 256 MiB that it freed, and not only small pieces.

    Unasked, the C library gives the columns of a batch back as soon as they are freed. The next
    batch then takes a fault for each page, which costs as much time as decoding it.

    Returns
    -------
    bool
        Whether the C library knows of this; another one works as it did.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    return bool(kept)
