"""Sockets on numeric addresses, with errors that name them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from collector.errors import ListenError

_NAMES: Final = {socket.SOCK_DGRAM: "udp", socket.SOCK_STREAM: "tcp"}


def bound(
    kind: socket.SocketKind,
    host: str,
    port: int,
    *,
    reuse_port: bool = False,
    prepare: Callable[[socket.socket], None] | None = None,
) -> socket.socket:
    """A socket bound to an address.

    Parameters
    ----------
    kind
        SOCK_DGRAM or SOCK_STREAM.
    host
        Numeric address. "::" takes IPv6 and IPv4 from everywhere, and IPv4 alone where the system
        has no IPv6.
    port
        0 lets the system choose one.
    reuse_port
        Share the port with other sockets that ask for it too (SO_REUSEPORT).
    prepare
        Sets what has to be set before it is bound.

    Raises
    ------
    ListenError
        The address is taken, is not ours, or is no address.
    """
    try:
        address = ip_address(host)
    except ValueError as error:
        raise ListenError(address_text(kind, host, port), "not a numeric address") from error
    family, at = (socket.AF_INET6 if address.version == 6 else socket.AF_INET), host
    if address.version == 6 and address.is_unspecified and not _has_ipv6():
        family, at = socket.AF_INET, "0.0.0.0"
    made: socket.socket | None = None
    try:
        made = socket.socket(family, kind)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if kind == socket.SOCK_STREAM:
            # Connections that were just closed keep the address for a minute.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if prepare is not None:
            prepare(made)
        made.bind((at, port))
    except (OSError, OverflowError) as error:
        if made is not None:
            made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ListenError(address_text(kind, host, port), reason) from error
    return made


def address_text(kind: socket.SocketKind, host: str, port: int) -> str:
    """An address as `ListenError` names it: "udp [::1]:6343"."""
    return f"{_NAMES[kind]} " + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _has_ipv6() -> bool:
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True
