"""`ringscope serve`: the running service, until it is told to stop."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import structlog

from api.cli.exit import DONE, NOTHING_DONE, exit_code_of, say
from api.logs import Limited, configure
from api.settings import HostPort, Settings, SettingsError, load


def run(config: Path | None, overrides: Mapping[str, object]) -> int:
    """Receive, store, analyse and answer until SIGTERM or SIGINT.

    Parameters
    ----------
    config
        TOML file of settings; None: only what the environment and `overrides` say.
    overrides
        Settings by dotted key, which win; None stands for one not given.

    Returns
    -------
    int
        The exit code: DONE after a signal; NOTHING_DONE where a setting is wrong, or what it names
        cannot be used.
    """
    try:
        settings = load(config, overrides)
    except SettingsError as error:
        for fault in error.faults:
            say(fault)
        return NOTHING_DONE
    return exit_code_of(lambda: _serve(settings))


def _serve(settings: Settings) -> int:
    # All of numba and the database behind it: too slow to wait for where a setting is wrong.
    from api.service.running import Service
    from collector.malloc import keep_freed

    keep_freed()
    configure(settings.log.format, settings.log.level)
    log = Limited(structlog.get_logger("ringscope"))
    service = Service(settings, log)
    service.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    udp = HostPort(settings.listen.udp.host, service.udp_port)
    where = {"udp": str(udp), "store": str(settings.store.directory)}
    if settings.listen.tcp is not None:
        where["tcp"] = str(settings.listen.tcp)
    if settings.http.listen is not None and service.http_port is not None:
        where["http"] = str(HostPort(settings.http.listen.host, service.http_port))
    log.say("info", "listening", **where)
    granted, asked = service.receive_buffer_bytes, settings.listen.receive_buffer_bytes
    if granted < asked:
        log.say(
            "warning",
            "the system grants a smaller receive buffer (net.core.rmem_max): bursts may be lost",
            granted_bytes=granted,
            asked_bytes=asked,
        )
    service.run()
    log.close()
    return DONE
