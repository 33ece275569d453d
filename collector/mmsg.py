"""recvmmsg and sendmmsg: many datagrams in one system call. 64-bit Linux only.

Source: recvmmsg(2), sendmmsg(2), cmsg(3), socket(7), and the layouts of bits/socket.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.errors import UnsupportedSystem
from collector.link import DatagramBatch, Defect
from collector.schema import I32, I64, U8, U16, U64
from collector.wire import mapped, u16, u64

# From asm-generic/socket.h; Python names them from 3.14 on or not at all.
SO_TIMESTAMPNS: Final = 35
SO_RXQ_OVFL: Final = 40
MOST_DATAGRAMS: Final = 256  # beyond this a longer batch saves nothing more
_SLOT_BYTES: Final = 1 << 16  # no UDP payload is longer, so none is cut; touched only if used
_NAME_BYTES: Final = 28  # struct sockaddr_in6
_CONTROL_BYTES: Final = 64  # a timestamp takes 32, the count of drops 24
_SOL_SOCKET: Final = int(socket.SOL_SOCKET)
_AF_INET: Final = int(socket.AF_INET)
_AF_INET6: Final = int(socket.AF_INET6)

_IOVEC: Final = np.dtype([("base", "u8"), ("bytes", "u8")])
# struct mmsghdr: a struct msghdr, and what came of it.
_MMSGHDR: Final = np.dtype(
    {
        "names": ["name", "name_bytes", "iovec", "iovecs", "control", "control_bytes", "bytes"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 56],
        "itemsize": 64,
    }
)


def _system_call(name: str, *more: type[ctypes.c_void_p]) -> Callable[..., int]:
    """A C function of (socket, headers, count, flags, ...) that fails with OSError.

    It lets other threads run while it waits, and begins again after a signal.
    """
    found = None
    if sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8:
        found = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if found is None:
        raise UnsupportedSystem(f"this system has no {name}; 64-bit Linux has")
    found.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *more]
    found.restype = ctypes.c_int

    def call(*arguments: int | None) -> int:
        while (count := int(found(*arguments))) < 0:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        return count

    return call


class _Said(NamedTuple):
    """What the kernel says of each datagram; columns of shape (n,)."""

    arrival_ns: I64
    src_hi: U64
    src_lo: U64
    src_port: U16
    drops: I64  # of the socket up to this datagram, modulo 2**32; -1 = not said


@njit(cache=True)
def _gather(slots: U8, offset: I64, length: I64, buffer: U8) -> None:
    """Move the payloads behind one another."""
    for row in range(len(offset)):
        start = offset[row]
        buffer[start : start + length[row]] = slots[row, : length[row]]


@njit(cache=True)
def _read_names(family: U16, names: U8, out: _Said) -> None:
    """Senders, from struct sockaddr_in or sockaddr_in6."""
    for row in range(len(out.src_port)):
        name = names[row]
        out.src_port[row] = u16(name, 2)
        if family[row] == _AF_INET:
            out.src_lo[row] = mapped(name, 4)
        elif family[row] == _AF_INET6:
            out.src_hi[row] = u64(name, 8)
            out.src_lo[row] = u64(name, 16)


@njit(cache=True)
def _read_controls(words: I64, halves: I32, used: U64, out: _Said) -> None:
    """Control messages: the same bytes as 64-bit and as 32-bit words of this machine."""
    for row in range(len(out.drops)):
        at = 0
        end = np.int64(used[row])
        while end - at >= 16:
            size = words[row, at // 8]
            if size < 16 or size > end - at:
                break
            level = halves[row, at // 4 + 2]
            kind = halves[row, at // 4 + 3]
            if level == _SOL_SOCKET and kind == SO_TIMESTAMPNS and size >= 32:
                seconds = words[row, at // 8 + 2]
                out.arrival_ns[row] = seconds * 1_000_000_000 + words[row, at // 8 + 3]
            elif level == _SOL_SOCKET and kind == SO_RXQ_OVFL and size >= 20:
                out.drops[row] = np.int64(halves[row, at // 4 + 4]) & 0xFFFF_FFFF
            at += (size + 7) & ~7


class MessageReader:
    """Reads what a UDP socket holds, up to `MOST_DATAGRAMS` at once, into buffers made once.

    Parameters
    ----------
    connection
        A bound socket of either family; it gets kernel timestamps and counts of drops switched on.

    Attributes
    ----------
    drops
        Datagrams that the kernel dropped before the last one read, because its buffer was full.

    Raises
    ------
    UnsupportedSystem
        The system has no recvmmsg.
    OSError
        The socket cannot give timestamps.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._call = _system_call("recvmmsg", ctypes.c_void_p)
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        connection.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        self._socket = connection
        self._port = connection.getsockname()[1]
        self._slots = np.empty((MOST_DATAGRAMS, _SLOT_BYTES), np.uint8)
        self._names = np.zeros((MOST_DATAGRAMS, _NAME_BYTES), np.uint8)
        self._controls = np.zeros((MOST_DATAGRAMS, _CONTROL_BYTES // 8), np.int64)
        self._iovecs = np.zeros(MOST_DATAGRAMS, _IOVEC)
        self._iovecs["base"] = _addresses(self._slots)
        self._iovecs["bytes"] = _SLOT_BYTES
        self._headers = np.zeros(MOST_DATAGRAMS, _MMSGHDR)
        self._headers["name"] = _addresses(self._names)
        self._headers["iovec"] = _addresses(self._iovecs)
        self._headers["iovecs"] = 1
        self._headers["control"] = _addresses(self._controls)
        self._last_drops = 0
        self.drops = 0

    def read(self) -> DatagramBatch | None:
        """Take what is there now, without waiting.

        Returns
        -------
        DatagramBatch or None
            In the order of arrival; `arrival_ns` is when the kernel took the datagram in, and file
            offsets count from the start of each datagram. None: nothing is there.

        Raises
        ------
        OSError
            The socket failed.
        """
        headers = self._headers
        headers["name_bytes"] = _NAME_BYTES
        headers["control_bytes"] = _CONTROL_BYTES
        try:
            rows = self._call(
                self._socket.fileno(),
                headers.ctypes.data,
                MOST_DATAGRAMS,
                socket.MSG_DONTWAIT,
                None,
            )
        except BlockingIOError:
            return None
        said = _Said(
            arrival_ns=np.zeros(rows, np.int64),
            src_hi=np.zeros(rows, np.uint64),
            src_lo=np.zeros(rows, np.uint64),
            src_port=np.zeros(rows, np.uint16),
            drops=np.full(rows, -1, np.int64),
        )
        _read_names(self._names.view(np.uint16)[:, 0], self._names, said)
        _read_controls(
            self._controls, self._controls.view(np.int32), headers["control_bytes"], said
        )
        self._follow(said.drops)
        length = headers["bytes"][:rows].astype(np.int64)
        offset = np.cumsum(length) - length
        buffer = np.empty(int(length.sum()), np.uint8)
        _gather(self._slots, offset, length, buffer)
        return DatagramBatch(
            buffer=buffer,
            offset=offset,
            length=length,
            arrival_ns=said.arrival_ns,
            src_hi=said.src_hi,
            src_lo=said.src_lo,
            src_port=said.src_port,
            dst_port=np.full(rows, self._port, np.uint16),
            file_offset=np.zeros(rows, np.int64),
            defect=np.full(rows, Defect.NONE, np.uint8),
        )

    def _follow(self, drops: I64) -> None:
        """Carry the kernel's count of drops, which wraps at 32 bits, on."""
        counted = drops[drops >= 0]
        if len(counted):
            self.drops += (int(counted[-1]) - self._last_drops) & 0xFFFF_FFFF
            self._last_drops = int(counted[-1])


class MessageWriter:
    """Sends datagrams, up to `MOST_DATAGRAMS` at once.

    Parameters
    ----------
    connection
        A connected UDP socket.

    Raises
    ------
    UnsupportedSystem
        The system has no sendmmsg.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._call = _system_call("sendmmsg")
        self._socket = connection
        self._iovecs = np.zeros(MOST_DATAGRAMS, _IOVEC)
        self._headers = np.zeros(MOST_DATAGRAMS, _MMSGHDR)
        self._headers["iovec"] = _addresses(self._iovecs)
        self._headers["iovecs"] = 1

    def write(self, buffer: U8, offset: I64, length: I64) -> int:
        """Send the first of some datagrams.

        Parameters
        ----------
        buffer : uint8, shape (m,), contiguous
        offset, length : int64, shape (n,)
            Where each payload lies in `buffer`; n at least 1.

        Returns
        -------
        int
            How many were sent, at least 1; the rest is for the next call.

        Raises
        ------
        OSError
            None was sent.
        """
        rows = min(len(offset), MOST_DATAGRAMS)
        self._iovecs["base"][:rows] = buffer.ctypes.data + offset[:rows]
        self._iovecs["bytes"][:rows] = length[:rows]
        return self._call(self._socket.fileno(), self._headers.ctypes.data, rows, 0)


def _addresses(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Where each row of an array lies in memory."""
    return rows.ctypes.data + np.arange(len(rows), dtype=np.uint64) * np.uint64(rows.strides[0])
