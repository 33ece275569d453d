"""The last window over REST: the whole result, and the exporters it came from."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from api.contract import SCHEMA_VERSION, exporter_document, rfc3339, window_document
from api.http.jobs import whole_job
from api.http.schemas import Exporters, Result, Service
from api.http.sources import CHECKED, From
from api.service.account import Account

# Counters that are shown as they are.
_SAME_NAME: Final = tuple(Service.model_fields.keys() - {"started_at", "window", "exporters"})
_MISSING: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "no window has been analysed yet"}
}

router = APIRouter(tags=["window"], dependencies=[CHECKED])


@router.get("/exporters", response_model=Exporters)
def exporters(sources: From) -> Response:
    """Telemetry of the last window, and counters since the start of the service."""
    last = sources.results.window()
    return Exporters(
        window=None if last is None else window_document(last.start_ns, last.end_ns),
        telemetry=None if last is None else last.telemetry,
        service=_service(sources.view.account()),
    ).response()


@router.get("/result", response_model=Result, responses=_MISSING)
def result(sources: From) -> Response:
    """The whole document of the last window; each job with its newest iterations."""
    last = sources.results.window()
    if last is None:
        raise HTTPException(404, "no window has been analysed yet")
    # A job that was last seen before the window began is no part of it.
    ids = [s.id for s in sources.results.summaries() if s.last_seen_ns >= last.start_ns]
    seen = [record for job in ids if (record := sources.results.job(job)) is not None]
    return JSONResponse(
        {
            "schema_version": SCHEMA_VERSION,
            "window": window_document(last.start_ns, last.end_ns),
            "telemetry": last.telemetry,
            "jobs": [whole_job(sources.results, record) for record in seen],
            "unassigned": last.unassigned,
        }
    )


def _service(account: Account) -> Service:
    window = None
    if account.window_end_ns:
        window = window_document(account.window_start_ns, account.window_end_ns)
    return Service(
        started_at=rfc3339(account.started_ns),
        window=window,
        exporters=[exporter_document(exporter) for exporter in account.exporters],
        **{name: getattr(account, name) for name in _SAME_NAME},
    )
