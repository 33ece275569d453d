"""Restarts: a job stopped, and went on with other connections between the same endpoints."""

from __future__ import annotations

from typing import Final

from collector.schema import I64
from patterns.result import Anomaly, Subject

SURE: Final = 0.95  # nothing else replaces all connections between the same pairs at once


def found_restarts(job: str, breaks: I64) -> list[Anomaly]:
    """One finding per restart, in order of time.

    Why a job was started again does not show on the wire.

    Parameters
    ----------
    job : str
        Id of the job, the subject.
    breaks : int64[r, 2]
        See `reconstruct.restarts`.
    """
    return [
        Anomaly(
            id=f"{job}/restart/{stopped}",
            kind="restart",
            severity="warning",
            start_ns=stopped,
            end_ns=resumed,
            verdict="undecided",
            subjects=(Subject("job", job),),
            summary=(
                f"the job fell silent, and {(resumed - stopped) / 1e9:.3f} s later "
                "other connections began between the same endpoints"
            ),
            evidence={"silent_s": (resumed - stopped) / 1e9},
            confidence=SURE,
        )
        for stopped, resumed in breaks.tolist()
    ]
