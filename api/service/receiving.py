"""What receives: in this process, or in as many as the settings say."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from api.settings import Settings
from collector.allow import AllowList
from collector.intake import Intake, Source
from collector.store import Store, StoreSettings
from collector.tcp import TcpReceiver
from collector.tcp import listen as accepting
from collector.udp import UdpReceiver
from collector.workers import Workers

SLICE_S: Final = 60  # of event time in one file of samples


def open_source(settings: Settings, opening: ExitStack) -> Source:
    """Bind, open the store and begin to receive.

    Parameters
    ----------
    settings
    opening
        Gets what must be closed again.

    Raises
    ------
    ListenError
        The address cannot be had; then no folder has been made.
    StoreError
        The store cannot be written to.
    """
    listen, kept = settings.listen, settings.store
    files = StoreSettings(SLICE_S, kept.hold_s, kept.keep_age_s, kept.keep_bytes)
    if listen.workers > 1:
        workers = Workers(
            listen.workers,
            listen.udp.host,
            listen.udp.port,
            listen.allow,
            kept.directory,
            files,
            receive_buffer_bytes=listen.receive_buffer_bytes,
            tcp=None if listen.tcp is None else (listen.tcp.host, listen.tcp.port),
        )
        opening.callback(workers.close)
        return workers
    receiver = UdpReceiver(
        listen.udp.host,
        listen.udp.port,
        receive_buffer_bytes=listen.receive_buffer_bytes,
    )
    receiver.start()
    opening.callback(receiver.stop)
    allow = AllowList(listen.allow)
    streams = None
    if listen.tcp is not None:
        streams = TcpReceiver(
            accepting(listen.tcp.host, listen.tcp.port),
            receiver.put,
            allow.allows,
            receiver.has_room,
        )
        streams.start()
        opening.callback(streams.stop)
    store = opening.enter_context(Store(kept.directory, files))
    return Intake(receiver, allow, store, kept.hold_s, streams=streams)
