"""Errors as problem documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from api.errors import ResultsError
from api.http.schemas import Problem
from api.http.sources import Sources

MEDIA_TYPE: Final = "application/problem+json"


def problem(
    path: str, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """A response that says what went wrong.

    Parameters
    ----------
    path
        The path asked for, decoded.
    status
        HTTP's, 4xx or 5xx. There are no further types of problems, so it also gives the title
        (RFC 9457, 4.2.1).
    detail
        What is wrong with this request, for people.
    headers
        To send with it.
    """
    document = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=int(status),
        detail=detail,
        instance=quote(path),
    )
    return JSONResponse(
        document.model_dump(), status_code=int(status), headers=headers, media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Let `app` answer with problem documents; of exceptions nobody expects the guard makes one."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ResultsError, _no_results)


async def _refused(request: Request, error: Exception) -> Response:
    refusal = cast(HTTPException, error)
    detail = refusal.detail
    if detail == HTTPStatus.NOT_FOUND.phrase:  # the framework's own, which the title says already
        detail = "there is nothing here"
    return problem(request.scope["path"], refusal.status_code, detail, refusal.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    faults = cast(RequestValidationError, error).errors()
    # Where it is and what is wanted; what was sent is not repeated.
    detail = "; ".join(
        f"{fault['loc'][0]} parameter {fault['loc'][-1]}: {fault['msg']}" for fault in faults
    )
    return problem(request.scope["path"], HTTPStatus.UNPROCESSABLE_ENTITY, detail)


async def _no_results(request: Request, error: Exception) -> Response:
    sources: Sources = request.app.state.sources
    sources.log.say("warning", "results cannot be read", reason=str(error))
    return problem(
        request.scope["path"],
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the results cannot be read at the moment",
    )
