"""Which of several sockets on one port gets a datagram.

Templates, and the rates of samplers, come in other datagrams than the records they are about, and
not always from the same UDP port. So all that one address sends as records goes to one socket. For
sFlow, whose datagrams stand alone, the kernel's own choice by address and port spreads better.

Source: socket(7), SO_ATTACH_REUSEPORT_CBPF; Linux, Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from collector.ipfix.messages import IPFIX, NETFLOW_5, NETFLOW_9

_SO_ATTACH_REUSEPORT_CBPF: Final = 51
_NETWORK: Final = 0xFFF0_0000  # SKF_NET_OFF: from here on, offsets count from the IP header
_NONE: Final = 0xFFFF_FFFF  # no socket: the kernel chooses
_SPREAD: Final = 0x9E37_79B1  # odd, its bits well spread: addresses of one site differ little

# Operations of classic BPF (bpf_common.h).
_LOAD_WORD: Final = 0x20
_LOAD_HALF: Final = 0x28
_LOAD_BYTE: Final = 0x30
_AND: Final = 0x54
_MULTIPLY: Final = 0x24
_SHIFT_RIGHT: Final = 0x74
_MODULO: Final = 0x94
_XOR_X: Final = 0xAC
_TO_X: Final = 0x07
_JUMP_EQUAL: Final = 0x15
_JUMP: Final = 0x05
_RETURN: Final = 0x06
_RETURN_A: Final = 0x16


class _Step(NamedTuple):
    """One instruction: operation, steps to skip if true and if not, operand."""

    code: int
    if_true: int
    if_false: int
    operand: int


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filters", ctypes.POINTER(_Filter)))


def steer(sockets: Sequence[socket.socket]) -> bool:
    """Let all records of one sender reach one of some UDP sockets.

    Parameters
    ----------
    sockets
        All that share a port by SO_REUSEPORT, in the order in which they were bound.

    Returns
    -------
    bool
        Whether the system can do it; if not, it goes by address and port of each sender.
    """
    steps = _steps(len(sockets))
    filters = (_Filter * len(steps))(*(_Filter(*step) for step in steps))
    program = _Program(len(steps), filters)
    try:
        sockets[0].setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, bytes(program))
    except OSError as error:
        if error.errno in (errno.ENOPROTOOPT, errno.EINVAL, errno.EPERM):
            return False
        raise
    return True


def _steps(sockets: int) -> list[_Step]:
    """The program: it sees the UDP payload, and answers with the number of a socket."""
    ipv6 = [_Step(_LOAD_WORD, 0, 0, _NETWORK + 8)]
    for word in (12, 16, 20):
        ipv6 += [_Step(_TO_X, 0, 0, 0), _Step(_LOAD_WORD, 0, 0, _NETWORK + word)]
        ipv6.append(_Step(_XOR_X, 0, 0, 0))
    return [
        _Step(_LOAD_HALF, 0, 0, 0),
        _Step(_JUMP_EQUAL, 3, 0, IPFIX),
        _Step(_JUMP_EQUAL, 2, 0, NETFLOW_9),
        _Step(_JUMP_EQUAL, 1, 0, NETFLOW_5),
        _Step(_RETURN, 0, 0, _NONE),
        _Step(_LOAD_BYTE, 0, 0, _NETWORK),
        _Step(_AND, 0, 0, 0xF0),
        _Step(_JUMP_EQUAL, 2, 0, 0x60),
        _Step(_LOAD_WORD, 0, 0, _NETWORK + 12),
        _Step(_JUMP, 0, 0, len(ipv6)),
        *ipv6,
        _Step(_MULTIPLY, 0, 0, _SPREAD),
        _Step(_SHIFT_RIGHT, 0, 0, 16),
        _Step(_MODULO, 0, 0, sockets),
        _Step(_RETURN_A, 0, 0, 0),
    ]
