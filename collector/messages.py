"""Lengths of one network send that NCCL's buffers give, by what sends it.

They come from its source and logs (NCCL 2.30 src/device.h, src/enqueue.cc), not from a capture, so
a claim that rests on them alone is weak. A site whose settings give others (NCCL_BUFFSIZE,
NCCL_P2P_NET_CHUNKSIZE) says so in its inventory.
"""

from __future__ import annotations

from typing import Final

MESSAGE_CLASSES: Final[dict[str, int]] = {
    "ring_simple": 1_048_576,
    "ll128": 614_400,
    "tree_simple": 524_288,
    "p2p_128k": 131_072,
    "p2p_64k": 65_536,
    "p2p_32k": 32_768,
}
CLASS_NAMES: Final = tuple(MESSAGE_CLASSES)
MESSAGE_LENGTHS: Final = tuple(MESSAGE_CLASSES.values())
