from __future__ import annotations

from dataclasses import replace

import pytest

from api.reports.text import render_text
from collector.schema import ExporterNote
from tests.api import made

PICTURE = """\
ringscope  1 job in 8.0 s from 2026-11-30 12:19:00 UTC, 4 samples

job-1  training  4 hosts, 8 endpoints  sure 0.96
────────────────────────────────────────────────────────────────────────────────
hosts     gpu-001, gpu-002, gpu-003, gpu-004
period    1 s ± 2 ms  sure 0.97
sizes     dp ?  tp ?  pp 1  cp 1  ep 1  sure 0.90
          dp 4 tp 2 or dp 8

dp        ring  all_reduce  2 groups of 4  1.23 GB an iteration each  sure 0.97
      ×2  gpu-001 → gpu-003 → gpu-002 → gpu-004 → (gpu-001)

steps     6 complete of 7, 990 ms to 1.55 s, 1 slow
       0  ·▂▃▂▂█▂
               ▲

warning   slow_iteration  12:19:04.849 to 12:19:06.399  undecided  sure 0.95
          iteration 5 took 1.55 s, 55 % longer than usual
          job job-1
hint      1.00 GB to 2.00 GB of gradients in each replica of a stage  sure 0.75
hint      8 micro-batches an iteration  sure 0.70
unknown   dp: tp inside the hosts draws the same rings
unknown   tp: never on the wire

no job    1.50 MB (storage 1.40 MB, unknown 100 kB) on 10.9.0.1
telemetry 4 flow and 2 counter samples in 3 datagrams, 1 lost, 0 decode errors
          sflow5  time by exporter  ok  1:1,000  10.255.0.1/100000
"""


def test_picture_of_a_job() -> None:
    assert render_text(made.analysis(made.job()), made.telemetry(), width=80) == PICTURE


def test_no_job_is_said() -> None:
    assert "No training job in this window." in render_text(made.analysis(), made.telemetry())


@pytest.mark.parametrize("width", [40, 72, 200])
def test_lines_keep_to_the_width(width: int) -> None:
    groups = (made.ring_group([0, 2, 1, 3], 0), made.chain_group([0, 1, 2, 3], 1))
    text = render_text(made.analysis(made.job(groups=groups)), made.telemetry(), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_colour_only_where_asked() -> None:
    plain = render_text(made.analysis(made.job()), made.telemetry())
    coloured = render_text(made.analysis(made.job()), made.telemetry(), colour=True)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured


def test_names_are_not_markup() -> None:
    text = render_text(made.analysis(made.job(id="[red]job[/red]")), made.telemetry())
    assert "[red]job[/red]" in text


def test_hundreds_of_groups_stay_readable() -> None:
    groups = tuple(made.ring_group([host, host + 1], 0, f"g{host}") for host in range(0, 200, 2))
    text = render_text(made.analysis(made.job(groups=groups)), made.telemetry())
    assert "... and 88 more like these" in text
    assert len(text.splitlines()) < 50


def test_what_happened_to_exporters_is_told() -> None:
    told = made.telemetry()
    start_ns = 1_796_041_140_000_000_000
    notes = tuple(
        ExporterNote(start_ns + n * 10**9, "restarted", f"it started again: {n}", 1 + 2 * (n == 0))
        for n in range(12)
    )
    told = replace(told, exporters=(replace(told.exporters[0], notes=notes),))
    text = render_text(made.analysis(made.job()), told, width=100)
    assert "12:19:00.000  10.255.0.1/100000  it started again: 0 (3 times)" in text
    assert "12:19:09.000  10.255.0.1/100000  it started again: 9\n" in text
    assert "it started again: 10" not in text
    assert "and 2 more: see notes of the json" in text
