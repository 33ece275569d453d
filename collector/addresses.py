"""Addresses as two uint64: IPv6 as it is, IPv4 mapped into it (RFC 4291, 2.5.5.2)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import U64

_MAPPED: Final = 0xFFFF
_LOW: Final = (1 << 64) - 1


def to_text(hi: int, lo: int) -> str:
    """An address as text: dotted for mapped IPv4, else RFC 5952.

    Parameters
    ----------
    hi, lo
        Upper and lower 64 bits.
    """
    hi, lo = int(hi), int(lo)
    if hi == 0 and lo >> 32 == _MAPPED:
        return str(IPv4Address(lo & 0xFFFF_FFFF))
    return str(IPv6Address(hi << 64 | lo))


def from_text(text: str) -> tuple[int, int]:
    """Upper and lower 64 bits of an address text; mapped IPv6 texts give the same as IPv4.

    Raises
    ------
    ValueError
        The text is no address.
    """
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return 0, _MAPPED << 32 | int(address)
    return int(address) >> 64, int(address) & _LOW


def distinct(hi: U64, lo: U64) -> tuple[list[str], NDArray[np.intp]]:
    """The distinct addresses of two columns, as texts, and which one each row holds.

    Parameters
    ----------
    hi, lo : uint64, shape (n,)

    Returns
    -------
    list of str
        In order of the address value.
    intp, shape (n,)
        Index into the list.
    """
    order = np.lexsort((lo, hi))
    changes = np.empty(len(order), np.bool_)
    if len(order):
        changes[0] = True
        changes[1:] = (np.diff(hi[order]) != 0) | (np.diff(lo[order]) != 0)
    first = order[changes]
    index = np.empty(len(order), np.intp)
    index[order] = np.cumsum(changes) - 1
    return [to_text(int(hi[row]), int(lo[row])) for row in first], index
