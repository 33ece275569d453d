"""Commands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ringscope {version('ringscope')}")
        raise typer.Exit


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
        list[Path],
        typer.Argument(
            metavar="CAPTURE...",
            help="pcap or pcapng, also gzip, holding sFlow datagrams; several make one window.",
        ),
    ],
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
    """Recognise the jobs in captures of switch telemetry.

    Exit code 0: done. 1: done, but under --strict something could not be read. 2: nothing could
    be done.
    """
    from api.cli.kernels import find_place

    find_place()
    from api.cli.analyze import run

    raise typer.Exit(run(captures, inventory, output, output_format, strict=strict))


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
