"""What the answers are read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from api.logs import Limited
from api.results.database import Results
from api.service.account import ServiceView


@dataclass(frozen=True, slots=True)
class Sources:
    """The parts of the service that answers need.

    Attributes
    ----------
    results, view
        Read only.
    reports_dir
        Holds JOB/NAME.html and JOB/NAME.json; None: reports are not stored.
    log
        Is told what fails; clients can ask as often as they like.
    """

    results: Results
    view: ServiceView
    reports_dir: Path | None
    log: Limited


# These are coroutines, although they wait for nothing: a plain function would cost a thread.
async def _sources(request: Request) -> Sources:
    sources: Sources = request.app.state.sources
    return sources


async def _known_parameters(request: Request) -> None:
    """Refuse what would be passed over: a filter misspelt must not answer with everything."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise HTTPException(422, f"there is no query parameter {name[:40]!r} here")
        if given.count(name) > 1:
            raise HTTPException(422, f"query parameter {name} stands more than once")


From = Annotated[Sources, Depends(_sources)]
CHECKED = Depends(_known_parameters)
