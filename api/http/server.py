"""The HTTP server: uvicorn in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from ipaddress import ip_address
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.errors import ApiError
from api.http.guard import LoopbackOnly

_BACKLOG: Final = 128
_MOST_CONNECTIONS: Final = 128  # further ones are answered 503
# A client that sends its request byte by byte, or does not read the answer, keeps a connection
# for so long; others just open a new one.
_CONNECTION_S: Final = 60.0
_LAST_ANSWER_S: Final = 30.0
_GRACE_S: Final = 2  # for answers under way, when the server stops
_STOP_S: Final = 5.0  # until the thread is left behind
# Of connections: what uvicorn warns of, as bytes that are no HTTP, clients can cause at will.
_LOG: Final = logging.getLogger("uvicorn.error.connections")
_LOG.setLevel(logging.ERROR)


class HttpListenError(ApiError):
    """The address cannot be listened on.

    Parameters
    ----------
    address
        HOST:PORT as asked for.
    reason
        What the system says against it.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on http {address}: {reason}")
        self.address = address
        self.reason = reason


class HttpServer:
    """Serves an application in a thread of its own, between `start` and `stop`. Starts once.

    Parameters
    ----------
    app
        The application. On a loopback address it only gets requests for loopback names.
    host
        Numeric address to listen on; "::" takes IPv6 and IPv4.
    port
        0 lets the system choose one.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port listened on; the one asked for until `start`."""
        return self._port

    def start(self) -> None:
        """Bind the socket and begin to serve.

        Raises
        ------
        HttpListenError
            The address is taken, is not ours, or is no address.
        """
        if self._server is not None:
            raise RuntimeError("a server starts once")
        bound = self._bind()
        self._port = bound.getsockname()[1]
        guarded = LoopbackOnly(self._app) if ip_address(self._host).is_loopback else self._app
        # Logging is set up by the service, signals are the service's, and no proxy is trusted.
        config = uvicorn.Config(
            guarded,
            loop="asyncio",
            http=_BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            # In a thread that is not the main one, uvicorn sets no signal handlers.
            target=self._server.run,
            args=([bound],),
            name=f"http-{self._port}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, let those under way end, within some seconds. Idempotent."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(_STOP_S)

    def _address(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def _bind(self) -> socket.socket:
        try:
            address = ip_address(self._host)
        except ValueError as error:
            raise HttpListenError(self._address(), "not a numeric address") from error
        made: socket.socket | None = None
        try:
            made = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.version == 6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.bind((self._host, self._port))
            # Connections wait from here on, whenever the thread gets to them; and a port that is
            # bound but not listened on could still be taken by another.
            made.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            if made is not None:
                made.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise HttpListenError(self._address(), reason) from error
        return made


class _BoundedConnection(H11Protocol):
    """A connection that ends after some time, whatever its other end does."""

    _end: asyncio.TimerHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _LOG

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = self.loop.call_later(_CONNECTION_S, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)

    def _finish(self) -> None:
        self.shutdown()  # at once where nothing is under way, else after this answer
        self._end = self.loop.call_later(_LAST_ANSWER_S, self.transport.abort)
