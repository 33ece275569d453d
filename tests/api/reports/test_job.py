from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

from api.contract import Document, job_document, telemetry_document, validate, window_document
from api.reports.job import Missed, job_report
from collector.schema import DecodeError
from patterns.result import Anomaly, Group, Iteration, JobResult, Parallelism, Rank, Subject
from tests.api import made

START_NS = made.START_NS
SECOND_NS = made.SECOND_NS
WINDOW = window_document(START_NS, START_NS + 8 * SECOND_NS)
TELEMETRY = telemetry_document(made.telemetry())
HOSTILE = "\"'></title></style></svg><script src=//evil>alert(1)</script>&<b onload=x>\ud800"
VOID = {"meta"}
# Nothing that runs, loads or leads elsewhere.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "p"),
    *("h1", "h2", "b", "i", "pre", "table", "tr", "th", "td"),
    *("svg", "defs", "marker", "path", "circle", "line", "rect", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "class", "style", "id", "colspan", "role"),
    *("aria-label", "aria-hidden", "width", "height", "viewbox", "refx", "refy", "markerwidth"),
    *("markerheight", "orient", "marker-end", "d", "cx", "cy", "r", "x", "y", "x1", "x2", "y1"),
    *("y2", "text-anchor"),
}


class Page(HTMLParser):
    """Fails on a tag that closes what is not open, and on what a report must not hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, name
            assert "http" not in (value or "")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.stack:
            assert "@import" not in data
            assert "url(" not in data
        else:
            self.seen.append(data)


def _report(
    job: JobResult,
    *,
    iterations: Sequence[Iteration] | None = None,
    anomalies: Sequence[Anomaly] | None = None,
    telemetry: Document = TELEMETRY,
    **options: Any,
) -> tuple[str, Document]:
    return job_report(
        job_document(job),
        job.iterations if iterations is None else iterations,
        job.anomalies if anomalies is None else anomalies,
        telemetry,
        options.pop("window", WINDOW),
        **options,
    )


def _text(job: JobResult, **options: Any) -> str:
    return Page(_report(job, **options)[0]).text


def test_page_says_what_is_known() -> None:
    text = _text(
        made.job(started_at_ns=None),
        first_seen_ns=START_NS - 3600 * SECOND_NS,
        missed=Missed(START_NS - 60 * SECOND_NS, 11, 3, 4, 5),
    )
    for said in (
        "job-1 training",
        "4 hosts, 8 endpoints, inferred from traffic alone.",
        "Seen since 2026-11-30 11:19:00 UTC (1 h).",
        "period 1 s ± 2 ms, sure 0.97",
        "complete iterations here 6 slow 1 bytes an iteration 5.00 GB anomalies 1",
        "sure that it is one job 0.96",
        "dp ? tp ? pp 1 cp 1 ep 1 sure 0.90",
        "may be dp 4 tp 2 or dp 8",
        "dp not known: tp inside the hosts draws the same rings",
        "dp: gpu-001 → gpu-003",
        "gpu-001 → gpu-003 → gpu-002 → gpu-004 → (gpu-001)",
        "2 × 4 members, 1.23 GB an iteration each, sure 0.97",
        "shortest 990 ms median 1 s longest 1.55 s",
        (
            "Iterations 0 to 6, 2026-11-30 12:19:00 to 2026-11-30 12:19:07 UTC."
            " 1 not seen whole is left out."
        ),
        (
            "slow_iteration 12:19:04.849 to 12:19:06.399, undecided sure 0.95"
            " iteration 5 took 1.55 s, 55 % longer than usual job job-1"
        ),
        "period 1 s 0.97 by shape 1,200",
        (
            "4 flow and 2 counter samples in 3 datagrams since 2026-11-30 12:18:00 UTC;"
            " 410 flow samples of this job in the last window"
        ),
        "Datagrams lost on the way: 1 (25 %). Not decoded: 0.",
        "Samples too late to be analysed: 11. Datagrams dropped here: 7.",
        "Refused, as their senders are not allowed: 5.",
        "Counting samples gives 0.98 times the bytes that sequence numbers give.",
        "10.255.0.1/100000 sflow5 1:1,000 exporter 4 2 1 ok",
        "Hosts gpu-001, gpu-002, gpu-003, gpu-004",
    ):
        assert said in text.replace(" .", "."), said


def test_document_is_the_contracts() -> None:
    job = made.job()
    iterations, anomalies = made.iterations([1.0] * 300), job.anomalies[:1]
    document = _report(job, iterations=iterations, anomalies=anomalies)[1]
    validate(document)
    unassigned = {"bytes": 0, "endpoints": [], "by_class": {}}
    validate({**document, "unassigned": unassigned}, strict=True)
    assert (document["window"], document["telemetry"]) == (WINDOW, TELEMETRY)
    (told,) = document["jobs"]
    assert [i["index"] for i in told["iterations"]] == list(range(300))
    assert [a["id"] for a in told["anomalies"]] == ["slow-5"]
    rest = job_document(job)
    assert {**told, "iterations": [], "anomalies": []} == {
        **rest,
        "iterations": [],
        "anomalies": [],
    }


def test_texts_of_strangers_are_only_texts() -> None:
    anomaly = replace(
        made.job().anomalies[0],
        kind=HOSTILE,
        summary=HOSTILE,
        subjects=(Subject("host", HOSTILE),),
    )
    job = made.job(
        id=HOSTILE,
        name=HOSTILE,
        user=HOSTILE,
        hosts=(HOSTILE, *made.HOSTS[1:]),
        ranks=tuple(
            Rank(made.address(h, rail), f"{HOSTILE}{h}", {}, None, {})
            for rail in range(2)
            for h in range(4)
        ),
        evidence={"period": replace(made.SURE, basis=HOSTILE), HOSTILE: made.SURE},
        parallelism=Parallelism(None, 1, 1, 1, 1, (), {"dp": HOSTILE, "tp": HOSTILE}, 0.9),
        groups=tuple(
            replace(made.ring_group([0, 2, 1, 3], rail), evidence={HOSTILE: made.SURE})
            for rail in range(2)
        ),
        anomalies=(*made.job().anomalies, anomaly),
        contradictions=(HOSTILE,),
    )
    telemetry = telemetry_document(made.telemetry((DecodeError(HOSTILE, HOSTILE, 24, HOSTILE, 2),)))
    telemetry["exporters"][0]["agent"] = HOSTILE
    page, document = _report(job, telemetry=telemetry)
    page.encode("utf-8")
    shown = HOSTILE.replace("\ud800", "?")
    assert Page(page).text.count(shown) > 20
    assert unescape(page).count("<script") == page.count("&lt;script")
    assert json.loads(json.dumps(document))["jobs"][0]["name"] == HOSTILE


def test_job_of_which_little_is_known() -> None:
    text = _text(
        made.job(
            name="llama",
            user="ada",
            source="slurm",
            status="ended",
            started_at_ns=START_NS - 86_400 * SECOND_NS,
            ended_at_ns=START_NS - 60 * SECOND_NS,
            evidence={},
            parallelism=Parallelism(None, None, None, None, None, (), {}, 0.0),
            groups=(),
            ranks=(),
            edges=(),
            period_s=None,
            period_ci_s=None,
            iterations=(),
            anomalies=(),
        )
    )
    for said in (
        "job-1: llama ended",
        "user ada, known from slurm.",
        "Seen since 2026-11-29 12:19:00 UTC (23 h 59 min), ended 2026-11-30 12:18:00 UTC.",
        "The job had ended before the telemetry that is described here.",
        "period ?",
        "dp, tp, pp, cp, ep not known: no reason given",
        "No complete iteration is known.",
        "No group is known.",
        "Anomalies None.",
    ):
        assert said in text, said
    assert "Counting samples" not in text
    assert "too late" not in text


def test_without_a_start_the_first_iteration_says_since_when() -> None:
    assert "Seen since 2026-11-30 12:19:00 UTC (8 s)." in _text(made.job(started_at_ns=None))
    nothing = made.job(started_at_ns=None, iterations=())
    assert "Seen since" not in _text(nothing)


def test_what_may_still_change_is_said() -> None:
    steps = made.iterations([1.0] * 30, cut_first=False)
    text = _text(made.job(), iterations=[replace(step, final=step.index < 28) for step in steps])
    assert "The last 2 may still change." in text
    assert "5 % below 1 s" in text
    one = _text(made.job(), iterations=[replace(step, final=step.index < 29) for step in steps])
    assert "The last may still change." in one


def test_very_many_edges_are_not_drawn_and_said() -> None:
    hosts = tuple(f"h{n}" for n in range(60))
    group = Group(
        id="ep-0",
        kind="ep",
        members=hosts,
        edges=tuple((a, b) for a in hosts for b in hosts if a != b),
        bytes_per_iteration=1e9,
        collective="all_to_all",
        algorithm="all_to_all",
        algorithms=(),
        confidence=0.9,
        evidence={},
    )
    job = made.job(hosts=hosts, endpoints=hosts, ranks=(), groups=(group,))
    page, _ = _report(job)
    assert "Not drawn: 3,540 edges of kind ep." in Page(page).text
    assert 'class="edge' not in page
    assert page.count('class="node"') == 60


def test_long_lists_are_cut_and_said() -> None:
    one = made.job().anomalies[0]
    many = [replace(one, id=f"a{n}", summary=f"number {n}.") for n in range(60)]
    telemetry = {**TELEMETRY, "exporters": TELEMETRY["exporters"] * 201}
    rings = tuple(
        replace(made.ring_group([0, 1], 0), members=(f"10.1.{n}.1", f"10.1.{n}.2"), edges=())
        for n in range(30)
    )
    text = _text(made.job(groups=rings), anomalies=many, telemetry=telemetry)
    assert "number 59." in text
    assert "number 10." in text
    assert "number 9." not in text
    assert "and 10 before these" in text
    assert "and 1 more exporters" in text
    assert "and 6 more drawings like these" in text


def test_exporters_that_did_worst_come_first() -> None:
    (one,) = TELEMETRY["exporters"]
    ipfix = {name: one[name] for name in ("protocol", "sampling_rates", "time_basis")} | {
        "agent": "b",
        "domain": 7,
        "clock_offset_s": None,
        "lost_datagrams": 0,
        "state": "ok",
    }
    exporters = [
        {**one, "agent": "a", "lost_datagrams": 0},
        ipfix,
        {**one, "agent": "c", "lost_datagrams": 9},
        {**one, "agent": "d", "state": "rate_unknown"},
    ]
    text = _text(made.job(), telemetry={**TELEMETRY, "exporters": exporters})
    places = [text.index(f" {name}/") for name in ("d", "c", "a", "b")]
    assert places == sorted(places)
    assert " b/7 sflow5 1:1,000 0 0 0 ok" in text
