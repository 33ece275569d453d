"""The application: every route of the service, put together."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

import structlog
from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from api.http import doctor, health, jobs, metrics, problems, reports, window
from api.http.guard import Guard
from api.http.openapi import PROBLEMS, Application
from api.http.sources import Sources
from api.logs import Limited
from api.results.database import Results
from api.service.account import ServiceView

PREFIX: Final = "/api/v1"


def create_app(results: Results, view: ServiceView, reports_dir: Path | None) -> FastAPI:
    """The service's HTTP application.

    Parameters
    ----------
    results
        Read only.
    view
        Asked for counters and checks, from any thread.
    reports_dir
        Holds JOB/NAME.html and JOB/NAME.json, and need not be there yet; None: no reports.
    """
    app = Application(
        title="ringscope",
        description="Training jobs on the fabric. Times are RFC 3339 in UTC with nanoseconds,"
        " durations seconds, volumes bytes. A value that is not known is null.",
        version=version("ringscope"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
    )
    log = Limited(structlog.get_logger("api.http"))
    app.state.sources = Sources(results, view, reports_dir, log)
    app.add_middleware(Guard, log=log)
    problems.install(app)
    for part in (jobs, window, reports, doctor):
        app.include_router(part.router, prefix=PREFIX)
    for part in (health, metrics):
        app.include_router(part.router)
    if reports_dir is not None:
        app.mount("/reports", reports.ReportFiles(reports_dir))
    pages = Path(str(files("api"))) / "web"
    app.mount("/static", StaticFiles(directory=pages))

    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        """The page that shows all this."""
        return FileResponse(pages / "index.html")

    return app
