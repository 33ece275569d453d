"""The running service, put together: one receiver, two working threads, one HTTP server.

The thread that calls `run` decodes and stores (`Listening`); another analyses slices and sees to
retention; one writes reports; HTTP answers from the results and from counters.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from api.contract import telemetry_document
from api.errors import ResultsError
from api.http.app import create_app
from api.http.server import HttpServer
from api.logs import Log
from api.reports.periodic import Reports
from api.results.database import Results
from api.service.account import Account, Check, Situation
from api.service.listening import Listening
from api.service.receiving import open_source
from api.service.sliding import Sliding
from api.settings import Settings
from collector.accounts import NOTHING
from collector.inventory import Inventory, read_inventory
from collector.store import StoreSettings, TableStore, read_tables
from collector.warm import warm
from reconstruct import stored
from reconstruct.progress import join
from reconstruct.slices import Slice
from reconstruct.slicing import Slicer
from reconstruct.window import Window

SLICE_NS: Final = 500_000_000
BINS_SLICE_S: Final = 600  # of event time in one file of bins
MOST_WAITING_ROWS: Final = 1 << 21  # of bins before the analysis, beyond which the oldest go
STUCK_TICKS: Final = 30  # without a turn of the analysis in so many, it does not work
FORGET_S: Final = 3_600.0


def _compile() -> None:
    """Have ready what each slice goes through: nothing that arrives has to wait for a compiler."""
    made_up = warm()
    slicer = Slicer(SLICE_NS, 0)
    slicer.add(made_up.flows, made_up.exporters, int(made_up.flows.time_ns.max()))
    join(slicer.drain() * 2)


class Service:
    """The service from `start` to the end of `run`; starts once.

    Parameters
    ----------
    settings
    log
        Told of what happens.

    Raises
    ------
    CollectorError, ApiError
        From `start`: an address, the store, the results or the inventory cannot be used. What had
        been opened is closed again.
    """

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._started_ns = time.time_ns()
        self._waiting: deque[Slice] = deque()
        self._waiting_rows = 0
        self._dropped_samples = 0
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._news = threading.Event()  # slices wait, or the end has come
        self._ticked_s = time.monotonic()
        self._open = ExitStack()

    @property
    def udp_port(self) -> int:
        """The port telemetry is received on."""
        return self._source.port

    @property
    def receive_buffer_bytes(self) -> int:
        """What the system granted of the socket's buffer."""
        return self._source.standing().reception.receive_buffer_bytes

    @property
    def http_port(self) -> int | None:
        """The port HTTP answers on; None where it does not."""
        return None if self._http is None else self._http.port

    def start(self) -> None:
        """Bind, open and read what is needed; nothing is received or analysed before `run`."""
        settings = self._settings
        with ExitStack() as opening:
            inventory = Inventory()
            if settings.analysis.inventory is not None:
                inventory = read_inventory(settings.analysis.inventory)
            self._inventory = inventory
            lateness_ns = round(settings.analysis.lateness_s * 1e9)
            self._slicer = Slicer(SLICE_NS, lateness_ns, inventory.message_lengths)
            _compile()
            # First: where the port is taken, no folder must be made.
            self._source = open_source(settings, opening)
            directory, kept = settings.store.directory, settings.store
            self._bins = opening.enter_context(
                TableStore(
                    directory,
                    stored.KIND,
                    stored.SCHEMA,
                    StoreSettings(
                        BINS_SLICE_S, kept.hold_s, kept.bins_keep_age_s, kept.bins_keep_bytes
                    ),
                )
            )
            self._results = Results(settings.results_url)
            opening.callback(self._results.close)
            self._listening = Listening(self._source, self._slicer, self._deliver, self._log)
            self._sliding = Sliding(
                self._window(), inventory, self._results, self._telemetry, self._log
            )
            self._http: HttpServer | None = None
            if settings.http.listen is not None:
                app = create_app(self._results, self, settings.reports_directory)
                self._http = HttpServer(app, settings.http.listen.host, settings.http.listen.port)
                self._http.start()
                opening.callback(self._http.stop)
            self._open = opening.pop_all()

    def run(self) -> None:
        """Work until `stop`; then take in, analyse and store what has arrived by then.

        Raises
        ------
        ListenError
            Receiving failed. What came before is stored.
        """
        threads = (
            threading.Thread(target=self._analyse, name="analysis"),
            threading.Thread(target=self._reports().run, args=[self._ended], name="reports"),
        )
        with self._open:
            for thread in threads:
                thread.start()
            try:
                self._listening.run()
            finally:
                self._ended.set()
                self._news.set()
                for thread in threads:
                    thread.join()

    def stop(self) -> None:
        """Ask `run` to end; a signal handler may call this."""
        self._listening.stop()

    def account(self) -> Account:
        """The counters of this moment."""
        taken_in = self._source.standing()
        received, kept = taken_in.reception, taken_in.stored
        told = self._listening.told
        standing = self._sliding.standing
        end_ns = standing.window_end_ns
        return Account(
            started_ns=self._started_ns,
            datagrams=received.datagrams,
            payload_bytes=received.payload_bytes,
            kernel_drops=received.kernel_drops,
            backlog_drops=received.backlog_drops,
            refused_datagrams=taken_in.refused,
            receiver_deaths=taken_in.deaths,
            flow_samples=told.flow_samples,
            flow_records=told.flow_records,
            counter_samples=told.counter_samples,
            decode_errors=told.decode_errors,
            rows_stored=kept.stored_rows,
            rows_held=kept.held_rows,
            rows_lost=kept.lost_rows,
            late_samples=self._slicer.late_samples
            + self._dropped_samples
            + taken_in.unhanded_samples,
            window_start_ns=standing.window_start_ns,
            window_end_ns=end_ns,
            window_rows=standing.window_rows,
            analysis_lag_s=max(0.0, (time.time_ns() - end_ns) / 1e9) if end_ns else 0.0,
            ticks=standing.ticks,
            analysis_s=standing.busy_s,
            exporters=told.exporters,
        )

    def checks(self) -> tuple[Check, ...]:
        """Whether listener, store, results and analysis work."""
        silent_s = time.monotonic() - self._ticked_s
        stuck = silent_s > STUCK_TICKS * max(self._settings.analysis.tick_s, 1.0)
        standing = self._sliding.standing
        reasons = {
            "listener": "the receiver has stopped" if self._source.finished else None,
            "store": self._source.standing().stored.error or self._bins.status.error,
            "results": self._results.check(),
            "analysis": f"no turn for {silent_s:.0f} s" if stuck else standing.failure,
        }
        return tuple(
            Check(name, reason is None, reason or "")  # type: ignore[arg-type]
            for name, reason in reasons.items()
        )

    def situation(self) -> Situation:
        """What the service was told and sees, at this moment."""
        listen, listening = self._settings.listen, self._listening
        told = listening.told
        return Situation(
            listen=str(replace(listen.udp, port=self._source.port)),
            allowed=tuple(map(str, listen.allow)),
            window_s=self._settings.analysis.window_s,
            lateness_s=self._settings.analysis.lateness_s,
            hosts=len(self._inventory.hosts),
            switches=tuple((switch.name, switch.agent) for switch in self._inventory.switches),
            errors=told.errors,
            headers=tuple(listening.headers.tolist()),
            transports=tuple(listening.transports.tolist()),
            doubts=self._sliding.doubts,
        )

    def _reports(self) -> Reports:
        settings = self._settings
        return Reports(
            self._results,
            settings.reports_directory,
            settings.reports,
            settings.results.keep_age_s,
            self.account,
            self._log,
        )

    def _window(self) -> Window:
        """The window as the store has it from before a restart."""
        analysis = self._settings.analysis
        window = Window(round(analysis.window_s * 1e9), analysis.window_rows)
        since_ns = time.time_ns() - round(analysis.window_s * 1e9)
        directory = self._settings.store.directory
        tables, errors = read_tables(directory, stored.KIND, stored.SCHEMA, since_ns)
        for error in errors:
            self._log.say(
                "warning", "a stored file cannot be read", file=error.file, reason=error.reason
            )
        slices = [part for _, _, table in tables for part in stored.from_table(table)]
        for part in sorted(slices, key=lambda part: part.start_ns):
            window.add(part)
        return window

    def _telemetry(self, queue_pairs: int) -> dict[str, Any]:
        told = self._listening.told
        codes = self._listening.opcodes
        document = telemetry_document(replace(told, flows=NOTHING.flows))
        document["roce"] = {
            "opcodes": {f"0x{code:02x}": int(n) for code, n in enumerate(codes[:-1]) if n},
            "queue_pairs": queue_pairs,
        }
        account = self.account()
        document["dropped_datagrams"] = {
            "kernel": account.kernel_drops,
            "backlog": account.backlog_drops,
            "refused": account.refused_datagrams,
        }
        return document

    def _deliver(self, slices: list[Slice]) -> None:
        """Hand slices to the analysis; what it does not keep up with is counted and lost to it."""
        with self._guard:
            self._waiting.extend(slices)
            self._waiting_rows += sum(len(part.bins) for part in slices)
            while self._waiting_rows > MOST_WAITING_ROWS and len(self._waiting) > 1:
                gone = self._waiting.popleft()
                self._waiting_rows -= len(gone.bins)
                self._dropped_samples += int(gone.streams.samples.sum())
        self._news.set()

    def _take(self) -> list[Slice]:
        with self._guard:
            slices = list(self._waiting)
            self._waiting.clear()
            self._waiting_rows = 0
        return slices

    def _analyse(self) -> None:
        """Turns of the analysis until the end, and one after it."""
        tick_s = self._settings.analysis.tick_s
        forget_s = time.monotonic() + FORGET_S
        last = False
        while not last:
            began_s = time.monotonic()
            last = self._ended.is_set()
            try:
                self._turn(self._take())
            except Exception as error:  # noqa: BLE001  one bad turn must not end the service
                self._log.say("error", "a turn of the analysis failed", exc_info=error)
            else:
                self._ticked_s = time.monotonic()
            if began_s >= forget_s:
                self._forget()
                forget_s = began_s + FORGET_S
            if not last:
                self._news.wait(tick_s)
                self._news.clear()

    def _turn(self, slices: list[Slice]) -> None:
        for part in slices:
            if len(part.bins):
                self._bins.append(stored.to_table(part), part.start_ns, part.end_ns)
        self._sliding.tick(slices)

    def _forget(self) -> None:
        age_ns = round(self._settings.results.keep_age_s * 1e9)
        try:
            self._results.forget(time.time_ns() - age_ns)
        except ResultsError as error:
            self._log.say("error", "old results stay", reason=str(error))
