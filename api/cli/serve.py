"""`ringscope serve`: telemetry from the wire into a store, until it is told to stop."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

from api.cli.exit import DONE, exit_code_of, say
from api.service.listening import Listening
from api.settings import HostPort
from collector.errors import ListenError
from collector.store import Store, StoreSettings
from collector.udp import RECEIVE_BUFFER_BYTES, UdpReceiver


def run(directory: Path, listen: str, keep_age_s: float, keep_bytes: int | None) -> int:
    """Receive and store until SIGTERM or SIGINT.

    Parameters
    ----------
    directory
        The store; made if it is not there.
    listen
        HOST:PORT, where HOST is a numeric address and IPv6 stands in brackets; port 0 lets the
        system choose.
    keep_age_s, keep_bytes
        See `collector.store.StoreSettings`.

    Returns
    -------
    int
        The exit code: DONE after a signal; NOTHING_DONE where it cannot listen or the directory
        is no place for a store.
    """

    def work() -> int:
        try:
            address = HostPort.parse(listen)
        except ValueError as error:
            raise ListenError(listen, str(error)) from error
        settings = StoreSettings(keep_age_s=keep_age_s, keep_bytes=keep_bytes)
        receiver = UdpReceiver(address.host, address.port)
        receiver.start()  # first: where the port is taken, no folder must be made
        try:
            with Store(directory, settings) as store:
                listening = Listening(receiver, store, settings.hold_s, _tell)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: listening.stop())
                bound = HostPort(address.host, receiver.port)
                _tell(f"listening on udp {bound}, storing in {directory}")
                _tell_of_buffer(receiver.reception().receive_buffer_bytes)
                listening.run()
        finally:
            receiver.stop()
        return DONE

    return exit_code_of(work)


def _tell_of_buffer(granted_bytes: int) -> None:
    if granted_bytes < RECEIVE_BUFFER_BYTES:
        _tell(
            f"the system grants a receive buffer of {granted_bytes} bytes, not of"
            f" {RECEIVE_BUFFER_BYTES} (net.core.rmem_max): bursts may be dropped"
        )


def _tell(message: str) -> None:
    """Say it; that nobody listens to us any more is no reason to stop."""
    with suppress(OSError):
        say(message)
