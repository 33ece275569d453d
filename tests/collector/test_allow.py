from __future__ import annotations

from ipaddress import ip_address, ip_network

import numpy as np
import pytest

from collector.allow import AllowList
from collector.link import DatagramBatch

SENDERS = ("10.0.0.1", "10.1.0.1", "192.0.2.7", "2001:db8::1", "2001:db8:1::1", "::a00:1")


def batch(*senders: str) -> DatagramBatch:
    """A datagram of each sender, holding the sender's number."""
    count = len(senders)
    whole = []
    for sender in senders:
        address = ip_address(sender)
        whole.append(int(address) | (0xFFFF << 32 if address.version == 4 else 0))
    return DatagramBatch(
        buffer=np.arange(count, dtype=np.uint8),
        offset=np.arange(count),
        length=np.ones(count, np.int64),
        arrival_ns=np.arange(count),
        src_hi=np.array([value >> 64 for value in whole], np.uint64),
        src_lo=np.array([value & (1 << 64) - 1 for value in whole], np.uint64),
        src_port=np.zeros(count, np.uint16),
        dst_port=np.zeros(count, np.uint16),
        file_offset=np.zeros(count, np.int64),
        defect=np.zeros(count, np.uint8),
    )


@pytest.mark.parametrize(
    ("networks", "heard"),
    [
        ([], SENDERS),
        (["10.0.0.0/16"], ("10.0.0.1",)),
        (["10.0.0.0/8", "2001:db8::/48"], ("10.0.0.1", "10.1.0.1", "2001:db8::1")),
        (["192.0.2.7/32"], ("192.0.2.7",)),
        (["0.0.0.0/0"], ("10.0.0.1", "10.1.0.1", "192.0.2.7")),
        (["::/0"], SENDERS),
        (["203.0.113.0/24"], ()),
    ],
)
def test_only_allowed_senders_are_heard(networks: list[str], heard: tuple[str, ...]) -> None:
    allow = AllowList([ip_network(network) for network in networks])
    passed = allow.passed(batch(*SENDERS))
    kept = [SENDERS[passed.buffer[at]] for at in passed.offset]
    assert tuple(kept) == heard
    assert allow.refused == len(SENDERS) - len(heard)
    allow.passed(batch(*SENDERS))
    assert allow.refused == 2 * (len(SENDERS) - len(heard))
