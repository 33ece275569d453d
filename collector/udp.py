"""Telemetry datagrams from the wire: a UDP listener with kernel timestamps."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collector.backlog import Backlog
from collector.binding import address_text, bound
from collector.errors import ListenError
from collector.link import SFLOW_PORT, DatagramBatch
from collector.mmsg import MOST_DATAGRAMS, MessageReader

# A second of 800 NICs sampled at 300 a second is some 55 MB; the system may grant less.
RECEIVE_BUFFER_BYTES: Final = 64 << 20
BACKLOG_BYTES: Final = 256 << 20
_LEAST_KERNEL_BYTES: Final = 512  # of the socket's buffer, even for an empty datagram
# Where little waits, more is let gather before the next reading: waking costs more than reading.
# Never so long that the buffer could fill at a rate like this.
_MOST_PAUSE_S: Final = 0.005
_FAST_BYTES_PER_S: Final = 400_000_000
_SO_RCVBUFFORCE: Final = 33  # beyond net.core.rmem_max, for who may (CAP_NET_ADMIN)


@dataclass(frozen=True, slots=True)
class Reception:
    """What a receiver has taken in and lost so far.

    Attributes
    ----------
    datagrams, payload_bytes
        Taken from the kernel, dropped ones of the backlog included; a message over TCP counts as a
        datagram.
    kernel_drops
        Datagrams the kernel dropped because the socket's buffer was full. The last ones show only
        when a later datagram arrives.
    backlog_drops
        Datagrams dropped, oldest first, because the decoder did not keep up.
    receive_buffer_bytes
        Size of the socket's buffer as the kernel granted it; 0 = not started.
    """

    datagrams: int
    payload_bytes: int
    kernel_drops: int
    backlog_drops: int
    receive_buffer_bytes: int


class UdpReceiver:
    """Receives datagrams in a thread of its own, between `start` and `stop`. Starts once.

    Parameters
    ----------
    host, port
        See `collector.binding.bound`.
    receive_buffer_bytes
        Size of the socket's buffer to ask for.
    backlog_bytes
        Memory that received datagrams may take until `take` fetches them.
    bound
        A socket that `bind` made, to be used in place of one of its own.
    """

    def __init__(
        self,
        host: str = "::",
        port: int = SFLOW_PORT,
        *,
        receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES,
        backlog_bytes: int = BACKLOG_BYTES,
        bound: socket.socket | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._asked_bytes = receive_buffer_bytes
        self._bound = bound
        self._backlog = Backlog(backlog_bytes)
        self._datagrams = 0
        self._payload_bytes = 0
        self._granted_bytes = 0
        self._failure: OSError | None = None
        self._socket: socket.socket | None = None
        self._reader: MessageReader | None = None
        self._thread: threading.Thread | None = None
        self._wake = -1

    @property
    def port(self) -> int:
        """The port listened on; the one asked for until `start`."""
        return self._port

    def start(self) -> None:
        """Bind the socket and begin to receive.

        Raises
        ------
        ListenError
            The address is taken, is not ours, or is no address.
        UnsupportedSystem
            The system has no recvmmsg.
        """
        if self._socket is not None:
            raise RuntimeError("a receiver starts once")
        bound = self._bound or bind(self._host, self._port, self._asked_bytes)
        try:
            self._reader = MessageReader(bound)
        except BaseException:
            bound.close()
            raise
        self._socket = bound
        self._port = bound.getsockname()[1]
        # The kernel keeps twice of what it grants, the rest being for its own bookkeeping.
        self._granted_bytes = bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        self._wake = os.eventfd(0)
        self._thread = threading.Thread(
            target=self._run,
            args=(self._reader, bound.fileno(), self._wake),
            name=f"udp-{self._port}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Take what the kernel still holds, then close; the backlog can be taken on. Idempotent."""
        if self._thread is None or self._socket is None:
            self._backlog.close()
            return
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1
        self._socket.close()

    def take(self, timeout_s: float | None = None) -> DatagramBatch | None:
        """The datagrams that waited longest, in the order of their arrival.

        Parameters
        ----------
        timeout_s
            How long to wait for one; None waits until the receiver stops.

        Returns
        -------
        DatagramBatch or None
            Never empty; `arrival_ns` is the kernel's. None: nothing came in time, or nothing more
            will come (`finished`).

        Raises
        ------
        ListenError
            Receiving failed, and all that came before has been taken.
        """
        batch = self._backlog.take(timeout_s)
        if batch is None and self._failure is not None:
            failure = self._failure
            reason = failure.strerror or str(failure)
            raise ListenError(self._address(), reason) from failure
        return batch

    def __iter__(self) -> Iterator[DatagramBatch]:
        """All batches until the receiver is stopped."""
        while (batch := self.take()) is not None:
            yield batch

    @property
    def finished(self) -> bool:
        """Whether the receiver has stopped and everything has been taken."""
        return self._backlog.finished

    def reception(self) -> Reception:
        """What was taken in and lost so far."""
        return Reception(
            datagrams=self._datagrams,
            payload_bytes=self._payload_bytes,
            kernel_drops=self._reader.drops if self._reader is not None else 0,
            backlog_drops=self._backlog.dropped_datagrams,
            receive_buffer_bytes=self._granted_bytes,
        )

    def put(self, batch: DatagramBatch) -> None:
        """Let telemetry that came another way wait among what was received; from any thread."""
        self._backlog.put(batch)

    def has_room(self) -> bool:
        """Whether half of what may wait is free; from any thread."""
        return self._backlog.has_room

    def _address(self) -> str:
        return address_text(socket.SOCK_DGRAM, self._host, self._port)

    def _run(self, reader: MessageReader, listening: int, wake: int) -> None:
        poll, pause = select.poll(), select.poll()
        poll.register(listening, select.POLLIN)
        for either in (poll, pause):
            either.register(wake, select.POLLIN)
        pause_ms = int(1e3 * min(_MOST_PAUSE_S, self._granted_bytes / _FAST_BYTES_PER_S))
        try:
            while all(ready != wake for ready, _ in poll.poll()):
                if self._receive(reader) < MOST_DATAGRAMS and pause.poll(pause_ms):
                    break
            # What the buffer can have held, and no more: a sender that goes on must not keep us.
            for _ in range(1 + 2 * self._granted_bytes // (MOST_DATAGRAMS * _LEAST_KERNEL_BYTES)):
                if not self._receive(reader):
                    break
        except OSError as error:
            self._failure = error
        finally:
            self._backlog.close()

    def _receive(self, reader: MessageReader) -> int:
        """Take a batch in; how many datagrams it has."""
        batch = reader.read()
        if batch is None:
            return 0
        self._datagrams += len(batch)
        self._payload_bytes += len(batch.buffer)
        self._backlog.put(batch)
        return len(batch)


def bind(
    host: str, port: int, receive_buffer_bytes: int, *, reuse_port: bool = False
) -> socket.socket:
    """A socket that receives from now on.

    Parameters
    ----------
    host, port, reuse_port
        See `collector.binding.bound`.
    receive_buffer_bytes
        See `UdpReceiver`.

    Raises
    ------
    ListenError
        The address is taken, is not ours, or is no address.
    """
    return bound(
        socket.SOCK_DGRAM,
        host,
        port,
        reuse_port=reuse_port,
        prepare=lambda made: _ask_for_buffer(made, receive_buffer_bytes),
    )


def _ask_for_buffer(receiving: socket.socket, size_bytes: int) -> None:
    try:
        receiving.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size_bytes)
    except PermissionError:
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
