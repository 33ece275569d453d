from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from api.contract import validate
from tests.api.http import made
from tests.api.http.made import Service
from tests.api.made import job

TURNS = 25
READERS = 3


def test_readers_see_whole_turns_while_one_writes(own: Service) -> None:
    """Each turn makes one more iteration final, and follows with a provisional one."""
    done = threading.Event()

    def read() -> None:
        last = False
        while not last:
            last = done.is_set()
            check()

    def check() -> None:
        steps = own.json("/api/v1/jobs/job-3/iterations")["iterations"]
        assert [step["index"] for step in steps] == list(range(len(steps)))
        assert [step["final"] for step in steps] == [True] * (len(steps) - 1) + [False]
        validate(own.json("/api/v1/result"), strict=True)
        (summary,) = own.json("/api/v1/jobs?status=idle")["jobs"]
        assert summary["iterations"] - 1 == summary["last_iteration"]["index"]
        assert own.ask("/metrics").status_code == 200

    def write(turn: int) -> None:
        *final, provisional = made.steps(turn + 2)
        steps = (*final, replace(provisional, final=False))
        growing = job(id="job-3", status="idle", iterations=steps, anomalies=())
        own.results.save(made.window(), [made.update(growing, made.START_NS, made.END_NS)])

    write(0)
    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read) for _ in range(READERS)]
        try:
            for turn in range(1, TURNS):
                write(turn)
        finally:
            done.set()
    for reader in readers:
        reader.result()
    assert own.json("/api/v1/jobs/job-3")["iterations"][-1]["index"] == TURNS


def test_an_application_for_each_service(service: Service, empty: Service) -> None:
    """Nothing is kept in a place that two of them share."""
    jobs: Any = empty.json("/api/v1/jobs")
    assert jobs == {"jobs": []}
    assert len(service.json("/api/v1/jobs")["jobs"]) == 2
    assert "train_job=" not in empty.ask("/metrics").text
    assert "train_job=" in service.ask("/metrics").text
