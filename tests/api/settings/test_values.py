from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.settings import HostPort


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("[::]:6343", "::", 6343),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[2001:db8::1]:65535", "2001:db8::1", 65535),
        ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert HostPort.parse(text) == HostPort(host, port)
    assert str(HostPort(host, port)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "nowhere", "localhost:80", "::1:6343", "[::1]", ":6343", "127.0.0.1"),
        *("127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1:٣", "[127.0.0.1]:80"),
        *("1.2.3:80", "[::g]:80", " 127.0.0.1:80", "127.0.0.1:80\n", "[[::1]]:80"),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="not HOST:PORT, as "):
        HostPort.parse(text)


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1), st.integers(0, 65535))
def test_every_address_is_read_as_it_is_written(six: int, four: int, port: int) -> None:
    for address in (IPv6Address(six), IPv4Address(four)):
        read = HostPort.parse(str(HostPort(str(address), port)))
        assert (ip_address(read.host), read.port) == (address, port)
