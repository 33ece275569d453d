"""`ringscope demo`: a labelled capture through the running service, and the truth beside it."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli.apart import Apart
from api.cli.beside import Line, Verdict, agree, compare
from api.cli.exit import DONE, exit_code_of
from api.cli.sending import Sending
from api.cli.times import time_ns
from api.cli.watching import Moment, watched
from api.client import Client, ServiceError
from api.contract import Document, validate
from api.errors import ApiError, ContractViolation
from api.settings import Settings

DIFFERS: Final = 1
FILES: Final = ("capture.pcap", "inventory.toml", "truth.json")
_PLAIN_WIDTH: Final = 140  # where no terminal says how wide it is
_LOOK_S: Final = 0.5
_AT_ONCE: Final = 5000  # iterations of one answer
_PATIENCE_S: Final = 60.0  # for the analysis, once everything has been sent
_MARKS: Final = {
    Verdict.RIGHT: Text("✓", "green"),
    Verdict.OPEN: Text("– not said", "yellow"),
    Verdict.WRONG: Text("✗", "bold red"),
}


class NoDemo(ApiError):
    """The folder holds no labelled capture."""


def run(folder: Path, speed: float, port: int, *, keep: bool) -> int:
    """Serve, replay the capture of a folder, and compare what was recognised with its truth.

    Parameters
    ----------
    folder
        Holds capture.pcap, inventory.toml and truth.json.
    speed
        Of the replay; 1 is real time.
    port
        TCP port of the page; 0: any.
    keep
        Go on serving after it, until Ctrl-C.

    Returns
    -------
    int
        The exit code: DONE where truth and result agree, DIFFERS where not, NOTHING_DONE where
        there is nothing to compare.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    return exit_code_of(lambda: _demonstrate(folder, speed, port, console, keep=keep))


def _demonstrate(folder: Path, speed: float, port: int, console: Console, *, keep: bool) -> int:
    pcap, inventory, truth = _files(folder)
    sending = Sending(pcap, speed)
    with tempfile.TemporaryDirectory(prefix="ringscope-demo-") as scratch:
        settings = Settings.model_validate(
            {
                "listen": {"udp": "127.0.0.1:0"},
                "store": {"directory": Path(scratch) / "store"},
                "analysis": {"inventory": inventory},
                "http": {"listen": f"127.0.0.1:{port}"},
                "log": {"level": "warning"},
            }
        )
        with Apart(settings, Path(scratch) / "said") as service:
            url = f"http://127.0.0.1:{service.http_port}"
            console.print(f"Replaying {pcap} into a service of its own.", soft_wrap=True)
            console.print(f"The page: {url}/", style="bold", soft_wrap=True)
            lines = _play(Client(url), service, sending, truth, console)
            console.print(table(lines))
            right = agree(lines)
            said = "✓ truth and result agree" if right else "✗ truth and result differ"
            console.print(said, style="green" if right else "red")
            if keep:
                _wait_for_interrupt(service, console, url)
    return DONE if right else DIFFERS


def _files(folder: Path) -> tuple[Path, Path, Document]:
    pcap, inventory, truth = (folder / name for name in FILES)
    for path in (pcap, inventory, truth):
        if not path.is_file():
            raise NoDemo(f"{path}: no such file; a demo has {', '.join(FILES)}")
    try:
        document = json.loads(truth.read_text(encoding="utf-8"))
        validate(document)
    except OSError as error:
        raise NoDemo(f"{truth}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise NoDemo(f"{truth}: not JSON: {error}") from error
    except ContractViolation as error:
        raise NoDemo(f"{truth}: {error}") from error
    return pcap, inventory, document


def _play(
    client: Client, service: Apart, sending: Sending, truth: Document, console: Console
) -> list[Line]:
    """Send everything, wait for the analysis, and compare."""
    with sending.to(service.udp_port), watched(console) as show:
        began_s = time.monotonic()
        furthest_s = 0.0

        def look() -> Moment | None:
            service.check()
            moment = _moment(client, time.monotonic() - began_s, sending.share)
            if moment is not None:
                show(moment)
            return moment

        while not sending.wait(_LOOK_S):
            if (moment := look()) is not None:
                furthest_s = max(furthest_s, moment.service["analysis_lag_s"])
        ended = _settle(look)
    if sending.passage is None or ended is None:
        raise NoDemo("the service has no time to answer")
    _tell_losses(console, sending.sent, ended.service, furthest_s)
    return compare(truth, _result(client), sending.passage)


def _moment(client: Client, elapsed_s: float, share: float) -> Moment | None:
    """What is to be seen now; None where the service has no time to answer."""
    try:
        jobs = client.ask("/jobs", ("jobs",))["jobs"]
        service = client.ask("/exporters", ("service",))["service"]
    except ServiceError:
        return None
    return Moment(elapsed_s, share, jobs, service)


def _settle(look: Callable[[], Moment | None]) -> Moment | None:
    """Wait until what was sent has been analysed, and the last iterations are known.

    An iteration's end is known when the next one would have ended too.
    """
    sent_ns = time.time_ns()
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        moment = look()
        if moment is not None and moment.service["window"] is not None:
            period_s = max((job["period_s"] or 0.0 for job in moment.jobs), default=0.0)
            reached_ns = time_ns(moment.service["window"]["end"])
            if reached_ns >= sent_ns + int((period_s + 1.0) * 1e9):
                return moment
        if time.monotonic() > until_s:
            return moment
        time.sleep(_LOOK_S)


def _tell_losses(console: Console, sent: int, service: Document, furthest_s: float) -> None:
    console.print(
        f"{service['datagrams']:,} of {sent:,} datagrams received,"
        f" {service['flow_samples']:,} samples, {service['late_samples']:,} of them too late;"
        f" the analysis took {service['analysis_s']:.1f} s, at most {furthest_s:.1f} s behind"
    )


def _result(client: Client) -> Document:
    """Everything that the service says of jobs, with all of their iterations."""
    jobs = []
    for summary in client.ask("/jobs", ("jobs",))["jobs"]:
        job, after = client.job(summary["id"]), None
        iterations: list[Document] = []
        while True:
            page = client.ask(
                f"/jobs/{summary['id']}/iterations",
                ("iterations", "next_after"),
                after=after,
                limit=_AT_ONCE,
            )
            iterations += page["iterations"]
            after = page["next_after"]
            if after is None:
                break
        jobs.append({**job, "iterations": iterations})
    return {"jobs": jobs}


def table(lines: Sequence[Line]) -> Table:
    """Truth beside result."""
    drawn = Table(box=SIMPLE_HEAD)
    for name in ("truth beside result", "truth", "result", ""):
        drawn.add_column(name, overflow="fold")
    for line in lines:
        drawn.add_row(line.what, line.true, line.said, _MARKS[line.verdict])
    return drawn


def _wait_for_interrupt(service: Apart, console: Console, url: str) -> None:
    try:
        console.print(f"Still serving {url}/ until Ctrl-C", soft_wrap=True)
        while True:
            service.check()
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        return
