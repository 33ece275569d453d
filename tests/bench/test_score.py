"""Every formula of bench.score against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.claims import reliability
from bench.compare import Verdict
from bench.score import Overlap, Ratio, confident, score
from tests.bench.documents import anomaly, at, chain, document, iterations, job, ring
from tests.bench.scored import Json, errors, scored, verdicts


def pipeline() -> Json:
    """Two stages of four: two dp rings of 400 bytes, four pp pairs of 20 bytes each way."""
    pairs = [
        chain(f"pp-{a}", [a, b], bytes_per_iteration=40.0)
        for a, b in zip("abcd", "efgh", strict=True)
    ]
    return job("t", [ring("dp-0", "abcd"), ring("dp-1", "efgh"), *pairs])


def test_a_truth_against_itself_is_right_in_everything() -> None:
    truth = document(pipeline(), scenario="s", seed=3, level="rich")
    s = score(truth, truth)
    assert (s.scenario, s.seed, s.level) == ("s", 3, "rich")
    assert (s.jobs.true, s.jobs.exact, s.jobs.missed, s.jobs.false) == (1, 1, 0, 0)
    assert set(verdicts(s.sizes + s.algorithms + s.rings + s.chains)) == {Verdict.RIGHT}
    assert (len(s.sizes), len(s.algorithms), len(s.rings), len(s.chains)) == (5, 6, 2, 4)
    assert s.role == Ratio(960.0, 960.0)
    assert s.members == Overlap(16, 16, 16)  # two rings of 6 pairs, four of one
    assert s.groups_exact == Ratio(6, 6)
    assert s.groups_invented == 0
    assert errors(s.group_bytes) == [0.0] * 6
    assert errors(s.periods) == [0.0]
    assert s.boundaries[0].raw == (0.0,) * 4
    assert all(claim.right for claim in s.claims)


class TestJobs:
    def test_pairs_go_by_the_largest_common_part(self) -> None:
        truth = document(job("t1", [ring("g", "abcd")]), job("t2", [ring("g", "efgh")]))
        result = document(job("r2", [ring("g", "efgh")]), job("r1", [ring("g", "abcx")]))
        s = score(truth, result)
        assert (s.jobs.true, s.jobs.exact, s.jobs.missed, s.jobs.false) == (2, 1, 0, 0)
        assert not s.jobs.all_exact

    def test_split_job_is_neither_exact_nor_missed_and_one_half_is_false(self) -> None:
        truth = document(job("t", [ring("g", "abcdef")]))
        result = document(job("r1", [ring("g", "abcd")]), job("r2", [ring("g", "ef")]))
        s = score(truth, result)
        assert (s.jobs.true, s.jobs.exact, s.jobs.missed, s.jobs.false) == (1, 0, 0, 1)

    def test_nothing_in_common_is_missed_and_false(self) -> None:
        s = score(document(job("t", [ring("g", "abc")])), document(job("r", [ring("g", "xyz")])))
        assert (s.jobs.missed, s.jobs.false) == (1, 1)
        assert verdicts(s.rings) == [Verdict.MISSING]
        assert s.role == Ratio(0.0, 300.0)
        assert errors(s.periods) == [None]
        assert s.boundaries[0].raw == (1.0,) * 4
        assert not any(claim.right for claim in s.claims)

    def test_no_job_in_both_has_nothing_to_score_and_is_exact(self) -> None:
        s = score(document(), document())
        assert s.jobs.all_exact
        assert s.role.value is None
        assert s.members.f1 is None
        assert s.claims == ()

    def test_no_job_in_truth(self) -> None:
        s = score(document(), document(job("r", [ring("g", "abc")])))
        assert not s.jobs.all_exact
        assert s.members == Overlap(0, 0, 3)
        assert s.members.f1 == 0.0
        assert s.groups_invented == 1


class TestSizes:
    def judged(self, **sizes: Any) -> dict[str, Verdict]:
        truth = document(job("t", [ring("g", "abcd")], parallelism=SIZES))
        said = SIZES | {"candidates": [], "confidence": 0.9} | sizes
        result = document(job("r", [ring("g", "abcd")], parallelism=said))
        return {j.subject.split()[1]: j.verdict for j in score(truth, result).sizes}

    def test_stated(self) -> None:
        got = self.judged(tp=1, dp=32)
        assert got["tp"] is got["dp"] is Verdict.WRONG
        assert got["pp"] is Verdict.RIGHT

    def test_null_is_in_candidates_if_one_agrees_on_every_key_it_names(self) -> None:
        got = self.judged(tp=None, dp=None, candidates=[{"tp": 1, "dp": 32}, {"tp": 8, "dp": 4}])
        assert got["tp"] is got["dp"] is Verdict.IN_CANDIDATES

    def test_a_candidate_that_is_half_right_does_not_count(self) -> None:
        got = self.judged(tp=None, dp=None, candidates=[{"tp": 8, "dp": 32}, {"tp": 1, "dp": 4}])
        assert got["tp"] is got["dp"] is Verdict.ABSTAINED

    def test_a_candidate_must_name_the_kind(self) -> None:
        got = self.judged(tp=None, dp=None, candidates=[{}, {"tp": 8}])
        assert got["tp"] is Verdict.IN_CANDIDATES
        assert got["dp"] is Verdict.ABSTAINED

    @pytest.mark.parametrize(
        ("alternatives", "listed", "expected"),
        [
            ([], [{"tp": 8, "dp": 4}, {"tp": 1, "dp": 32}], Ratio(1, 2)),
            ([{"tp": 1, "dp": 32}], [{"tp": 8, "dp": 4}, {"tp": 1, "dp": 32}], Ratio(2, 2)),
            ([{"tp": 1, "dp": 32}], [{"tp": 1, "dp": 4}, {"tp": 8}], Ratio(1, 2)),
            ([{"tp": 1, "dp": 32}], [], Ratio(0, 0)),
        ],
    )
    def test_candidates_that_the_edges_rule_out(
        self, alternatives: list[Json], listed: list[Json], expected: Ratio
    ) -> None:
        true = job("t", [ring("g", "abcd")], parallelism=SIZES | {"candidates": alternatives})
        said = job("r", [ring("g", "abcd")], parallelism=SIZES | {"candidates": listed})
        assert score(document(true), document(said)).candidates == expected


SIZES = {"dp": 4, "tp": 8, "pp": 1, "cp": 1, "ep": 1}


class TestRoles:
    def test_by_bytes(self) -> None:
        said = pipeline()
        for wrong in said["groups"][2:]:
            wrong["kind"] = "tp"
        s = score(document(pipeline()), document(said))
        assert s.role == Ratio(800.0, 960.0)

    def test_an_edge_counts_for_each_of_its_groups(self) -> None:
        # The embedding pair shares both edges of the chain's pair: 40 = 30 + 10 each way.
        edges = [
            {"src": "a", "dst": "b", "bytes_per_iteration": 40.0},
            {"src": "b", "dst": "a", "bytes_per_iteration": 40.0},
        ]
        embedding = ring("e", "ab", bytes_per_iteration=20.0)
        true = job("t", [chain("c", "ab", bytes_per_iteration=60.0), embedding], edges=edges)
        s = score(document(true), document(job("r", [chain("c", "ab")])))
        assert s.role == Ratio(60.0, 80.0)

    def test_own_bytes_of_an_edge_replace_the_group_mean(self) -> None:
        edges = [{"src": "a", "dst": "b", "bytes_per_iteration": 500.0}]
        true = job("t", [ring("g", "abc"), ring("h", "xyz")], edges=edges)
        s = score(document(true), document(job("r", [ring("g", "abc"), ring("h", "xyz", "ep")])))
        assert s.role == Ratio(700.0, 1000.0)


class TestGroups:
    def test_membership_f1(self) -> None:
        # Truth: one group of 4 (6 pairs). Result: two of 2 (2 pairs), both true. F1 = 2*2/(6+2).
        s = scored([ring("g", "abcd")], [ring("g", "ab"), ring("h", "cd")])
        assert s.members == Overlap(2, 6, 2)
        assert s.members.f1 == 0.5
        assert s.members.precision == 1.0
        assert s.members.recall == pytest.approx(1 / 3)
        assert s.groups_exact == Ratio(0, 1)
        assert s.groups_invented == 1

    def test_membership_is_by_kind(self) -> None:
        assert scored([ring("g", "abc")], [ring("g", "abc", "tp")]).members == Overlap(0, 3, 3)

    def test_groups_on_the_same_edges_are_told_apart_by_kind(self) -> None:
        s = scored(
            [chain("c", "ab"), ring("e", "ab")],
            [ring("e", "ab", bytes_per_iteration=220.0), chain("c", "ab")],
        )
        assert s.groups_exact == Ratio(2, 2)
        assert errors(s.group_bytes) == [0.0, pytest.approx(0.1)]

    def test_algorithm(self) -> None:
        true = [ring("g", "abc"), ring("h", "def"), ring("i", "ghi")]
        said = [
            ring("g", "abc"),
            ring("h", "def", algorithm="unknown"),
            ring("i", "ghi", algorithm="tree"),
        ]
        s = scored(true, said)
        assert verdicts(s.algorithms) == [Verdict.RIGHT, Verdict.ABSTAINED, Verdict.WRONG]


class TestVolumes:
    def test_group_bytes(self) -> None:
        true = [ring("g", "abc"), ring("h", "def")]
        said = [
            ring("g", "abc", bytes_per_iteration=297.0),
            ring("h", "def", bytes_per_iteration=None),
        ]
        assert errors(scored(true, said).group_bytes) == [pytest.approx(0.01), None]

    def test_edge_bytes_split_the_group_by_what_the_window_saw(self) -> None:
        # 330 bytes of the group; the window saw 2200, 2000, 1800 of 6000: 121, 110 and 99.
        seen = zip(("ab", "bc", "ca"), (2200.0, 2000.0, 1800.0), strict=True)
        edges = [{"src": e[0], "dst": e[1], "bytes": volume} for e, volume in seen]
        said = job("r", [ring("g", "abc", bytes_per_iteration=330.0)], edges=edges)
        s = score(document(job("t", [ring("g", "abc")])), document(said))
        assert [m.subject for m in s.edge_bytes] == ["t g a>b", "t g b>c", "t g c>a"]
        assert errors(s.edge_bytes) == pytest.approx([0.21, 0.10, 0.01])

    def test_an_edge_that_was_not_seen_has_no_error(self) -> None:
        edges = [{"src": "a", "dst": "b", "bytes": 5.0}, {"src": "b", "dst": "c", "bytes": 5.0}]
        said = job("r", [ring("g", "abc", bytes_per_iteration=200.0)], edges=edges)
        s = score(document(job("t", [ring("g", "abc")])), document(said))
        assert errors(s.edge_bytes) == [0.0, 0.0, None]

    def test_period(self) -> None:
        said = job("r", [ring("g", "abc")], period_s=1.002)
        s = score(document(job("t", [ring("g", "abc")])), document(said))
        assert errors(s.periods) == [pytest.approx(0.002)]


class TestBoundaries:
    def of(self, ends: list[float], true: Sequence[float] = (2, 4, 6, 8), **changes: Any) -> Any:
        ended = iterations(list(true), 2.0)
        truth = job("t", [ring("g", "abc")], period_s=2.0, iterations=ended)
        said = job("r", [ring("g", "abc")], iterations=iterations(ends, 2.0)) | changes
        return score(document(truth), document(said)).boundaries[0]

    def test_errors_in_periods(self) -> None:
        got = self.of([2.1, 4.0, 5.9, 8.4])
        assert got.raw == pytest.approx([0.05, 0.0, 0.05, 0.2])
        assert got.offset_s == pytest.approx(0.05)  # median of 0.1, 0, -0.1, 0.4
        assert got.aligned == pytest.approx([0.025, 0.025, 0.075, 0.175])

    def test_one_constant_offset_is_taken_away(self) -> None:
        got = self.of([2.4, 4.4, 6.4, 8.4])
        assert got.raw == pytest.approx([0.2] * 4)
        assert got.aligned == pytest.approx([0.0] * 4)

    def test_a_missed_one_costs_a_period(self) -> None:
        got = self.of([2.0, 4.0, 8.0])
        assert sorted(got.raw) == [0.0, 0.0, 0.0, 1.0]
        assert (got.missed, got.invented) == (1, 0)

    def test_an_invented_one_costs_a_period(self) -> None:
        got = self.of([2.0, 4.0, 5.2, 6.0, 8.0])
        assert sorted(got.raw) == sorted(got.aligned) == [0.0, 0.0, 0.0, 0.0, 1.0]
        assert (got.missed, got.invented) == (0, 1)

    def test_further_than_half_a_period_is_missed_and_invented(self) -> None:
        got = self.of([2.0, 4.0, 6.0, 9.5])
        assert sorted(got.raw) == [0.0, 0.0, 0.0, 1.0, 1.0]

    def test_incomplete_iterations_do_not_count(self) -> None:
        ends = iterations([1.0, 2.0, 4.0, 6.0, 8.0], 2.0)
        ends[0]["complete"] = False
        assert self.of([], iterations=ends).raw == pytest.approx([0.0] * 4)

    @pytest.mark.parametrize(("end", "counts"), [(9.98, 1), (9.995, 0), (10.005, 0), (10.02, 1)])
    def test_an_end_at_the_window_s_edge_may_lie_on_either_side(
        self, end: float, counts: int
    ) -> None:
        more, fewer = [2.0, 4.0, 6.0, 8.0, end], [2.0, 4.0, 6.0, 8.0]
        assert self.of(fewer, true=more).missed == counts
        assert self.of(more, true=fewer).invented == counts

    def test_no_iterations(self) -> None:
        got = self.of([])
        assert (got.raw, got.aligned, got.offset_s) == ((1.0,) * 4, (1.0,) * 4, 0.0)

    @given(st.lists(st.floats(0, 10), max_size=8))
    def test_there_is_an_error_per_boundary_that_is_or_is_not_there(
        self, ends: list[float]
    ) -> None:
        got = self.of(ends)
        assert len(got.raw) == 4 + got.invented
        assert all(0.0 <= error <= 1.0 for error in (*got.raw, *got.aligned))


class TestAnomalies:
    def overlaps(self, true: list[Json], said: list[Json]) -> tuple[Overlap, Overlap]:
        s = score(
            document(job("t", [ring("g", "abc")], anomalies=true)),
            document(job("r", [ring("g", "abc")], anomalies=said)),
        )
        return s.anomaly_kinds, s.anomaly_subjects

    def test_by_kind_time_and_subject(self) -> None:
        true = [anomaly("straggler", "a", 1, 3), anomaly("hang", "b", 8, None)]
        said = [
            anomaly("straggler", "b", 2, 4),  # right kind, wrong host
            anomaly("hang", "b", 9, 10),
            anomaly("slow_link", "b", 9, 10),  # invented
        ]
        assert self.overlaps(true, said) == (Overlap(2, 2, 3), Overlap(1, 2, 3))

    def test_a_period_of_slack_and_no_more(self) -> None:
        true = [anomaly("straggler", "a", 4, 5)]
        assert self.overlaps(true, [anomaly("straggler", "a", 5.9, 7)])[0].common == 1
        assert self.overlaps(true, [anomaly("straggler", "a", 6.1, 7)])[0].common == 0

    def test_the_right_subject_is_paired_first(self) -> None:
        true = [anomaly("straggler", "a", 4, 5), anomaly("straggler", "b", 4, 5)]
        assert self.overlaps(true, true[::-1]) == (Overlap(2, 2, 2), Overlap(2, 2, 2))

    def test_a_job_is_itself_whatever_its_id(self) -> None:
        true = anomaly("restart", "", 1, 3, subjects=[{"type": "job", "id": "t"}])
        said = anomaly("restart", "", 1, 3, subjects=[{"type": "job", "id": "r"}])
        other = anomaly("restart", "", 1, 3, subjects=[{"type": "job", "id": "x"}])
        assert self.overlaps([true], [said])[1] == Overlap(1, 1, 1)
        assert self.overlaps([true], [other])[1] == Overlap(0, 1, 1)

    def test_findings_of_false_jobs_are_said(self) -> None:
        false = job("r", [ring("g", "xyz")], anomalies=[anomaly("hang", "x", 1, None)])
        s = score(document(job("t", [ring("g", "abc")])), document(false))
        assert s.anomaly_kinds == Overlap(0, 0, 1)


class TestReliability:
    def claims(self) -> Any:
        evidence = {
            "members": {"confidence": 0.75},
            "kind": {"confidence": 0.85},
            "order": {"confidence": 0.6},
        }
        said = job(
            "r",
            [ring("g", "acb", evidence=evidence, collective="broadcast", confidence=0.3)],
            confidence=1.0,
            period_s=1.02,
        )
        said["parallelism"] |= {"tp": None, "confidence": 0.9, "dp": 4}
        said["evidence"] = {"period": {"confidence": 0.95}}
        return score(document(job("t", [ring("g", "abc")])), document(said)).claims

    def test_each_claim_with_its_own_confidence(self) -> None:
        got = {(c.what, c.subject): (c.confidence, c.right) for c in self.claims()}
        assert got == {
            ("job", "r"): (1.0, True),
            ("size", "r dp"): (0.9, False),
            ("size", "r pp"): (0.9, True),
            ("size", "r cp"): (0.9, True),
            ("size", "r ep"): (0.9, True),
            ("period", "r"): (0.95, False),
            ("members", "r g"): (0.75, True),
            ("kind", "r g"): (0.85, True),
            ("algorithm", "r g"): (0.3, True),
            ("collective", "r g"): (0.3, False),
            ("order", "r g"): (0.6, False),
        }

    def test_table(self) -> None:
        table = [(b.low, b.high, b.claims, b.right) for b in reliability(self.claims())]
        assert table == [
            (0.0, 0.5, 2, 1),
            (0.5, 0.7, 1, 0),
            (0.7, 0.8, 1, 1),
            (0.8, 0.9, 1, 1),
            (0.9, 1.0, 6, 4),
        ]
        assert reliability(self.claims())[4].mean_confidence == pytest.approx(5.55 / 6)

    def test_confident_share_of_right_claims(self) -> None:
        assert confident(self.claims()) == Ratio(4, 7)

    def test_unknown_is_no_claim(self) -> None:
        unknown = {"kind": "unknown", "algorithm": "unknown", "collective": "unknown"}
        s = scored([ring("g", "abc")], [ring("g", "abc", **unknown)])
        assert [c.what for c in s.claims if c.subject == "r g"] == ["members"]

    def test_without_any_confidence_a_claim_is_certain(self) -> None:
        said = job("r", [ring("g", "abc")])
        del said["confidence"]
        del said["groups"][0]["confidence"]
        claims = score(document(job("t", [ring("g", "abc")])), document(said)).claims
        assert {c.confidence for c in claims if c.what in ("job", "kind")} == {1.0}

    def test_half_of_a_split_group_is_judged_by_the_whole(self) -> None:
        s = scored([ring("g", "abcd")], [ring("g", "abc"), ring("h", "cd")])
        got = {(c.what, c.subject): c.right for c in s.claims}
        assert not got["members", "r h"]
        assert got["kind", "r h"]
        assert not got["order", "r g"]

    def test_anomalies(self) -> None:
        true = [anomaly("straggler", "a", 4, 5), anomaly("straggler", "b", 4, 5)]
        said = [anomaly("straggler", "b", 4, 5), anomaly("straggler", "c", 4, 5)]
        s = score(
            document(job("t", [ring("g", "abc")], anomalies=true)),
            document(job("r", [ring("g", "abc")], anomalies=said)),
        )
        assert [c.right for c in s.claims if c.what == "anomaly"] == [True, False]


@given(st.permutations("abcdefgh"), st.randoms(use_true_random=False))
def test_names_and_the_order_of_lists_change_nothing(names: list[str], rng: Any) -> None:
    truth, said = pipeline(), pipeline()
    said["groups"][0] = ring("dp-0", "abdc")
    said["groups"][3]["kind"] = "unknown"
    before = score(document(truth), document(said))
    renamed = deepcopy((truth, said))
    table = dict(zip("abcdefgh", names, strict=True))
    for one in renamed:
        _rename(one, table)
        rng.shuffle(one["groups"])
        rng.shuffle(one["endpoints"])
    after = score(document(renamed[0]), document(renamed[1]))
    assert after.role == before.role
    assert after.members == before.members
    assert after.groups_exact == before.groups_exact
    for name in ("algorithms", "rings", "chains"):
        assert sorted(v.value for v in verdicts(getattr(after, name))) == sorted(
            v.value for v in verdicts(getattr(before, name))
        )
    assert reliability(after.claims) == reliability(before.claims)


def _rename(one: Json, table: dict[str, str]) -> None:
    one["endpoints"] = [table[e] for e in one["endpoints"]]
    for g in one["groups"]:
        g["members"] = [table[m] for m in g["members"]]
        g["edges"] = [[table[a], table[b]] for a, b in g["edges"]]
        for channel in g["algorithms"][0]["channels"]:
            channel["order"] = [table[m] for m in channel["order"]]


@pytest.mark.parametrize(
    "change",
    [
        {"groups": []},
        {"iterations": []},
        {"period_s": None},
        {"edges": []},
        {"parallelism": dict.fromkeys(("dp", "tp", "pp", "cp", "ep"))},
    ],
)
def test_documents_with_holes_are_scored(change: Json) -> None:
    whole, holed = job("t", [ring("g", "abc")]), job("t", [ring("g", "abc")]) | change
    for truth, result in ((whole, holed), (holed, whole), (holed, holed)):
        assert score(document(truth), document(result)).jobs.all_exact


def test_a_group_without_edges_has_no_bytes_to_score() -> None:
    empty = ring("g", "abc", edges=[], algorithms=[])
    s = scored([empty], [empty])
    assert s.role.value is None
    assert s.edge_bytes == ()


def test_nanoseconds_are_kept() -> None:
    true = job("t", [ring("g", "abc")])
    said = deepcopy(true)
    for iteration in said["iterations"]:
        iteration["end"] = iteration["end"].replace("000Z", "001Z")
    s = score(document(true), document(said))
    assert s.boundaries[0].raw == pytest.approx([1e-9] * 4, rel=1e-6)
    assert true["iterations"][0]["end"] == at(2.0)
