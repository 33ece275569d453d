from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.addresses import distinct, from_text, to_text


def test_ipv4_stands_mapped_in_the_lower_half() -> None:
    assert from_text("10.1.2.3") == (0, 0x0000_FFFF_0A01_0203)
    assert to_text(0, 0x0000_FFFF_0A01_0203) == "10.1.2.3"
    assert from_text("::ffff:10.1.2.3") == from_text("10.1.2.3")
    assert to_text(0, 0) == "::"


@given(st.ip_addresses())
def test_text_and_back(address: IPv4Address | IPv6Address) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    assert to_text(*from_text(str(address))) == str(mapped or address)


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.256", "fe80::g", "10.0.0.1/24"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        from_text(text)


@given(st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "2001:db8::1", "::1", "10.0.0.10"])))
def test_distinct_rows_lead_back_to_their_text(texts: list[str]) -> None:
    pairs = np.array([from_text(text) for text in texts], np.uint64).reshape(-1, 2)
    names, index = distinct(pairs[:, 0], pairs[:, 1])
    assert [names[i] for i in index] == texts
    assert len(set(names)) == len(names)
