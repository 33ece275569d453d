"""What can be set, section by section, with defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from api.settings.values import (
    Address,
    AddressOrNone,
    BufferBytes,
    Count,
    CountOrNone,
    HostPort,
    LogFormat,
    LogLevel,
    Networks,
    Place,
    PlaceOrNone,
    Seconds,
    SecondsOrZero,
    UrlOrNone,
    Workers,
)

PREFIX: Final = "RINGSCOPE_"
# Each must be below the other. Samples must live longer than they are held, a window must outlast
# its ticks and the wait for late samples, and a restart finds its last window among the bins.
_BELOW: Final = (
    ("store.hold_s", "store.keep_age_s"),
    ("analysis.tick_s", "analysis.window_s"),
    ("analysis.lateness_s", "analysis.window_s"),
    ("analysis.window_s", "store.bins_keep_age_s"),
    ("analysis.window_s", "results.keep_age_s"),
)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListenSection(_Section):
    """Receiving sFlow, IPFIX and NetFlow.

    Attributes
    ----------
    udp
        Where to receive: all three at one port.
    tcp
        Where exporters of IPFIX may connect to; None: nowhere.
    workers
        Processes that receive, decode and store; more than one share the port.
    allow
        Networks that exporters may send from; empty: all.
    receive_buffer_bytes
        Size of the socket's buffer to ask the system for.
    """

    udp: Address = HostPort("::", 6343)
    tcp: AddressOrNone = None
    workers: Workers = 1
    allow: Networks = ()
    receive_buffer_bytes: BufferBytes = 64 << 20


class StoreSection(_Section):
    """What is kept of telemetry: samples, and the bins made of them.

    Attributes
    ----------
    directory
        Made if it is not there.
    hold_s
        Samples are held in memory for at most so long: what a crash loses.
    keep_age_s, keep_bytes
        Samples older than this, or the oldest beyond so many bytes, are removed.
    bins_keep_age_s, bins_keep_bytes
        The same for bins.
    """

    directory: Place
    hold_s: Seconds = 10.0
    keep_age_s: Seconds = 86_400.0
    keep_bytes: CountOrNone = None
    bins_keep_age_s: Seconds = 2_592_000.0
    bins_keep_bytes: CountOrNone = None


class AnalysisSection(_Section):
    """Recognising jobs as telemetry comes in.

    Attributes
    ----------
    window_s
        Length of the window that is analysed.
    window_rows
        Bins in memory; beyond this the oldest leave the window early.
    lateness_s
        How long samples may be on their way and still be analysed.
    tick_s
        At most from one turn of the analysis to the next; what arrives is analysed at once.
    inventory
        TOML file that names hosts, NICs, switches and storage.
    """

    window_s: Seconds = 600.0
    window_rows: Count = 4_000_000
    lateness_s: SecondsOrZero = 2.0
    tick_s: Seconds = 1.0
    inventory: PlaceOrNone = None


class ResultsSection(_Section):
    """What is kept of results.

    Attributes
    ----------
    url
        Database, as SQLAlchemy names it; None: see `Settings.results_url`. May hold a password.
    keep_age_s
        Iterations older than this, and jobs that ended before, are removed.
    """

    url: UrlOrNone = None
    keep_age_s: Seconds = 7_776_000.0


class HttpSection(_Section):
    """REST, pages and metrics.

    Attributes
    ----------
    listen
        Where to answer; None: nowhere.
    """

    listen: AddressOrNone = HostPort("127.0.0.1", 8080)


class ReportsSection(_Section):
    """Reports written as time goes by.

    Attributes
    ----------
    every_s
        From one report of a job to the next; 0: no reports.
    directory
        None: see `Settings.reports_directory`.
    keep
        Newest reports kept of each job.
    """

    every_s: SecondsOrZero = 0.0
    directory: PlaceOrNone = None
    keep: Count = 100


class LogSection(_Section):
    """What the service says on standard error.

    Attributes
    ----------
    format
        Lines for people, or one JSON object a line.
    level
        The least that is said.
    """

    format: LogFormat = "text"
    level: LogLevel = "info"


class Settings(BaseSettings):
    """All settings; `load` reads them, and an instance made by hand is what it is told to be."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    listen: Annotated[ListenSection, NoDecode] = ListenSection()
    store: Annotated[StoreSection, NoDecode]
    analysis: Annotated[AnalysisSection, NoDecode] = AnalysisSection()
    results: Annotated[ResultsSection, NoDecode] = ResultsSection()
    http: Annotated[HttpSection, NoDecode] = HttpSection()
    reports: Annotated[ReportsSection, NoDecode] = ReportsSection()
    log: Annotated[LogSection, NoDecode] = LogSection()

    @property
    def results_url(self) -> str:
        """Database of results; by default SQLite in the store's directory. May hold a password."""
        from sqlalchemy.engine import URL

        if self.results.url is not None:
            return self.results.url
        file = self.store.directory / "results.sqlite"
        return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)

    @property
    def reports_directory(self) -> Path:
        """Where reports of jobs are written; by default in the store's directory."""
        # Not "reports": there the store keeps what collectors say of exporters.
        return self.reports.directory or self.store.directory / "job-reports"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what it is given: `load` asks the environment, and remembers what came from it."""
        return (init_settings,)


def names() -> dict[str, tuple[str, ...]]:
    """The sections, and the names in each, in the order of the file."""
    return {
        section: tuple(cast(type[BaseModel], info.annotation).model_fields)
        for section, info in Settings.model_fields.items()
    }


def value_of(settings: Settings, key: str) -> Any:
    """The value of a key, as "store.directory"."""
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def conflicts(settings: Settings) -> dict[tuple[str, str], str]:
    """Values that are right alone and wrong together: both keys -> what is wrong."""
    found = {}
    for low, high in _BELOW:
        small, large = value_of(settings, low), value_of(settings, high)
        if not small < large:
            found[low, high] = f"{low} ({small:.15g}) must be below {high} ({large:.15g})"
    return found
