"""What must hold for any bytes that come as a datagram.

With numba's compilation off, kernels are plain Python: a fuzzer sees their branches, and an index
beyond the end of an array raises.
"""

from __future__ import annotations

import numpy as np

from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from tests import naive
from tests.collector import encode as e
from tests.collector.twins import compiled


def alone(data: bytes) -> DatagramBatch:
    """One datagram in a buffer that ends where it ends."""
    zero = np.zeros(1, np.int64)
    return DatagramBatch(
        buffer=np.frombuffer(data, np.uint8),
        offset=zero,
        length=np.array([len(data)]),
        arrival_ns=np.array([e.EPOCH_NS]),
        src_hi=np.zeros(1, np.uint64),
        src_lo=np.array([0xFFFF_C000_0201], np.uint64),
        src_port=np.zeros(1, np.uint16),
        dst_port=np.array([6343], np.uint16),
        file_offset=zero,
        defect=np.zeros(1, np.uint8),
    )


def check(data: bytes) -> None:
    """Nothing is read beyond the end, and the kernels read what their twin reads."""
    with np.errstate(over="ignore"):  # hashes of plain NumPy numbers wrap
        Ingest().add(alone(data), Faults())
        assert compiled([data]) == [naive.decode(data)]
