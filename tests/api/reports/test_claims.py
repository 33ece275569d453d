from __future__ import annotations

from dataclasses import replace

from api.reports.claims import Statement, named, statements_of
from api.reports.picture import blocks_of
from patterns.result import Claim
from tests.api import made


def test_all_statements_of_a_job() -> None:
    unsure = replace(
        made.ring_group([0, 2, 1, 3], 1),
        evidence={
            "kind": Claim(0.6, "seen twice", 2),
            "members": made.SURE,
            "order": made.SURE,
            "reach": made.SURE,
        },
    )
    rows = statements_of(made.job(groups=(made.ring_group([0, 2, 1, 3], 0), unsure)))
    about = "dp: 2 × ring of 4"
    assert rows == (
        Statement("job", "8 endpoints on 4 hosts belong together", 0.97, 0.97, "by shape", 1200),
        Statement("job", "period 1 s", 0.97, 0.97, "by shape", 1200),
        Statement(
            "sizes", "dp not known", None, None, "tp inside the hosts draws the same rings", None
        ),
        Statement("sizes", "tp not known", None, None, "never on the wire", None),
        Statement(about, "4 members each", 0.97, 0.97, "by shape", 1200),
        Statement(about, "kind dp", 0.6, 0.97, "seen twice", 2),
        Statement(about, "order of the members", 0.97, 0.97, "by shape", 1200),
        Statement(about, "reach", 0.97, 0.97, "by shape", 1200),
        Statement(
            "hint",
            "1.00 GB to 2.00 GB of gradients in each replica of a stage",
            0.75,
            0.75,
            "rings move them twice",
            1200,
        ),
        Statement(
            "hint", "8 micro-batches an iteration", 0.7, 0.7, "8 bursts in 6 of 6 links", 300
        ),
    )


def test_sizes_with_one_reason_share_a_row() -> None:
    sizes = replace(made.job().parallelism, basis={"pp": "no chain", "cp": "no chain", "dp": "x"})
    rows = [row for row in statements_of(made.job(parallelism=sizes)) if row.about == "sizes"]
    assert rows == [
        Statement("sizes", "dp not known", None, None, "x", None),
        Statement("sizes", "pp 1, cp 1", 0.9, 0.9, "no chain", None),
    ]


def test_period_that_is_not_known() -> None:
    job = made.job(period_s=None, period_ci_s=None, groups=())
    assert [row.says for row in statements_of(job)][1] == "no period"


def test_blocks_in_a_few_words() -> None:
    groups = (
        made.chain_group([0, 1], 0),
        replace(made.ring_group([0, 1, 2], 0), algorithm="unknown"),
    )
    assert [named(block) for block in blocks_of(made.job(groups=groups))] == [
        "group of 3",
        "chain of 2",
    ]
