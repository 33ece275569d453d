"""`ringscope exporters`: who sends telemetry, how much, and what was lost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from api.cli.cells import UNKNOWN
from api.cli.exit import DONE, exit_code_of
from api.cli.page import answers_of, clean, show, show_json, table
from api.client import Client, Document
from api.reports.picture import natural
from api.reports.reading import read_time
from api.reports.text import Line
from api.reports.units import calendar_time, human_duration, human_span

# Members of the service's counters that are losses, and what they are called.
LOST_DATAGRAMS: Final = (
    ("kernel_drops", "in the kernel"),
    ("backlog_drops", "before the decoder"),
    ("refused_datagrams", "refused"),
    ("decode_errors", "not readable"),
)
NOTES_SHOWN: Final = 20
LOST_SAMPLES: Final = (("late_samples", "late"), ("rows_lost", "not stored"))


def run(url: str, *, as_json: bool) -> int:
    """List exporters.

    Parameters
    ----------
    url
        Of the service.
    as_json
        The answer of REST.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where the service does not answer.
    """

    def work() -> int:
        client = Client(url)
        answer = client.ask("/exporters", ("service",))
        if as_json:
            show_json(answer)
            return DONE
        with answers_of(client):
            lines = list(page_lines(clean(answer["service"]), time.time_ns()))
        show(lines)
        return DONE

    return exit_code_of(work)


def page_lines(service: Document, now_ns: int) -> Iterator[Line]:
    """The counters of the service, and its exporters, a row each.

    Parameters
    ----------
    service
        As REST gives it.
    now_ns
        The time, ns since the epoch.
    """
    up = human_span((now_ns - read_time(service["started_at"])) / 1e9)
    records = service["flow_records"]
    yield Text(
        f"{service['flow_samples']:,} flow and {service['counter_samples']:,} counter samples"
        + f" and {records:,} flow records" * bool(records)
        + f" in {service['datagrams']:,} datagrams since the start {up} ago"
    )
    yield loss_line(service)
    if not service["exporters"]:
        yield Text("no exporter: ringscope doctor says how to point a switch here")
        return
    yield Text()
    records = any(exporter["flow_records"] for exporter in service["exporters"])
    rows = table(
        *("exporter", "state", "rate", "time by", "clock", "datagrams", "flow samples"),
        *("flow records",) * records,
        *("counter samples", "lost", "samples lost", "errors"),
    )
    for exporter in sorted(service["exporters"], key=lambda e: natural(e["agent"])):
        rates = sorted(exporter["sampling_rates"])
        rows.add_row(
            Text(name_of(exporter)),
            Text(exporter["state"], "green" if exporter["state"] == "ok" else "yellow"),
            Text(", ".join(f"1:{rate:,}" for rate in rates) or UNKNOWN),
            Text(
                exporter["time_basis"]
                if exporter["flow_samples"] or exporter["flow_records"]
                else UNKNOWN
            ),
            clock_cell(exporter),
            Text(f"{exporter['datagrams']:,}"),
            Text(f"{exporter['flow_samples']:,}"),
            *(Text(f"{exporter['flow_records']:,}"),) * records,
            Text(f"{exporter['counter_samples']:,}"),
            Text(f"{exporter['lost_datagrams']:,}", "yellow" * bool(exporter["lost_datagrams"])),
            samples_cell(exporter),
            Text(f"{exporter['decode_errors']:,}", "yellow" * bool(exporter["decode_errors"])),
        )
    yield rows
    yield from pool_lines(service["exporters"])
    yield from record_lines(service["exporters"])
    yield from note_lines(service["exporters"])


def name_of(exporter: Document) -> str:
    """Its address, and its sub-agent; of IPFIX and NetFlow, protocol and observation domain."""
    if "sub_agent" in exporter:
        return f"{exporter['agent']}/{exporter['sub_agent']}"
    return f"{exporter['agent']}/{exporter['protocol']}:{exporter['domain']}"


def clock_cell(exporter: Document) -> Text:
    """How far an exporter's clock is off; marked where that is put right."""
    offset_s, clock = exporter["clock_offset_s"], exporter["clock"]
    if offset_s is None:
        return Text(UNKNOWN)
    sign = "-" if offset_s < 0 else "+"
    said = f"{sign}{human_duration(abs(offset_s))} ± {human_duration(clock['error_s'])}"
    return Text(said, "yellow" * bool(clock["corrected_s"]))


def samples_cell(exporter: Document) -> Text:
    """Flow samples and records that were lost on the way, or that the exporter could not send."""
    lost = exporter["lost_samples"] + exporter["dropped_samples"] + exporter["lost_records"]
    return Text(f"{lost:,}", "yellow" * bool(lost))


def pool_lines(exporters: Sequence[Document]) -> Iterator[Line]:
    """Exporters that sent fewer samples than the packets they chose from call for."""
    for exporter in exporters:
        for due, came, by in (
            ("expected_samples", "pooled_samples", "the pools they are chosen from"),
            ("due_samples", "counted_samples", "the packets that its ports counted"),
        ):
            missing = exporter[due] - exporter[came]
            # Sampling is random, and counters are of a moment: a twentieth is no chance.
            if missing > 4 * exporter[due] ** 0.5 and 20 * missing > exporter[due]:
                yield Text(
                    f"{name_of(exporter)}: {missing:,} of"
                    f" {exporter[due]:,} samples did not come that were due by {by}",
                    "yellow",
                )


def record_lines(exporters: Sequence[Document]) -> Iterator[Line]:
    """What came as records and could not be read."""
    for exporter in exporters:
        for member, what in (
            ("waiting_sets", "sets of records wait for their template"),
            ("dropped_sets", "sets of records were given up: their template did not come"),
            ("unread_records", "records tell of no flow, no packet and no port"),
        ):
            if exporter[member]:
                yield Text(f"{name_of(exporter)}: {exporter[member]:,} {what}", "yellow")


def note_lines(exporters: Sequence[Document]) -> Iterator[Line]:
    """What happened to exporters, the newest last."""
    notes = [(note, exporter) for exporter in exporters for note in exporter["notes"]]
    if not notes:
        return
    yield Text()
    notes.sort(key=lambda pair: pair[0]["time"])
    if len(notes) > NOTES_SHOWN:
        yield Text(f"{len(notes) - NOTES_SHOWN} older notes: --json has them")
    for note, exporter in notes[-NOTES_SHOWN:]:
        often = f" ({note['count']:,} times)" if note["count"] > 1 else ""
        name = name_of(exporter)
        yield Text(f"{calendar_time(read_time(note['time']))}  {name}  {note['text']}{often}")


def loss_line(service: Document) -> Text:
    """All that was lost since the start, in one line.

    Parameters
    ----------
    service
        As REST gives it.
    """
    before = sum(exporter["lost_datagrams"] for exporter in service["exporters"])
    datagrams = [(service[member], name) for member, name in LOST_DATAGRAMS]
    samples = [(service[member], name) for member, name in LOST_SAMPLES]
    parts = []
    for what, lost in (
        ("datagrams", [(before, "before arrival"), *datagrams]),
        ("samples", samples),
    ):
        if said := ", ".join(f"{count:,} {name}" for count, name in lost if count):
            parts.append(f"{what} lost: {said}")
    return Text("; ".join(parts), "yellow") if parts else Text("nothing lost", "green")
