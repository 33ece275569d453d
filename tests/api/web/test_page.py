"""What stands on the page, in a browser, over canned answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import atan2, pi

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from patterns.result import Anomaly, Subject
from tests.api import made
from tests.api.web.answers import Answers
from tests.api.web.conftest import Page, log

Open = Callable[[Answers], Page]
RING = ["gpu-001", "gpu-003", "gpu-002", "gpu-004"]  # as `made.job` draws it, on each rail
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>&amp;\'">'


def test_jobs_are_listed_with_what_is_not_known(page: Open) -> None:
    shown = page(Answers(made.job(name="llama", user="mia")))
    shown.open()
    row = shown.text("tr[data-key='job-1']")
    for said in ("job-1", "llama", "mia, inferred", "training", "4 hosts", "8 endpoints"):
        assert said in row
    for said in ("1.000 s", "± 2.0 ms", "dp ?", "tp ?", "pp 1", "6 iterations", "0.96"):
        assert said in row
    assert "12:19:00" in row  # since
    assert shown.texts(".size.unknown") == ["dp ?", "tp ?"]
    assert shown.tip(".size.unknown") == [
        "dp not known, sizes sure 0.90",
        "tp inside the hosts draws the same rings",
    ]


def test_candidates_open_and_stay_open(page: Open) -> None:
    answers = Answers(made.job())
    shown = page(answers)
    shown.open()
    assert "dp 4 tp 2" not in shown.text("tr[data-key='job-1']")
    shown.press(".candidates summary")
    assert "dp 4 tp 2\ndp 8" in shown.text("tr[data-key='job-1']")
    answers.documents[0]["status"] = "hung"
    answers.refresh()
    shown.until("document.querySelector('.status.hung')")
    assert "dp 4 tp 2\ndp 8" in shown.text("tr[data-key='job-1']")


def test_ring_stands_in_its_order_and_equal_rails_are_one(page: Open) -> None:
    shown = page(Answers(made.job()))
    shown.open("#/jobs/job-1")
    shown.until("document.querySelector('figure svg')")
    assert len(shown.texts("figure svg")) == 1
    assert shown.texts("figure .times") == ["×2"]
    assert "×2 rails" in shown.text("figcaption")
    assert _clockwise(shown, "figure svg") == RING
    successors = zip(RING, [*RING[1:], RING[0]], strict=True)
    assert sorted(_edges(shown, "figure .edge")) == sorted(successors)
    assert len(shown.texts("figure .arrow")) == len(RING)


def test_edges_and_nodes_say_what_they_are(page: Open) -> None:
    shown = page(Answers(made.job()))
    shown.open("#/jobs/job-1")
    edge = shown.tip("figure .edge[data-from='gpu-001'][data-to='gpu-003']")
    assert edge[0] == "gpu-001 → gpu-003"
    # 6.1 GB of one edge are all that was seen: all of the group's bytes are put down to it.
    assert edge[1] == "10.0.0.1 → 10.0.0.3: 1.23 GB an iteration"
    assert edge[2] == "10.0.1.1 → 10.0.1.3: no bytes seen"
    assert edge[3] == "dp ring, all reduce: dp-0, dp-1"
    assert edge[4] == "sure 0.97: by shape (1,200 samples)"
    node = shown.tip("figure .node[data-name='gpu-002']")
    assert node == ["gpu-002", "10.0.0.2: rank dp 1 (in dp-0)", "10.0.1.2: rank dp 1 (in dp-1)"]
    assert "by shape" in shown.text(".basis table")


def test_chains_are_rows_by_stage(page: Open) -> None:
    chains = tuple(made.chain_group([2, 0, 3], rail) for rail in range(made.RAILS))
    shown = page(Answers(made.job(groups=chains)))
    shown.open("#/jobs/job-1")
    shown.until("document.querySelectorAll('.chains .node').length")
    names = "[...document.querySelectorAll('.chains .node')]"
    order = f"{names}.sort((a, b) => a.getBBox().x - b.getBBox().x).map((n) => n.dataset.name)"
    assert shown.run(order) == ["gpu-003", "gpu-001", "gpu-004"]
    assert "×2 rails" in shown.texts(".chains .rails")
    both_ways = [("gpu-001", "gpu-003"), ("gpu-001", "gpu-004")]
    both_ways += [(dst, src) for src, dst in both_ways]
    assert sorted(_edges(shown, ".chains .edge")) == sorted(both_ways)


def test_trees_grow_from_their_root(page: Open) -> None:
    members = tuple(made.address(host, 0) for host in range(4))
    one = {members[1]: members[0], members[2]: members[1], members[3]: members[1]}
    other = {members[2]: members[3], members[1]: members[2], members[0]: members[2]}
    shown = page(Answers(made.job(groups=(made.tree_group([one, other], members),))))
    shown.open("#/jobs/job-1")
    # Each host has a second NIC, so that a host's name would not say which one is meant.
    shown.until("document.querySelectorAll('svg.tree').length === 2")
    depths = """[...document.querySelectorAll('svg.tree')].map((svg) =>
        Object.fromEntries([...svg.querySelectorAll('.node')].map((node) =>
            [node.dataset.name, Number(node.querySelector('.disc').getAttribute('cx'))])))"""
    trees = sorted(shown.run(depths), key=lambda tree: float(tree[members[0]]))
    for parents, places in zip((one, other), trees, strict=True):
        assert set(places) == set(members)
        assert all(places[child] > places[parent] for child, parent in parents.items())


def test_map_draws_pipelines_across_rings(page: Open) -> None:
    groups = (
        made.ring_group([0, 1], 0, "first"),
        made.ring_group([2, 3], 0, "second"),
        made.chain_group([0, 2], 0),
        replace(made.chain_group([1, 3], 0), id="pp-other"),
    )
    shown = page(Answers(made.job(groups=groups)))
    shown.open("#/jobs/job-1")
    shown.until("document.querySelector('svg.map')")
    assert sorted(_edges(shown, ".map .edge.pp")) == [
        ("gpu-001", "gpu-003"),
        ("gpu-002", "gpu-004"),
    ]
    assert sorted(shown.texts(".tabs b")) == ["chain", "map of the job", "ring"]
    shown.press(".tabs button:nth-child(2)")
    shown.until("document.querySelectorAll('figure').length === 2")
    shown.press("figure [data-shape]")
    shown.until("document.querySelectorAll('figure').length === 1")


def test_iterations_tell_final_slow_and_cut_apart(page: Open) -> None:
    shown = page(Answers(made.job()))
    shown.open("#/jobs/job-1")
    shown.until("document.querySelectorAll('.chart .bar').length === 7")
    states = "[...document.querySelectorAll('.chart .bar')].map((bar) => bar.classList[1])"
    assert shown.run(states) == ["cut", "final", "final", "final", "final", "slow", "final"]
    assert "iteration 5: 1.550 s, +55.0 % of the usual" in shown.tip(".bar.slow")[0]
    rows = shown.texts(".steps tbody tr")
    assert len(rows) == 7
    assert rows[0].startswith("6")
    assert rows[0].endswith("final")
    assert rows[-1].endswith("cut")
    assert "> 400.0 ms" in rows[-1]


def test_iterations_come_without_a_reload(page: Open) -> None:
    answers = Answers(made.job())
    shown = page(answers)
    shown.open("#/jobs/job-1")
    shown.until("document.querySelectorAll('.chart .bar').length === 7")
    shown.run("window.before = document.querySelector('.chart .bar[data-index=\"6\"]')")
    steps = answers.documents[0]["iterations"]
    start = steps[-1]["end"]
    end = start.replace(start[17:19], f"{int(start[17:19]) + 1:02d}")
    new = {**steps[-1], "index": 7, "start": start, "end": end, "final": False}
    steps.append(new)
    answers.refresh()
    shown.until("document.querySelectorAll('.chart .bar.provisional').length === 1")
    bars = "[...document.querySelectorAll('.chart .bar')]"
    by_place = f"{bars}.sort((a, b) => a.getBBox().x - b.getBBox().x)"
    assert shown.run(f"{by_place}.at(-1).dataset.index") == "7"
    assert shown.run("window.before === document.querySelector('.chart .bar[data-index=\"6\"]')")
    new["final"] = True
    answers.refresh()
    shown.until("document.querySelector('.chart .bar[data-index=\"7\"]').matches('.final')")


def test_anomalies_say_verdict_subjects_and_evidence(page: Open) -> None:
    link = Anomaly(
        id="link-1",
        kind="slow_link",
        severity="critical",
        start_ns=made.START_NS,
        end_ns=None,
        verdict="network",
        subjects=(Subject("link", "leaf-1:Ethernet0"), Subject("host", "gpu-002")),
        summary="leaf-1:Ethernet0 carries 40 % less",
        evidence={"ratio": 0.6},
        confidence=0.91,
    )
    shown = page(Answers(replace(made.job(), anomalies=(link, *made.job().anomalies))))
    shown.open("#/anomalies")
    first = shown.text(".anomaly.critical")
    for said in ("critical", "slow link", "job-1", "network", "open", "0.91"):
        assert said in first
    assert "leaf-1:Ethernet0 carries 40 % less" in first
    assert shown.texts(".anomaly.critical .subject") == ["link leaf-1:Ethernet0", "host gpu-002"]
    assert shown.texts(".anomaly.critical dd") == ["0.6"]
    assert "undecided" in shown.text(".anomaly.warning")
    assert shown.text("#count-anomalies") == "1"


def test_exporters_say_how_they_sample(page: Open) -> None:
    answers = Answers(made.job())
    blind = {**answers.telemetry["exporters"][0], "agent": "10.255.0.2", "sampling_rates": []}
    answers.telemetry["exporters"].append({**blind, "state": "counters_only"})
    answers.service["exporters"].append({**blind, "agent": "10.255.0.3"})
    answers.refresh()
    shown = page(answers)
    shown.open("#/exporters")
    shown.until("document.querySelectorAll('.exporters tbody tr').length === 3")
    rows = [
        row.split("\n")
        for row in shown.run(
            "[...document.querySelectorAll('.exporters tbody tr')].map((row) =>"
            " [...row.cells].map((cell) => cell.innerText).join('\\n'))"
        )
    ]
    assert rows[0][:4] == ["10.255.0.1 sub 100000", "ok", "1:1,000", "exporter"]
    assert rows[0][9] == "1"  # lost
    assert rows[1][1:3] == ["counters only", "?"]
    assert rows[2][1] == "silent"
    assert rows[0][4] == "?"  # its samples carry no time of their own
    answers.telemetry["exporters"][1].update(
        clock_offset_s=-3.204,
        clock={
            **blind["clock"],
            "basis": "hops",
            "error_s": 0.000_02,
            "samples": 5387,
            "corrected_s": -3.2,
        },
        dropped_samples=30,
        notes=[
            {
                "time": "2026-11-30T12:19:08.000000000Z",
                "kind": "restarted",
                "text": "its agent started again: its uptime fell",
                "count": 2,
            }
        ],
    )
    answers.refresh()
    shown.until("document.querySelector('.notes li')")
    assert shown.texts(".notes li") == [
        "12:19:08 10.255.0.2 its agent started again: its uptime fell 2 times"
    ]
    cells = shown.run(
        "[...document.querySelectorAll('.exporters tbody tr')[1].cells].map((c) => c.innerText)"
    )
    assert (cells[4], cells[10]) == ("−3.20 s ± 0.020 ms", "30")


@pytest.mark.parametrize(
    ("service", "exporter", "window", "says"),
    [
        ({"datagrams": 0, "flow_samples": 0}, {}, False, "No datagram has come yet."),
        ({"refused_datagrams": 7}, {}, False, "7 datagrams came from addresses outside"),
        ({"flow_samples": 0}, {}, False, "no flow sample is among them"),
        ({}, {"state": "rate_unknown"}, True, "The sampling rate of 10.255.0.1 is unknown."),
        ({}, {}, False, "the first window is not analysed yet"),
        ({}, {}, True, "none of a training job: storage 1.40 MB."),
    ],
)
def test_without_a_job_it_says_what_is_missing(
    page: Open, service: dict[str, int], exporter: dict[str, str], window: bool, says: str
) -> None:
    answers = Answers()
    answers.service.update(service)
    answers.telemetry["exporters"][0].update(exporter)
    answers.window = answers.window if window else None
    answers.refresh()
    shown = page(answers)
    shown.open()
    assert says in shown.text(".missing")


def test_silence_is_said_and_ends(page: Open) -> None:
    answers = Answers(made.job())
    shown = page(answers)
    shown.open()
    shown.until("document.querySelector('tr[data-key=\"job-1\"]')")
    answers.silent = True
    assert "The service does not answer" in shown.text("#trouble p")
    assert "job-1" in shown.text("tr[data-key='job-1']")  # what was known stays
    assert shown.run("document.getElementById('main').matches('.stale')")
    answers.silent = False
    shown.until("!document.querySelector('#trouble p')")
    assert not shown.run("document.getElementById('main').matches('.stale')")


def test_failing_checks_and_unknown_jobs_are_said(page: Open) -> None:
    answers = Answers(made.job())
    answers.checks = [{"name": "store", "ok": False, "reason": "disk is full"}]
    answers.refresh()
    shown = page(answers)
    shown.open()
    assert shown.text("#trouble") == "store does not work: disk is full"
    shown.open("#/jobs/job-9")
    assert "no job has this id" in shown.text("#trouble")


def test_hidden_page_does_not_ask(page: Open) -> None:
    answers = Answers(made.job())
    shown = page(answers)
    shown.open()
    shown.until("document.querySelector('tr[data-key=\"job-1\"]')")
    hide = """Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true}),
        document.dispatchEvent(new Event('visibilitychange'))"""
    shown.run(hide, True)
    time.sleep(3)  # a question may be on its way
    asked = len(answers.asked)
    time.sleep(3)
    assert len(answers.asked) == asked
    shown.run(hide, False)
    deadline = time.monotonic() + 60
    while len(answers.asked) == asked and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(answers.asked) > asked


def test_hostile_names_stay_text(page: Open) -> None:
    job = made.job(name=HOSTILE, user=HOSTILE)
    ranks = tuple(replace(rank, host=HOSTILE + rank.host) for rank in job.ranks)
    slow = replace(job.anomalies[0], summary=HOSTILE, subjects=(Subject("host", HOSTILE),))
    hosts = tuple(HOSTILE + host for host in job.hosts)
    groups = tuple(replace(group, id=HOSTILE + group.id) for group in job.groups)
    job = replace(
        job, ranks=ranks, hosts=hosts, groups=groups, anomalies=(slow,), contradictions=(HOSTILE,)
    )
    answers = Answers(job)
    answers.telemetry["exporters"][0]["agent"] = HOSTILE
    answers.telemetry["errors"] = [
        {"exporter": HOSTILE, "file": None, "offset": None, "reason": HOSTILE, "count": 2}
    ]
    answers.refresh()
    shown = page(answers)
    for route, selector in (
        ("", ".jobs .name"),
        ("#/jobs/job-1", ".heading .name"),
        ("#/anomalies", ".summary"),
        ("#/exporters", ".exporters .address"),
    ):
        shown.open(route)
        assert shown.text(selector) == HOSTILE
        assert shown.run("document.querySelectorAll('main img, main script').length") == 0
        assert shown.run("window.pwned === undefined")
    shown.open("#/jobs/job-1")
    shown.until("document.querySelector('figure svg')")
    assert shown.tip("figure .node")[0].startswith(HOSTILE)
    assert shown.run("document.querySelectorAll('#tip *:not(div)').length") == 0
    shown.open("#/jobs/" + "%3Cimg src=x onerror=window.pwned=1%3E")
    assert "no job has this id" in shown.text("#trouble")
    assert shown.run("window.pwned === undefined")


def test_keys_reach_jobs_and_bars(page: Open) -> None:
    shown = page(Answers(made.job()))
    shown.open()
    shown.until("document.querySelector('tr[data-key=\"job-1\"]')")
    focused = "document.activeElement"
    body = shown.browser.find_element(By.TAG_NAME, "body")
    for _ in range(20):
        body.send_keys(Keys.TAB)
        if shown.run(f"{focused}.matches('.jobs a.id')"):
            break
        body = shown.browser.switch_to.active_element
    shown.browser.switch_to.active_element.send_keys(Keys.ENTER)
    shown.until("document.querySelector('.chart .bar.slow')")
    shown.run("document.querySelector('.chart .bar[tabindex=\"0\"]').focus()")
    shown.browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert shown.run(f"{focused}.dataset.index") == "5"
    assert "iteration 5" in shown.texts("#tip div")[0]
    shown.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert shown.run("document.getElementById('tip').hidden")


@pytest.mark.parametrize("route", ["", "#/jobs/job-1", "#/anomalies", "#/exporters"])
def test_phone_needs_no_scrolling_sideways(page: Open, route: str) -> None:
    shown = page(Answers(made.job(name="a-rather-long-name-of-a-job-" * 4)))
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    shown.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    shown.open(route)
    shown.until("document.querySelector('#state.live') && document.querySelector('main section')")
    assert shown.run("document.documentElement.scrollWidth") == 390


def test_requests_and_console_are_watched(page: Open) -> None:
    """What every test here asserts in the end can fail."""
    shown = page(Answers(made.job()))
    shown.open()
    shown.until("document.querySelector('tr[data-key=\"job-1\"]')")
    assert f"{shown.address}/static/app.js" in shown.requested()
    shown.run("console.error('a fault of the page')")
    (said,) = log(shown.browser, "browser")
    assert "a fault of the page" in said["message"]


def _edges(shown: Page, selector: str) -> list[tuple[str, str]]:
    script = (
        "[...document.querySelectorAll(arguments[0])].map((e) => [e.dataset.from, e.dataset.to])"
    )
    return [(src, dst) for src, dst in shown.run(script, selector)]


def _clockwise(shown: Page, selector: str) -> list[str]:
    """Names of the nodes of a drawing, clockwise from the top."""
    script = """[...document.querySelector(arguments[0]).querySelectorAll('.node')].map((node) => {
        const disc = node.querySelector('.disc');
        return [node.dataset.name, +disc.getAttribute('cx'), +disc.getAttribute('cy')];
    })"""
    nodes = shown.run(script, selector)
    centre_x = sum(x for _, x, _ in nodes) / len(nodes)
    centre_y = sum(y for _, _, y in nodes) / len(nodes)

    def turn(node: tuple[str, float, float]) -> float:
        angle = atan2(node[2] - centre_y, node[1] - centre_x) + pi / 2
        return round(angle % (2 * pi), 6) % round(2 * pi, 6)

    return [name for name, _, _ in sorted(nodes, key=turn)]
