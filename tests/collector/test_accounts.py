from __future__ import annotations

from dataclasses import replace

import pytest

from collector.accounts import NOTHING, Accounts
from collector.polled import NOT_SAID, HostBatch, PortBatch
from collector.schema import DecodeError, ExporterHealth, Telemetry, TimeBasis, UnknownTag


def health(agent: str, datagrams: int, **more: object) -> ExporterHealth:
    made = ExporterHealth(
        agent=agent,
        sub_agent=1,
        protocol="sflow5",
        datagrams=datagrams,
        flow_samples=0,
        counter_samples=0,
        lost_datagrams=0,
        decode_errors=0,
        sampling_rates=(),
        time_basis=TimeBasis.ARRIVAL,
        state="counters_only",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def account(*exporters: ExporterHealth, errors: tuple[DecodeError, ...] = ()) -> Telemetry:
    return replace(
        NOTHING,
        exporters=exporters,
        errors=errors,
        datagrams=sum(e.datagrams for e in exporters),
        flow_samples=sum(e.flow_samples for e in exporters),
        lost_datagrams=sum(e.lost_datagrams for e in exporters),
        decode_errors=sum(e.count for e in errors),
    )


def test_nothing_is_the_sum_of_nothing() -> None:
    assert Accounts().sum([]).datagrams == Accounts().sum([NOTHING, NOTHING]).datagrams == 0


def test_exporters_keep_their_numbers_whoever_tells_of_them() -> None:
    accounts = Accounts()
    first = account(health("a", 1), health("b", 2))
    second = account(health("c", 3), health("a", 4))
    assert accounts.number(first).tolist() == [0, 1]
    assert accounts.number(second).tolist() == [2, 0]
    assert accounts.number(first).tolist() == [0, 1]
    assert len(accounts) == 3
    for parts in ([first, second], [second, first]):
        assert [e.agent for e in accounts.sum(parts).exporters] == ["a", "b", "c"]


def test_an_exporter_that_two_saw_is_one() -> None:
    accounts = Accounts()
    quiet = health("a", 2, lost_datagrams=1, sampling_rates=(1024, 4096), counter_samples=2)
    busy = health(
        "a",
        5,
        flow_samples=9,
        sampling_rates=(512, 1024),
        state="ok",
        time_basis=TimeBasis.EXPORTER,
    )
    told = accounts.sum([account(quiet), account(busy)])
    assert (told.datagrams, told.flow_samples, told.lost_datagrams) == (7, 9, 1)
    (one,) = told.exporters
    assert (one.datagrams, one.counter_samples, one.lost_datagrams) == (7, 2, 1)
    assert one.sampling_rates == (512, 1024, 4096)
    assert (one.state, one.time_basis) == ("ok", TimeBasis.EXPORTER)


def test_errors_of_one_kind_are_one() -> None:
    cut = DecodeError("a", None, 28, "cut", 2)
    other = DecodeError("b", None, 5, "cut", 1)
    told = Accounts().sum([account(errors=(cut,)), account(errors=(other, replace(cut, offset=3)))])
    assert told.errors == (replace(cut, count=4), other)
    assert told.decode_errors == 5


@pytest.mark.parametrize("parts", [1, 3])
def test_sums_of_sums_are_sums(parts: int) -> None:
    accounts = Accounts()
    all_told = [account(health("abc"[n % 2], n + 1)) for n in range(2 * parts)]
    halves = [accounts.sum(all_told[:parts]), accounts.sum(all_told[parts:])]
    assert accounts.sum(halves).exporters == accounts.sum(all_told).exporters


def test_what_exporters_told_of_keeps_their_numbers() -> None:
    ports, hosts = PortBatch.empty(2), HostBatch.empty(1)
    ports.exporter[:], ports.ifindex[:], ports.name[:] = [0, 1], 5, [b"swp5", b"Ethernet5"]
    hosts.exporter[:], hosts.name[:] = 1, b"leaf1"
    first = replace(
        account(health("a", 1), health("b", 2)),
        ports=ports,
        hosts=hosts,
        unknown_tags=(UnknownTag(1, "sample", 9, 1, 4),),
    )
    newer = PortBatch.empty(1)
    newer.ifindex[:], newer.fcs_errors[:] = 5, 7
    tags = (UnknownTag(0, "sample", 9, 1, 3), UnknownTag(0, "flow record", 9, 1, 2))
    second = replace(account(health("b", 1)), ports=newer, unknown_tags=tags)
    whole = Accounts().sum([first, second])
    assert [e.agent for e in whole.exporters] == ["a", "b"]
    assert whole.ports.exporter.tolist() == [0, 1]
    assert whole.ports.name.tolist() == [b"swp5", b"Ethernet5"]
    assert whole.ports.fcs_errors.tolist() == [NOT_SAID, 7]
    assert (whole.hosts.exporter.tolist(), whole.hosts.name.tolist()) == ([1], [b"leaf1"])
    assert whole.unknown_tags == (
        UnknownTag(1, "sample", 9, 1, 7),
        UnknownTag(1, "flow record", 9, 1, 2),
    )
