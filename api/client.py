"""A client of the running service's REST interface, for the commands that read from it."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from api.errors import ApiError

Document = dict[str, Any]

PREFIX: Final = "/api/v1"
TIMEOUT_S: Final = 10.0  # for a whole answer; a large job's is made in less than one second
MOST_BYTES: Final = 1 << 27  # of an answer: some ten times what a job of 10,000 endpoints has
_AT_ONCE: Final = 1 << 16
_NAMES_SHOWN: Final = 8
_SHOWN: Final = 300  # characters of what a server says
_STRANGER: Final = "what answers there is not ringscope"


class ServiceError(ApiError):
    """The service cannot be asked, or does not answer what was asked for.

    Parameters
    ----------
    url
        Where it was sought.
    reason
        One line.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class NotThere(ServiceError):
    """The service knows nothing of that name (404)."""


class Client:
    """Asks one service; a request is one connection.

    Parameters
    ----------
    url
        http or https, as http://127.0.0.1:8080; may have a path before REST's own.
    timeout_s
        Until an answer must be there.

    Raises
    ------
    ServiceError
        `url` is none that could be asked.
    """

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self.url = _checked(url)
        self._timeout_s = timeout_s
        # The service is of this network: a proxy for the world outside has no part in it. A
        # redirection is not followed: it leads to what was not asked for.
        self._opener = build_opener(ProxyHandler({}), _Plain())

    def ask(self, path: str, members: Sequence[str], **parameters: object) -> Document:
        """What REST answers at a path below its prefix.

        Parameters
        ----------
        path
            As "/jobs".
        members
            What the answer must have; without them it is no answer of ours.
        parameters
            Of the query; None is left out, booleans are written as REST wants them.

        Raises
        ------
        NotThere
        ServiceError
            Nobody answers, what answers is not ringscope, or it says what stands in the way.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        query = urlencode(
            {n: str(v).lower() if isinstance(v, bool) else v for n, v in given.items()}
        )
        return self._ask(f"{PREFIX}{path}" + (f"?{query}" if query else ""), members)

    def job(self, job_id: str) -> Document:
        """The contract's job, with its newest iterations and anomalies.

        Raises
        ------
        NotThere
            Names the jobs there are.
        ServiceError
        """
        try:
            return self.ask(f"/jobs/{quote(job_id, safe='')}", ("id", "groups", "iterations"))
        except NotThere:
            there = self.ask("/jobs", ("jobs",))["jobs"]
        # Who asks for one job means one that runs more often than one that has ended.
        there.sort(key=lambda job: job["status"] == "ended")
        names = [job["id"] for job in there]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        known = f"there are {', '.join(names[:_NAMES_SHOWN])}{more}" if names else "there is none"
        raise NotThere(self.url, f"no job has the id {job_id!r}: {known}")

    def _ask(self, target: str, members: Sequence[str]) -> Document:
        request = Request(self.url + target, headers={"Accept": "application/json"})
        end_s = time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                status, body = answer.status, self._body(answer, end_s)
        except (http.client.HTTPException, ValueError) as error:
            raise ServiceError(self.url, f"{_STRANGER}: {type(error).__name__}") from error
        except OSError as error:
            raise ServiceError(self.url, f"nobody answers there: {_reason(error)}") from error
        document = _parsed(body)
        if status >= 400:
            raise self._refusal(status, document)
        if status != 200 or document is None or any(name not in document for name in members):
            raise ServiceError(self.url, _STRANGER)
        return document

    def _body(self, answer: http.client.HTTPResponse, end_s: float) -> bytes:
        """The whole body; one that is too long, or comes too slowly, is none."""
        parts, size = [], 0
        while part := answer.read1(_AT_ONCE):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ServiceError(self.url, f"an answer is longer than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > end_s:
                raise TimeoutError
        return b"".join(parts)

    def _refusal(self, status: int, document: Document | None) -> ServiceError:
        """What a problem document (RFC 9457) says; without one it is none of ours."""
        detail = None if document is None else document.get("detail")
        if not isinstance(detail, str):
            # A server at its limit answers so itself, as a proxy does for one that is gone.
            what = "it cannot answer at the moment" if status >= 500 else _STRANGER
            return ServiceError(self.url, f"{what} (HTTP {status})")
        said = "".join(c if c.isprintable() else "?" for c in detail[:_SHOWN])
        if status == 404:
            return NotThere(self.url, said)
        return ServiceError(self.url, f"{said} (HTTP {status})")


class _Plain(HTTPErrorProcessor):
    """Hands every answer over as it is, whatever its status."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


def _checked(url: str) -> str:
    """The URL without a slash at its end.

    Raises
    ------
    ServiceError
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ServiceError(repr(url), "not a URL of the service; one is http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        # Not repeated: it may hold a password.
        raise ServiceError(parts.hostname or "", "a URL with a user or a query cannot be used")
    return url.rstrip("/")


def _reason(error: BaseException) -> str:
    """What the system says, in a few words."""
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return _reason(error.reason)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"no TLS as wanted: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)[:_SHOWN]


def _parsed(body: bytes) -> Document | None:
    try:
        document = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _no_number(name: str) -> None:
    """Refuse NaN and infinities, which are no JSON."""
    raise ValueError(name)
