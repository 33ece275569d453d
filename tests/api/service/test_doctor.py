from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.service.account import Account, Check, Situation
from api.service.doctor import Finding, telemetry_findings
from collector.schema import DecodeError
from tests.api.service.made import ACCOUNT, CHECKS, DOUBTS, EXPORTER, NOW_NS, SITUATION

Told = tuple[str, str, str]


def findings(
    account: Account = ACCOUNT,
    situation: Situation = SITUATION,
    checks: tuple[Check, ...] = CHECKS,
) -> tuple[tuple[Finding, ...], bool]:
    return telemetry_findings(account, checks, situation, NOW_NS)


def bad(**changes: Any) -> list[Finding]:
    """What is not well with some members of the account or the situation changed."""
    of_account = {name: value for name, value in changes.items() if hasattr(ACCOUNT, name)}
    of_situation = {name: value for name, value in changes.items() if hasattr(SITUATION, name)}
    assert len(of_account) + len(of_situation) == len(changes)
    found, _ = findings(replace(ACCOUNT, **of_account), replace(SITUATION, **of_situation))
    return [finding for finding in found if finding.state != "ok"]


def passable(**changes: Any) -> bool:
    return findings(replace(ACCOUNT, **changes))[1]


def test_all_is_well() -> None:
    assert findings() == (
        (
            Finding("service", "ok", "it runs, and all of its parts work"),
            Finding("datagrams", "ok", "900 came to [::]:6343"),
            Finding("samples", "ok", "4,000 of packets and 200 of counters"),
            Finding("headers", "ok", "3,000 samples of RoCEv2, 1,000 of TCP"),
            Finding("exporters", "ok", "samples from 1 exporter"),
            Finding("losses", "ok", "none"),
        ),
        True,
    )


def test_a_part_that_fails_is_named() -> None:
    broken = (CHECKS[0], Check("store", False, "no space left on device"))
    found, goes_on = findings(checks=broken)
    assert found[0] == Finding("service", "wrong", "store: no space left on device", "see the log")
    assert goes_on


class TestNoDatagrams:
    def test_says_how_to_point_a_switch_here(self) -> None:
        (found,) = bad(datagrams=0)
        assert found == Finding(
            "datagrams",
            "wrong",
            "none has come to [::]:6343 since the start 60 min ago",
            "point each switch here, as in SONiC: config sflow collector add ringscope"
            " ADDRESS-OF-THIS-MACHINE; config sflow enable."
            " If it is: does a firewall stop UDP port 6343?",
        )
        assert not passable(datagrams=0)

    @pytest.mark.parametrize(
        ("listen", "said"),
        [
            ("192.0.2.7:6343", "add ringscope 192.0.2.7;"),
            ("[2001:db8::7]:7000", "add ringscope 2001:db8::7 --port 7000;"),
            ("0.0.0.0:7000", "add ringscope ADDRESS-OF-THIS-MACHINE --port 7000;"),
        ],
    )
    def test_with_its_own_address_and_port(self, listen: str, said: str) -> None:
        assert said in bad(datagrams=0, listen=listen)[0].advice

    def test_a_service_just_started_may_wait(self) -> None:
        (found,) = bad(datagrams=0, started_ns=NOW_NS - 3_000_000_000)
        assert (found.state, found.text) == (
            "note",
            "none has come to [::]:6343 since the start 3 s ago",
        )

    @pytest.mark.parametrize("listen", ["127.0.0.1:6343", "[::1]:6343"])
    def test_no_switch_reaches_a_loopback_address(self, listen: str) -> None:
        (found,) = bad(datagrams=0, listen=listen)
        assert found.text == f"none: {listen} can be reached from this machine only"


def test_all_refused_ends_the_way() -> None:
    (found,) = bad(refused_datagrams=900, allowed=("10.1.0.0/16", "10.2.0.0/16"))
    assert found == Finding(
        "senders",
        "wrong",
        "all datagrams were refused: their senders are not in listen.allow"
        " (10.1.0.0/16, 10.2.0.0/16)",
        "add the networks that the switches send from, if these are ours",
    )
    assert not passable(refused_datagrams=900)


def test_some_refused_is_worth_knowing() -> None:
    (found,) = bad(refused_datagrams=5, allowed=("10.1.0.0/16",))
    assert (found.step, found.state) == ("senders", "note")
    assert passable(refused_datagrams=5)


def test_what_cannot_be_read_is_said_with_the_worst_reason_first() -> None:
    errors = (
        DecodeError("10.255.0.1", None, 8, "sample ends early", 1),
        DecodeError(None, None, 0, "sFlow version 9", 899),
    )
    (found,) = bad(decode_errors=900, exporters=(), errors=errors)
    assert found == Finding(
        "decoding",
        "wrong",
        "nothing can be read: sFlow version 9 (899 times), sample ends early (once, 10.255.0.1)",
        "sFlow version 5, IPFIX, and NetFlow versions 9 and 5 are understood",
    )
    assert not passable(decode_errors=900, exporters=())


@pytest.mark.parametrize(("errors", "state"), [(8, "note"), (9, "wrong")])
def test_from_one_percent_on_it_is_wrong(errors: int, state: str) -> None:
    (found,) = bad(decode_errors=errors)
    assert (found.step, found.state) == ("decoding", state)


def test_only_counters() -> None:
    mute = replace(EXPORTER, flow_samples=0, sampling_rates=(), state="counters_only")
    (found,) = bad(flow_samples=0, exporters=(mute,))
    assert (found.step, found.state, found.text) == (
        "samples",
        "wrong",
        "only counters come, no samples of packets, from 1 exporter",
    )
    assert not passable(flow_samples=0)


class TestRecords:
    def test_records_alone(self) -> None:
        told = replace(EXPORTER, protocol="ipfix", flow_samples=0, flow_records=70)
        (found,) = bad(flow_samples=0, flow_records=70, exporters=(told,))
        assert (found.step, found.state) == ("samples", "wrong")
        assert found.text == (
            "70 flow records and no samples of packets: records have no sequence numbers, and are"
            " stored, not analysed as they come"
        )
        assert not passable(flow_samples=0, flow_records=70)

    def test_records_beside_samples_are_mentioned(self) -> None:
        assert bad(flow_records=70) == []
        texts = [finding.text for finding in findings(replace(ACCOUNT, flow_records=70))[0]]
        assert any("70 flow records are stored, not analysed" in text for text in texts)

    def test_what_waits_for_templates(self) -> None:
        untold = replace(EXPORTER, agent="10.255.0.4", state="templates_missing")
        (found,) = bad(exporters=(EXPORTER, untold))
        assert found.text == "records of 10.255.0.4 wait for templates that have not come"

    def test_records_that_were_lost(self) -> None:
        (found,) = bad(flow_records=900, exporters=(replace(EXPORTER, lost_records=100),))
        assert (found.state, found.text) == (
            "wrong",
            "100 of 1,000 flow records on the way from 10.255.0.1",
        )


class TestHeaders:
    def test_cut_before_bth(self) -> None:
        (found,) = bad(headers=(0, 0, 0, 1000, 0, 3000, 0, 0), transports=(0, 0, 0, 4000, 0))
        assert found == Finding(
            "headers",
            "wrong",
            "4,000 of 4,000 samples are cut before their RoCE or TCP header ends",
            "let the switches copy 128 bytes of each packet (sFlow header size)",
        )

    def test_neither_roce_nor_tcp(self) -> None:
        (found,) = bad(transports=(10, 0, 3990, 0, 0))
        assert found.text == "none of 4,000 samples is of RoCEv2 or TCP"

    def test_a_few_cut_ones_are_not_told(self) -> None:
        assert bad(headers=(3961, 0, 0, 9, 0, 30, 0, 0)) == []


class TestExporters:
    def test_switches_that_send_nothing(self) -> None:
        switches = (("leaf-1", "10.255.0.1"), ("leaf-2", "10.255.0.2"), ("leaf-3", "10.255.0.3"))
        (found,) = bad(switches=switches)
        assert (found.step, found.state) == ("exporters", "wrong")
        assert found.text == (
            "nothing comes from 2 of 3 switches of the inventory: leaf-2 (10.255.0.2),"
            " leaf-3 (10.255.0.3)"
        )

    def test_states(self) -> None:
        mute = replace(EXPORTER, agent="10.255.0.2", state="counters_only")
        unsaid = replace(EXPORTER, agent="10.255.0.3", state="rate_unknown")
        texts = [found.text for found in bad(exporters=(EXPORTER, mute, unsaid))]
        assert texts == [
            "only counters come from 10.255.0.2",
            "10.255.0.3 do not say how often they sample",
        ]


@pytest.mark.parametrize(("receiving", "state"), [(8, "note"), (9, "wrong")])
def test_one_direction_only(receiving: int, state: str) -> None:
    (found,) = bad(doubts=replace(DOUBTS, endpoints=32, only_receiving=receiving))
    assert (found.step, found.state) == ("directions", state)
    assert found.text == f"{receiving} of 32 endpoints are seen to receive and never to send"


def test_no_inventory() -> None:
    (found,) = bad(hosts=0, switches=())
    assert (found.step, found.state) == ("inventory", "note")


def test_an_inventory_of_other_hosts() -> None:
    (found,) = bad(doubts=replace(DOUBTS, endpoints=32, unnamed=30))
    assert found.text == "it does not know 30 of 32 endpoints that are in no job"


@pytest.mark.parametrize(("late", "told"), [(39, 0), (40, 1)])
def test_late_samples(late: int, told: int) -> None:
    found = bad(late_samples=late)
    assert [(each.step, each.state) for each in found] == [("clocks", "wrong")] * told


def test_an_analysis_that_does_not_keep_up() -> None:
    (found,) = bad(analysis_lag_s=200.0)
    assert (found.step, found.text) == ("clocks", "the analysis is 3 min behind")


@pytest.mark.parametrize(
    ("changes", "state", "text"),
    [
        ({"kernel_drops": 8}, "note", "8 of 908 datagrams in the kernel's buffer"),
        ({"kernel_drops": 100}, "wrong", "100 of 1,000 datagrams in the kernel's buffer"),
        (
            {"backlog_drops": 9},
            "wrong",
            "9 of 900 datagrams before the decoder, which does not keep up",
        ),
        ({"rows_lost": 800}, "wrong", "800 of 5,000 samples that the disk did not take"),
    ],
)
def test_losses_here(changes: dict[str, int], state: str, text: str) -> None:
    (found,) = bad(**changes)
    assert (found.step, found.state, found.text) == ("losses", state, text)


def test_losses_before_arrival_name_the_worst_exporter_first() -> None:
    exporters = (
        replace(EXPORTER, lost_datagrams=1),
        replace(EXPORTER, agent="10.255.0.2", lost_datagrams=99),
        replace(EXPORTER, agent="10.255.0.3"),
    )
    (found,) = bad(exporters=exporters)
    assert (found.state, found.text) == (
        "wrong",
        "100 of 1,000 datagrams on the way from 10.255.0.2, 10.255.0.1",
    )
