"""Whether the service lives, and whether it is ready."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.schemas import CheckState, Health
from api.http.sources import From
from api.service.account import Check

# A new start helps against these; a disk or a database that fails, it would only fail again.
_VITAL: Final = ("listener", "analysis")
_FAILING: Final[dict[int | str, dict[str, Any]]] = {
    503: {"model": Health, "description": "Something that must work does not."}
}

router = APIRouter(tags=["health"])


@router.get("/livez", response_model=Health, responses=_FAILING)
def livez(sources: From) -> Response:
    """Whether a new start of the process is not needed: its threads work."""
    return _health([check for check in sources.view.checks() if check.name in _VITAL])


@router.get("/readyz", response_model=Health, responses=_FAILING)
def readyz(sources: From) -> Response:
    """Whether everything works: listener, store, results and analysis."""
    return _health(sources.view.checks())


def _health(checks: Sequence[Check]) -> Response:
    works = all(check.ok for check in checks)
    states = [CheckState(name=c.name, ok=c.ok, reason=c.reason) for c in checks]
    return Health(status="ok" if works else "failing", checks=states).response(
        HTTPStatus.OK if works else HTTPStatus.SERVICE_UNAVAILABLE
    )
