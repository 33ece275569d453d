from __future__ import annotations

import re
from html.parser import HTMLParser

from api.reports.html import render_html
from collector.schema import DecodeError
from patterns.result import Rank
from tests.api import made

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Nesting(HTMLParser):
    """Fails on a tag that closes what is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _page(**changes: object) -> str:
    errors = (DecodeError(None, "a.pcap", 24, "cut <short>", 2),)
    return render_html(made.analysis(made.job(**changes)), made.telemetry(errors))


def test_page_is_well_formed_and_loads_nothing() -> None:
    page = _page(groups=(made.ring_group([0, 2, 1, 3], 0), made.chain_group([0, 1], 0)))
    parser = Nesting()
    parser.feed(page)
    assert parser.open == []
    assert parser.urls == []
    assert "http" not in page
    assert "@import" not in page


def test_page_shows_what_the_job_is() -> None:
    page = _page()
    assert "gpu-001 → gpu-003 → gpu-002 → gpu-004 → (gpu-001)" in page
    assert "dp: gpu-001 → gpu-003" in page
    assert page.count("marker-end") == 4
    assert page.count('<rect class="step"') == 5
    assert page.count('<rect class="slow"') == 1
    assert page.count('<rect class="cut"') == 1
    assert "iteration 5 took 1.55 s" in page
    assert "tp inside the hosts draws the same rings" in page
    assert "cut &lt;short&gt; (2 times)" in page


def test_names_are_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    ranks = tuple(
        Rank(made.address(host, 0), hostile if host == 0 else f"h{host}", {}, None, {})
        for host in range(4)
    )
    page = _page(id=hostile, ranks=ranks, groups=(made.ring_group([0, 1, 2, 3], 0),))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_window_without_a_job() -> None:
    assert "No training job in this window" in render_html(made.analysis(), made.telemetry())


def test_two_way_edges_have_no_arrow() -> None:
    page = _page(groups=(made.chain_group([0, 1, 2, 3], 0),))
    assert "marker-end" not in page
    assert len(re.findall(r'class="edge pp"', page)) == 3
