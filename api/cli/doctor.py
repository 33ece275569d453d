"""`ringscope doctor`: why there is no job yet, in the order of a sample's way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from api.cli.exit import DONE, NOTHING_DONE, exit_code_of, say
from api.cli.page import answers_of, clean, picture_width, show, show_json
from api.client import Client, Document, ServiceError
from api.reports.text import Line

SOMETHING_WRONG: Final = 1
_STYLE: Final = {"ok": "green", "note": "yellow", "wrong": "bold red"}
_WIDTHS: Final = (7, 12)  # of state and step


def run(url: str, *, as_json: bool) -> int:
    """Say what stands in the way of jobs.

    Parameters
    ----------
    url
        Of the service.
    as_json
        The answer of REST.

    Returns
    -------
    int
        The exit code: DONE, SOMETHING_WRONG, or NOTHING_DONE where the service does not answer.
    """

    def work() -> int:
        client = Client(url)
        try:
            answer = client.ask("/doctor", ("state", "findings"))
        except ServiceError as error:
            say(str(error))
            say(
                "does the service run, as by systemctl status ringscope? http.listen says where it"
                " answers, --url or RINGSCOPE_URL where it is sought"
            )
            return NOTHING_DONE
        if as_json:
            show_json(answer)
        else:
            with answers_of(client):
                lines = list(page_lines(clean(answer["findings"])))
            show(lines, picture_width())
        return SOMETHING_WRONG if answer["state"] == "wrong" else DONE

    return exit_code_of(work)


def page_lines(findings: Sequence[Document]) -> Iterator[Line]:
    """Findings as REST gives them: what is so, and below it what to do."""
    for finding in findings:
        row = Table.grid()
        for width in _WIDTHS:
            row.add_column(width=width, no_wrap=True)
        row.add_column(overflow="fold")
        text = Text(finding["text"])
        if finding["advice"]:
            text.append(f"\n→ {finding['advice']}", "bold" if finding["state"] == "wrong" else "")
        row.add_row(Text(finding["state"], _STYLE[finding["state"]]), finding["step"], text)
        yield row
