"""Twenty thousand random datagrams, as the twin reads them and as sFlow's own lengths have it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests import naive
from tests.collector import encode as e
from tests.collector import strategies
from tests.collector.twins import compiled

# Parts, so that every core has some.
PARTS = range(10)
CASES = 2000


def assert_read_as_the_twin_reads(data: bytes, fill: int) -> None:
    assert compiled([data], fill) == [naive.decode(data)]


@pytest.mark.parametrize("part", PARTS[:5])
@settings(max_examples=CASES)
@given(data=strategies.datagrams())
def test_datagrams(part: int, data: bytes) -> None:
    assert_read_as_the_twin_reads(data, 0xFF * (part % 2))


@pytest.mark.parametrize("part", PARTS[5:])
@settings(max_examples=CASES)
@given(header=strategies.headers())
def test_headers(part: int, header: bytes) -> None:
    assert_read_as_the_twin_reads(e.datagram(e.flow_sample(header)), 0xFF * (part % 2))
