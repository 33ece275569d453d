"""Telemetry over TCP: IPFIX from exporters that connect to us.

Source: RFC 7011, 10.4 (IPFIX over TCP).
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from collector.addresses import from_text
from collector.binding import address_text, bound
from collector.errors import ListenError
from collector.framing import Splitter
from collector.link import DatagramBatch

MOST_CONNECTIONS: Final = 256  # beyond this, the one that said nothing for longest is closed
MOST_OF_ONE: Final = 16  # of one address; the same
_WAITING: Final = 64  # to be accepted
_BREATH_S: Final = 0.01
_PIECE_BYTES: Final = 1 << 17  # read at a time


@dataclass(slots=True)
class _Connection:
    """An exporter's connection, and what of it is no whole message yet."""

    socket: socket.socket
    src: tuple[int, int]
    number: int  # among those of this address
    splitter: Splitter
    heard_s: float


class TcpReceiver:
    """Accepts connections and cuts them into messages, in a thread of its own. Starts once.

    Parameters
    ----------
    listening
        A socket that `listen` made.
    put
        Takes batches of messages, each as if it had come in a datagram. As its sender's port stands
        the number of the connection among those of its address: so an exporter that connects anew
        goes on where it was, and sessions are as few as connections.
    allowed
        Whether an address, in halves, may send.
    has_room
        Whether more can wait: where not, nothing is read, and senders wait.

    Attributes
    ----------
    messages, message_bytes
        That came.
    refused
        Connections of those who may not send.
    broken
        Connections that were closed because their bytes were no IPFIX messages: where the next one
        begins cannot be known then, and the exporter connects anew. What was whole in the same
        piece is handed on.
    """

    def __init__(
        self,
        listening: socket.socket,
        put: Callable[[DatagramBatch], None],
        allowed: Callable[[int, int], bool],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self.messages = 0
        self.message_bytes = 0
        self.refused = 0
        self.broken = 0
        self._listening = listening
        self._put = put
        self._allowed = allowed
        self._has_room = has_room
        self._connections: dict[int, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        self._port = int(listening.getsockname()[1])
        self._wake = os.eventfd(0)
        self._thread = threading.Thread(target=self._run, name=f"tcp-{self._port}", daemon=True)

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._port

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def start(self) -> None:
        """Begin to accept and to receive."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections. Idempotent."""
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1
        self._listening.close()

    def _run(self) -> None:
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        while True:
            if not self._has_room():
                time.sleep(_BREATH_S)
            ready = {key.fd for key, _ in self._selector.select()}
            if self._wake in ready:
                break
            if self._listening.fileno() in ready:
                self._accept()
            for fd in ready & self._connections.keys() if self._has_room() else ():
                self._read(self._connections[fd])
        for connection in list(self._connections.values()):
            self._close(connection)
        self._selector.close()

    def _accept(self) -> None:
        try:
            made, address = self._listening.accept()
        except OSError:  # it is gone again, or no descriptors are left: then it goes on waiting
            time.sleep(_BREATH_S)
            return
        src = from_text(address[0].partition("%")[0])
        if not self._allowed(*src):
            self.refused += 1
            made.close()
            return
        every = list(self._connections.values())
        of_one = [each for each in every if each.src == src]
        if len(of_one) >= MOST_OF_ONE:
            self._close(min(of_one, key=lambda each: each.heard_s))
        elif len(every) >= MOST_CONNECTIONS:
            self._close(min(every, key=lambda each: each.heard_s))
        held = {each.number for each in self._connections.values() if each.src == src}
        number = next(n for n in range(MOST_OF_ONE) if n not in held)
        made.setblocking(False)
        try:
            self._selector.register(made, selectors.EVENT_READ)
        except OSError:
            made.close()
            return
        connection = _Connection(made, src, number, Splitter(), time.monotonic())
        self._connections[made.fileno()] = connection

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(_PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        connection.heard_s = time.monotonic()
        messages = connection.splitter.feed(data)
        if messages:
            self._hand(connection, messages)
        if connection.splitter.skips:
            self.broken += 1
            self._close(connection)

    def _hand(self, connection: _Connection, messages: list[bytes]) -> None:
        rows = len(messages)
        length = np.array([len(message) for message in messages], np.int64)
        self.messages += rows
        self.message_bytes += int(length.sum())
        hi, lo = connection.src
        offset = np.cumsum(length) - length
        self._put(
            DatagramBatch(
                buffer=np.frombuffer(bytearray(b"".join(messages)), np.uint8),
                offset=offset,
                length=length,
                arrival_ns=np.full(rows, time.time_ns(), np.int64),
                src_hi=np.full(rows, hi, np.uint64),
                src_lo=np.full(rows, lo, np.uint64),
                src_port=np.full(rows, connection.number, np.uint16),
                dst_port=np.full(rows, self._port, np.uint16),
                file_offset=np.zeros(rows, np.int64),
                defect=np.zeros(rows, np.uint8),
            )
        )

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        self._selector.unregister(connection.socket)
        connection.socket.close()


def listen(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A socket to which exporters can connect from now on.

    Parameters
    ----------
    host, port, reuse_port
        See `collector.binding.bound`.

    Raises
    ------
    ListenError
        The address is taken, is not ours, or is no address.
    """
    made = bound(socket.SOCK_STREAM, host, port, reuse_port=reuse_port)
    try:
        made.listen(_WAITING)
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise ListenError(address_text(socket.SOCK_STREAM, host, port), reason) from error
    made.setblocking(False)
    return made
