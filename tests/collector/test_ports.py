from __future__ import annotations

from collector.polled import PortBatch
from collector.ports import PortNames


def ports(*rows: tuple[int, int, bytes]) -> PortBatch:
    batch = PortBatch.empty(len(rows))
    batch.exporter[:] = [row[0] for row in rows]
    batch.ifindex[:] = [row[1] for row in rows]
    batch.name[:] = [row[2] for row in rows]
    return batch


def test_a_name_that_gets_another_index_has_moved() -> None:
    names = PortNames()
    assert names.take(ports((0, 44, b"Ethernet0"), (0, 48, b"Ethernet4"))).tolist() == [-1, -1]
    # Another exporter may use the same names, and a port without a name is nobody.
    assert names.take(ports((1, 7, b"Ethernet0"), (0, 99, b""), (0, 98, b""))).tolist() == [-1] * 3
    moved = names.take(ports((0, 259, b"Ethernet0"), (0, 48, b"Ethernet4"), (0, 44, b"Ethernet8")))
    assert moved.tolist() == [44, -1, -1]
    assert names.take(ports((0, 259, b"Ethernet0"))).tolist() == [-1]


def test_within_one_batch_and_by_the_whole_name() -> None:
    names = PortNames()
    long = b"a" * 63
    moved = names.take(ports((0, 1, long + b"x"), (0, 2, long + b"y"), (0, 3, long + b"x")))
    assert moved.tolist() == [-1, -1, 1]
