"""The door of the service: who is let in, what answers carry, and what failed inside."""

from __future__ import annotations

import re
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import problem
from api.logs import Limited

_METHODS: Final = ("GET", "HEAD")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]+)(?::[0-9]*)?", re.IGNORECASE)
# The pages have scripts and styles in files of their own and load nothing from elsewhere. A
# stored report is one file with its style inside; it runs nothing and loads nothing.
_PAGES_POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_REPORTS_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox"
)
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # What is shown changes every second, and an upgrade changes the pages' files.
    "Cache-Control": "no-cache",
}


class Guard:
    """Lets GET and HEAD in, adds security headers, and turns a crash into a problem document.

    Parameters
    ----------
    app
        Sees HEAD as GET; the body of its answer is dropped here.
    log
        Is told of crashes.
    """

    def __init__(self, app: ASGIApp, log: Limited) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        policy = _REPORTS_POLICY if path.startswith("/reports/") else _PAGES_POLICY
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers["Content-Security-Policy"] = policy
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        if method not in _METHODS:
            detail = "only GET and HEAD: nothing can be changed here"
            refusal = problem(
                path, HTTPStatus.METHOD_NOT_ALLOWED, detail, {"Allow": ", ".join(_METHODS)}
            )
            await refusal(scope, receive, answer)
            return
        try:
            await self._app({**scope, "method": "GET"}, receive, answer)
        except Exception:  # one request that fails must not fail the next
            self._log.say("error", "a request failed", path=path, exc_info=True)
            if begun:
                raise
            failure = problem(
                path, HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of ringscope; its log says more"
            )
            await failure(scope, receive, answer)


class LoopbackOnly:
    """Answers only to names of this machine.

    A page from elsewhere can have its own name resolve to 127.0.0.1 and would then be of one
    origin with us (DNS rebinding). Its requests still carry that name in Host.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_loopback(Headers(scope=scope).get("host", "")):
            detail = "on a loopback address, Host must be localhost or a loopback address"
            refusal = problem(scope["path"], HTTPStatus.MISDIRECTED_REQUEST, detail)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_loopback(host: str) -> bool:
    named = _HOST.fullmatch(host)
    if named is None:
        return False
    if named["name"].lower() == "localhost":
        return True
    try:
        return ip_address(named["name"].strip("[]")).is_loopback
    except ValueError:
        return False
