"""Commands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from api.cli.times import duration_s, time_ns

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback is for a bug report, unabridged
    help="LLM training jobs on an AI fabric, seen from the switches' own telemetry.",
)


class Format(StrEnum):
    """How a result is written."""

    JSON = "json"
    TEXT = "text"
    HTML = "html"


class ReportFormat(StrEnum):
    """How a report is written."""

    HTML = "html"
    JSON = "json"


class Status(StrEnum):
    """What a job does."""

    TRAINING = "training"
    IDLE = "idle"
    HUNG = "hung"
    ENDED = "ended"


class RowFormat(StrEnum):
    """How the rows of a query are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


SERVICE: Final = "http://127.0.0.1:8080"
Url = Annotated[
    str,
    typer.Option("--url", envvar="RINGSCOPE_URL", help="Where the service answers.", metavar="URL"),
]
Json = Annotated[bool, typer.Option("--json", help="What the REST interface answers.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ringscope {version('ringscope')}")
        raise typer.Exit


def _time_ns(text: str) -> int:
    try:
        return time_ns(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _duration_s(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """LLM training jobs on an AI fabric, seen from the switches' own telemetry."""


@app.command()
def analyze(
    captures: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CAPTURE...",
            help="pcap, pcapng or IPFIX files, also gzip, with telemetry, or tables of transfers "
            "(CSV, Parquet); several make one window.",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Instead of captures: a directory that samples are kept in."),
    ] = None,
    start_ns: Annotated[
        int | None,
        typer.Option("--from", parser=_time_ns, metavar="TIME", help="Leave out what is before."),
    ] = None,
    end_ns: Annotated[
        int | None,
        typer.Option("--to", parser=_time_ns, metavar="TIME", help="Leave out what is not before."),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(help="TOML file that names hosts, NICs, switches and storage."),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Where to write; - is standard output.", metavar="FILE|-")
    ] = Path("-"),
    output_format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Default: by the suffix of --output; else text on a terminal and json elsewhere.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if anything could not be read.")
    ] = False,
) -> None:
    """Recognise the jobs in captures of switch telemetry, or in a window of a store.

    TIME is RFC 3339, as 2026-11-29T12:00:00Z.

    Exit code 0: done. 1: done, but under --strict something could not be read. 2: nothing could
    be done.
    """
    if bool(captures) == (store is not None):
        raise typer.BadParameter("either captures or --store is wanted")
    if store is None and (start_ns is not None or end_ns is not None):
        raise typer.BadParameter("--from and --to choose a window of a --store")
    from api.cli.kernels import find_place

    find_place()
    from api.cli.analyze import Stored, run

    stored = None if store is None else Stored(store, start_ns, end_ns)
    raise typer.Exit(
        run(captures or [], inventory, output, output_format, strict=strict, stored=stored)
    )


@app.command()
def replay(
    captures: Annotated[
        list[Path],
        typer.Argument(
            metavar="CAPTURE...",
            help="pcap or pcapng, also gzip, holding sFlow datagrams; sent one after another.",
        ),
    ],
    to: Annotated[
        str, typer.Option(help="Where to send; IPv6 as [::1]:6343.", metavar="HOST:PORT")
    ],
    speed: Annotated[
        float,
        typer.Option(help="Above 1 faster; other than 1 needs exporter timestamps (0:1043)."),
    ] = 1.0,
    keep_time: Annotated[
        bool,
        typer.Option("--keep-time", help="Leave exporter timestamps; else they are moved to now."),
    ] = False,
) -> None:
    """Send the datagrams of captures again, as far apart as they came.

    Exit code 0: done. 2: nothing could be done, or not to the end.
    """
    from api.cli.kernels import find_place

    find_place()
    from api.cli.replay import run

    raise typer.Exit(run(captures, to, speed, keep_time=keep_time))


@app.command()
def demo(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Holds capture.pcap, inventory.toml and truth.json."),
    ],
    speed: Annotated[
        float,
        typer.Option(help="Above 1 faster; other than 1 needs exporter timestamps (0:1043)."),
    ] = 1.0,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="TCP port of the page; 0 is any that is free.")
    ] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on serving at the end, until Ctrl-C.")
    ] = False,
) -> None:
    """Replay a labelled capture into a service of its own, and show the truth beside it.

    The service listens on this machine alone and keeps nothing.

    Exit code 0: truth and result agree. 1: they differ. 2: there was nothing to compare.
    """
    from api.cli.kernels import find_place

    find_place()
    from api.cli.demo import run

    raise typer.Exit(run(folder, speed, port, keep=keep))


@app.command()
def query(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL",
            help="One SELECT, in DuckDB's dialect; 'DESCRIBE flows' names the columns.",
        ),
    ],
    store: Annotated[
        Path, typer.Option(help="The store: a directory that samples are kept in.", metavar="DIR")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="An array of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a header.")] = False,
) -> None:
    """Ask the views flows and counters of a store.

    A table on a terminal and json elsewhere, if neither is chosen. Reads that store and nothing
    else. Exit code 0: done. 2: the query cannot be answered.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    from api.cli.query import run

    raise typer.Exit(
        run(sql, store, RowFormat.JSON if as_json else RowFormat.CSV if as_csv else None)
    )


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings.", metavar="FILE")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Where to keep telemetry; made if it is not there.", metavar="DIR"),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where to receive telemetry over UDP; else [::]:6343.",
            metavar="HOST:PORT",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            help="Where REST, page and metrics are; else 127.0.0.1:8080.", metavar="HOST:PORT"
        ),
    ] = None,
    inventory: Annotated[
        Path | None, typer.Option(help="TOML file of hosts and switches.", metavar="FILE")
    ] = None,
) -> None:
    """Receive what switches send, keep it, and say which jobs run, until SIGTERM or SIGINT.

    HOST is a numeric address; [::] takes IPv6 and IPv4 from everywhere. Options
    win over the environment (RINGSCOPE_LISTEN__UDP), that over FILE; docs/settings.md
    names all settings. Samples are on the disk 10 seconds after they came, and
    `query` and `analyze --store` may read meanwhile.

    Exit code 0: done. 2: a setting is wrong, an address is taken, DIR cannot be written to.
    """
    from api.cli.kernels import find_place

    find_place()
    from api.cli.serve import run

    overrides = {
        "store.directory": store,
        "listen.udp": listen,
        "http.listen": http,
        "analysis.inventory": inventory,
    }
    raise typer.Exit(run(config, overrides))


@app.command()
def report(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job, as job-0.")],
    url: Url = SERVICE,
    output: Annotated[
        Path, typer.Option(help="Where to write; - is standard output.", metavar="FILE|-")
    ] = Path("-"),
    report_format: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="Default: by the suffix of --output; else html."),
    ] = None,
) -> None:
    """Write down all that the running service knows of a job, with every iteration it has.

    The page needs nothing but itself and can be printed. Exit code 0: done. 2: nothing
    could be done.
    """
    from api.cli.report import run

    raise typer.Exit(run(job, url, output, report_format))


@app.command("check-config")
def check_config(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="TOML file of settings.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="An object, with a member a key.")
    ] = False,
) -> None:
    """Say the settings that FILE and the environment make, and where each comes from.

    The environment wins: RINGSCOPE_STORE__DIRECTORY over store.directory in FILE.
    Passwords are hidden. The inventory is read too.

    Exit code 0: the service could use them. 2: it could not; every fault is said, with its place.
    """
    from api.cli.check_config import run

    raise typer.Exit(run(file, as_json=as_json))


@app.command()
def jobs(
    status: Annotated[Status | None, typer.Option(help="Only jobs that do this.")] = None,
    as_json: Json = False,
    url: Url = SERVICE,
) -> None:
    """List the jobs that the running service tells of, in the order of their beginning.

    "?" is what is not known; in brackets stands how sure a statement is, from 0 to 1.

    Exit code 0: done. 2: the service does not answer.
    """
    from api.cli.jobs import run

    raise typer.Exit(run(url, None if status is None else status.value, as_json=as_json))


@app.command()
def job(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="A job, as job-0.")],
    as_json: Json = False,
    url: Url = SERVICE,
) -> None:
    """Show a job of the running service: sizes, groups, iterations, and what is wrong.

    Exit code 0: done. 2: there is no such job, or the service does not answer.
    """
    from api.cli.job import run

    raise typer.Exit(run(job_id, url, as_json=as_json))


@app.command()
def anomalies(
    of_job: Annotated[
        str | None, typer.Option("--job", help="Only those of this job.", metavar="ID")
    ] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only what has not ended.")] = False,
    as_json: Json = False,
    url: Url = SERVICE,
) -> None:
    """List what is wrong with the jobs of the running service, newest first.

    Exit code 0: done. 2: there is no such job, or the service does not answer.
    """
    from api.cli.anomalies import run

    raise typer.Exit(run(url, of_job, open_only=open_only, as_json=as_json))


@app.command()
def exporters(as_json: Json = False, url: Url = SERVICE) -> None:
    """List who sends telemetry to the running service, how much, and what was lost.

    Exit code 0: done. 2: the service does not answer.
    """
    from api.cli.exporters import run

    raise typer.Exit(run(url, as_json=as_json))


@app.command()
def top(url: Url = SERVICE) -> None:
    """Watch the jobs of the running service and their newest iterations, until q is typed.

    Asks every two seconds. Not on a terminal: once.

    Exit code 0: done. 2: the service does not answer.
    """
    from api.cli.top import run

    raise typer.Exit(run(url))


@app.command()
def doctor(as_json: Json = False, url: Url = SERVICE) -> None:
    """Say why the running service tells of no job yet, and what would help.

    Goes the way of a sample: from the switches to a job.

    Exit code 0: done. 1: something is wrong. 2: the service does not answer.
    """
    from api.cli.doctor import run

    raise typer.Exit(run(url, as_json=as_json))
