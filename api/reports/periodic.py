"""Reports written as time goes by: of each job that runs, and once more when it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.contract import window_document
from api.errors import ResultsError
from api.logs import Log
from api.reports.job import Missed, job_report
from api.reports.shelf import Shelf, report_name
from api.results.records import Life
from api.service.account import Account

if TYPE_CHECKING:
    from api.results.database import Results
    from api.settings.model import ReportsSection

# Newest ones in a report: of a job of months there are millions. With these it is about 1 MB.
MOST_ITERATIONS: Final = 5_000
MOST_ANOMALIES: Final = 1_000
LOOK_S: Final = 2.0  # from one look for reports that are due to the next
RETRY_S: Final = 60.0  # after one that failed
FORGET_S: Final = 3_600.0
SHARE: Final = 0.25  # of the time that may go into reports: what analyses needs the rest
_NS: Final = 1_000_000_000


class Reports:
    """Writes what is due; to be used by one thread.

    A report is due when event time has passed a multiple of `settings.every_s` since the epoch, so
    that a restart neither skips nor repeats one. A job that ends has one more.

    Parameters
    ----------
    results
        What is reported.
    directory
        Where to.
    settings
        With an `every_s` of 0 nothing is ever written or removed.
    keep_age_s
        Reports of a job that the results have forgotten go at this age.
    account
        The service's counters.
    log
        Told what cannot be written. It is tried again.
    clock
        Seconds that pass.
    """

    def __init__(
        self,
        results: Results,
        directory: Path,
        settings: ReportsSection,
        keep_age_s: float,
        account: Callable[[], Account],
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._results = results
        self._shelf = Shelf(directory)
        self._every_ns = round(settings.every_s * _NS)
        self._keep = settings.keep
        self._keep_age_ns = round(keep_age_s * _NS)
        self._account = account
        self._log = log
        self._clock = clock
        self._written_ns: dict[str, int] = {}  # job -> the moment its newest report is of
        self._retry_at_s: dict[str, float] = {}
        self._forget_at_s = clock()

    def run(self, ended: threading.Event) -> None:
        """Write what is due until `ended` is set; come back at once if nothing ever is."""
        while self._every_ns and not ended.wait(LOOK_S):
            self.write_due(ended.wait)

    def write_due(self, pause: Callable[[float], bool] = lambda _: False) -> None:
        """Write each report that is due now. Never raises: what fails is said and tried again.

        Parameters
        ----------
        pause
            Waits so many seconds; True: enough is written.
        """
        try:
            for job_id in self._due():
                began_s = self._clock()
                self._write(job_id)
                if pause((self._clock() - began_s) * (1 / SHARE - 1)):
                    return
        except Exception as error:  # noqa: BLE001  no trouble with reports may end the service
            self._log.say("error", "reports cannot be looked after", exc_info=error)

    def _due(self) -> Iterator[str]:
        """Jobs whose reports are due."""
        window = self._results.window() if self._every_ns else None
        if window is None:
            return
        lives = [life for life in self._results.lives() if self._shelf.takes(life.id)]
        known = {life.id for life in lives}
        self._written_ns = {job: ns for job, ns in self._written_ns.items() if job in known}
        self._retry_at_s = {job: s for job, s in self._retry_at_s.items() if job in known}
        if self._clock() >= self._forget_at_s:
            self._forget_at_s = self._clock() + FORGET_S
            self._forget(known, window.end_ns)
        for life in lives:
            retry_at_s = self._retry_at_s.get(life.id, 0.0)
            if self._clock() >= retry_at_s and self._is_due(life, window.end_ns):
                yield life.id

    def _is_due(self, life: Life, now_ns: int) -> bool:
        if not life.iterations:
            return False
        if life.id not in self._written_ns:
            self._written_ns[life.id] = self._shelf.newest_ns(life.id)
        written_ns = self._written_ns[life.id]
        if life.status == "ended":
            # Not of jobs that ended before anybody asked for reports.
            recent = written_ns > 0 or life.window_end_ns >= now_ns - self._every_ns
            return recent and written_ns < _last_ns(life.window_end_ns)
        slot_ns = now_ns // self._every_ns * self._every_ns
        return max(written_ns, life.first_seen_ns) < slot_ns

    def _write(self, job_id: str) -> None:
        try:
            record, window = self._results.job(job_id), self._results.window()
            if record is None or window is None:  # forgotten while we looked
                return
            start_ns, end_ns, moment_ns = window.start_ns, window.end_ns, window.end_ns
            if record.document["status"] == "ended":
                start_ns, end_ns = record.window_start_ns, record.window_end_ns
                moment_ns = _last_ns(end_ns)
            found = self._results.anomalies(job_id, limit=MOST_ANOMALIES)
            page, document = job_report(
                record.document,
                self._results.iterations(job_id, limit=MOST_ITERATIONS, newest=True),
                [anomaly for _, anomaly in reversed(found)],
                window.telemetry,
                window_document(start_ns, end_ns),
                first_seen_ns=record.first_seen_ns,
                missed=_missed(self._account()),
            )
            self._shelf.write(job_id, report_name(moment_ns), page, document)
            self._written_ns[job_id] = moment_ns
            self._shelf.thin(job_id, self._keep)
        except (OSError, ResultsError) as error:  # a full disk, most likely
            self._failed(job_id, reason=str(error))
        except Exception as error:  # noqa: BLE001  one job that cannot be drawn must not stop others
            self._failed(job_id, exc_info=error)

    def _failed(self, job_id: str, **why: object) -> None:
        self._retry_at_s[job_id] = self._clock() + RETRY_S
        self._log.say("error", "a report could not be written", job=job_id, **why)

    def _forget(self, known: set[str], now_ns: int) -> None:
        try:
            self._shelf.forget(known, now_ns - self._keep_age_ns)
        except OSError as error:
            self._log.say("error", "old reports stay", reason=str(error))


def _last_ns(window_end_ns: int) -> int:
    """The moment a job's last report is of: up to the next second.

    So it never has the name of one that was written while the job ran.
    """
    return -(-window_end_ns // _NS) * _NS


def _missed(account: Account) -> Missed:
    return Missed(
        since_ns=account.started_ns,
        late_samples=account.late_samples,
        kernel_drops=account.kernel_drops,
        backlog_drops=account.backlog_drops,
        refused_datagrams=account.refused_datagrams,
    )
