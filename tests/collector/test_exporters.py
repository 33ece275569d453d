"""Kinds of trouble with exporters that operators reported, each as a stream of datagrams."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from collector.exporters import SILENT_NS
from collector.ingest import ingest
from collector.schema import TimeBasis
from tests.collector import encode as e
from tests.collector.hearing import MS, Came, hear, kinds, one

HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
BATCHES = pytest.mark.parametrize("batches", [1, 1000])


@dataclass
class Switch:
    """An agent that numbers its datagrams and counts its packets as it should."""

    agent: str = "10.255.0.1"
    sub_agent: int = 0
    sender: str = "192.0.2.1"
    at_ms: float = 0.0
    sequence: int = 100
    booted_ms: float = -500_000.0
    rate: int = 1000
    port: int = 3
    sample: int = 7000
    packets: int = 90_000
    dropped: int = 0

    def send(self, *samples: bytes, after_ms: float = 100.0) -> Came:
        self.at_ms += after_ms
        self.sequence += 1
        data = e.datagram(
            *samples,
            agent=self.agent,
            sub_agent=self.sub_agent,
            sequence=self.sequence,
            uptime_ms=round(self.at_ms - self.booted_ms),
        )
        return Came(self.at_ms, data, self.sender)

    def flow(self, *, lost: int = 0, packets: int | None = None, after_ms: float = 100.0) -> Came:
        """A datagram with one flow sample, `lost` samples and so many packets after the last."""
        self.sample += 1 + lost
        self.packets += self.rate if packets is None else packets
        sample = e.flow_sample(
            HEADER,
            sequence=self.sample,
            source=(0, self.port),
            entered=(0, self.port),
            rate=self.rate,
            pool=self.packets,
            dropped=self.dropped,
        )
        return self.send(sample, after_ms=after_ms)

    def count(self, name: bytes = b"", after_ms: float = 100.0) -> Came:
        """A datagram with the counters of the port."""
        generic = e.GENERIC_COUNTERS.pack(
            *(self.port, 6, 400_000_000_000, 1, 3, 1 << 40),
            *(self.packets % 2**32, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0),
        )
        records = [e.record(1, generic)]
        if name:
            body = struct.pack(">I", len(name)) + name + b"\0" * (-len(name) % 4)
            records.append(e.record(1005, body))
        return self.send(e.counter_sample(*records, source=(0, self.port)), after_ms=after_ms)

    def restart(self, down_ms: float) -> None:
        self.at_ms += down_ms
        self.booted_ms = self.at_ms
        self.sequence = self.sample = self.packets = 0


# An agent that takes another address (sonic-net/sonic-buildimage#13108, #6951).


@BATCHES
def test_a_new_agent_address_is_the_old_exporter(batches: int) -> None:
    switch = Switch("3.3.3.1", sub_agent=100_000)
    came = [switch.flow() for _ in range(100)]
    switch.agent, switch.sender = "240.127.1.1", "240.127.1.1"
    changed = len(came)
    came += [switch.flow() for _ in range(100)]
    told = hear(came, batches)
    old, new = told.exporters
    assert (old.agent, old.state) == ("3.3.3.1", "ok")
    assert (new.agent, new.state) == ("240.127.1.1", "moved")
    assert kinds(old) == [("address_changed", 1)]
    (note,) = old.notes
    assert note.text == "agent address changed: 3.3.3.1 is now 240.127.1.1"
    assert note.time_ns == e.EPOCH_NS + round(came[changed].at_ms * MS)
    assert (old.datagrams + new.datagrams, told.lost_datagrams) == (200, 0)
    # Believed after five seconds; what came in one piece is joined from the first datagram on.
    apart = 0 if batches == 1 else 50
    assert new.datagrams == apart
    assert told.flows.exporter.tolist() == [0] * 100 + [1] * apart + [0] * (100 - apart)
    assert (old.lost_samples, new.lost_samples) == (0, 0)


def test_an_agent_that_restarts_for_its_new_address_is_known_by_its_sender() -> None:
    switch = Switch("3.3.3.1")
    came = [switch.flow() for _ in range(20)]
    switch.restart(3000)
    switch.agent = "240.127.1.1"
    came += [switch.flow() for _ in range(80)]
    old, new = hear(came).exporters
    assert (old.datagrams, new.datagrams, new.state) == (100, 0, "moved")
    assert (old.lost_datagrams, old.restarts) == (0, 1)


def test_a_datagram_overtaken_at_the_change_does_not_keep_them_apart() -> None:
    switch = Switch("3.3.3.1")
    came = [switch.flow() for _ in range(20)]
    switch.agent = "240.127.1.1"
    came += [switch.flow() for _ in range(80)]
    came[19], came[20] = came[20], Came(came[20].at_ms + 5, came[19].data)
    assert [x.state for x in hear(came).exporters] == ["ok", "moved"]


@BATCHES
def test_two_agents_stay_two(batches: int) -> None:
    # Switched on together, so that uptimes and numbers are alike, behind one relay.
    first, second = Switch("10.255.0.1"), Switch("10.255.0.2", sequence=110)
    came = [first.flow() for _ in range(20)]
    second.at_ms = first.at_ms
    for _ in range(100):
        came += [second.flow(), first.flow()]
    told = hear(came, batches)
    assert [(x.state, x.datagrams) for x in told.exporters] == [("ok", 120), ("ok", 100)]


def test_two_that_were_taken_for_one_come_apart() -> None:
    first = Switch("10.255.0.1")
    came = [first.flow() for _ in range(20)]
    second = Switch("10.255.0.2", at_ms=first.at_ms, sequence=first.sequence)
    came += [second.flow() for _ in range(100)]
    first.at_ms = second.at_ms
    for _ in range(50):
        came += [second.flow(after_ms=50), first.flow(after_ms=50)]
    assert [x.state for x in hear(came, 1000).exporters] == ["ok", "ok"]


def test_a_new_address_hides_no_loss() -> None:
    switch = Switch("3.3.3.1")
    came = [switch.flow() for _ in range(20)]
    switch.agent = "240.127.1.1"
    came += [switch.flow(lost=n % 10 == 3) for n in range(100)]
    switch.sequence += 7
    came += [switch.flow()]
    for batches in (1, 1000):
        told = hear(came, batches)
        assert told.lost_datagrams == 7
        assert sum(x.lost_samples for x in told.exporters) == 10


def test_who_may_be_two_is_neither() -> None:
    twins = [Switch(f"10.255.0.{n}", sender=f"192.0.2.{n}") for n in (1, 2)]
    came = [switch.flow() for _ in range(20) for switch in twins]
    third = Switch("10.255.0.3", sender="192.0.2.3", at_ms=2000.0, sequence=125)
    came += [third.flow() for _ in range(80)]
    assert [x.state for x in hear(came).exporters] == ["ok"] * 3


# Rates other than configured, that change while running (sonic-net/sonic-utilities#1334,
# sonic-net/SONiC#746, sonic-net/sonic-buildimage#7444).


@BATCHES
def test_a_rate_counts_as_each_sample_says_it_and_a_change_is_told(batches: int) -> None:
    switch = Switch(rate=10_000)
    came = [switch.flow() for _ in range(30)]
    switch.rate = 40_000
    came += [switch.flow() for _ in range(30)]
    told = hear(came, batches)
    (exporter,) = told.exporters
    assert exporter.sampling_rates == (10_000, 40_000)
    assert told.flows.sampling_rate.tolist() == [10_000] * 30 + [40_000] * 30
    assert kinds(exporter) == [("rate_changed", 1)]
    assert exporter.notes[0].text == "sampling rate of a port changed: 1:10,000 -> 1:40,000"
    assert exporter.notes[0].time_ns == e.EPOCH_NS + round(came[30].at_ms * MS)
    assert (exporter.expected_samples, exporter.pooled_samples) == (59, 59)


def test_ports_of_two_rates_change_nothing() -> None:
    switch = Switch()
    came = []
    for n in range(40):
        switch.rate, switch.port = ((16_384, 3), (1024, 4))[n % 2]
        came.append(switch.flow())
    exporter = one(came)
    assert (exporter.sampling_rates, exporter.notes) == ((1024, 16_384), ())


def test_a_rate_that_goes_to_and_fro_is_told_once_each_way() -> None:
    switch = Switch()
    came = []
    for n in range(40):
        switch.rate = (16_384, 1024)[n % 2]
        came.append(switch.flow())
    assert sorted(kinds(one(came, 7))) == [("rate_changed", 19), ("rate_changed", 20)]


def test_many_ports_that_change_alike_are_one_note() -> None:
    switch = Switch()
    came = []
    for rate in (4000, 8000):
        for port in range(1, 65):
            switch.rate, switch.port = rate, port
            came.append(switch.flow())
    assert kinds(one(came)) == [("rate_changed", 64)]


# A port that is broken out has its name and another ifIndex (sflow/host-sflow#66,
# sonic-net/sonic-swss#2825).


@BATCHES
def test_a_port_that_moves_is_told_and_the_new_index_inherits_nothing(batches: int) -> None:
    switch = Switch(port=44)
    came = [switch.flow(), switch.count(b"Ethernet0")]
    came += [switch.flow() for _ in range(5)]
    switch.port, switch.sample, switch.packets = 259, 1, 10
    came += [switch.count(b"Ethernet0"), switch.flow(), switch.flow()]
    told = hear(came, batches)
    (exporter,) = told.exporters
    assert [note.text for note in exporter.notes] == ["port Ethernet0 moved: ifIndex 44 -> 259"]
    assert told.flows.input.tolist() == [44] * 6 + [259] * 2
    # A sampler of its own: its smaller numbers are no loss, and no other rate.
    assert (exporter.lost_samples, exporter.expected_samples) == (0, 5 + 1)


# Counters, and no flow samples (sonic-net/sonic-buildimage#4386, #10442, #27330).


@BATCHES
def test_counters_alone_are_a_state(batches: int) -> None:
    switch = Switch()
    exporter = one([switch.count(after_ms=20_000) for _ in range(10)], batches)
    assert (exporter.state, exporter.flow_samples) == ("counters_only", 0)


@BATCHES
def test_samples_that_stay_away_while_packets_pass_are_a_state(batches: int) -> None:
    switch = Switch()
    came = [f for _ in range(10) for f in (switch.flow(), switch.count())]
    last_ms = came[-2].at_ms
    for _ in range(4):
        switch.packets += 15_000  # 15 samples
        came.append(switch.count(after_ms=20_000))
    exporter = one(came, batches)
    assert (exporter.state, kinds(exporter)) == ("counters_only", [("flows_missing", 1)])
    assert exporter.notes[0].time_ns == e.EPOCH_NS + round(came[21].at_ms * MS)
    came += [switch.flow()]
    exporter = one(came, batches)
    assert (exporter.state, kinds(exporter)[1]) == ("ok", ("flows_resumed", 1))
    away_s = (came[-1].at_ms - last_ms) / 1e3
    assert f"none came for {away_s:.0f} s" in exporter.notes[1].text


@BATCHES
def test_ten_minutes_without_samples_after_a_warm_reboot(batches: int) -> None:
    switch = Switch()
    came = [f for _ in range(10) for f in (switch.flow(), switch.count())]
    switch.restart(30_000)
    for _ in range(30):
        switch.packets += 2000
        came.append(switch.count(after_ms=20_000))
    exporter = one(came, batches)
    assert (exporter.state, exporter.restarts) == ("counters_only", 1)
    came += [switch.flow() for _ in range(3)]
    exporter = one(came, batches)
    assert (exporter.state, exporter.lost_datagrams, exporter.lost_samples) == ("ok", 0, 0)
    assert kinds(exporter) == [("restarted", 1), ("flows_missing", 1), ("flows_resumed", 1)]


def test_an_idle_network_is_no_fault() -> None:
    switch = Switch()
    came = [f for _ in range(10) for f in (switch.flow(), switch.count())]
    for _ in range(40):
        switch.packets += 100
        came.append(switch.count(after_ms=20_000))
    assert (one(came).state, one(came).notes) == ("ok", ())


def test_packets_of_ports_that_are_not_sampled_promise_nothing() -> None:
    switch = Switch()
    came = [f for _ in range(10) for f in (switch.flow(), switch.count())]
    switch.port = 4
    for _ in range(10):
        switch.packets += 1_000_000
        came.append(switch.count(after_ms=20_000))
    assert one(came).state == "ok"


def test_who_falls_silent_is_told_by_the_others() -> None:
    first, second = Switch("10.255.0.1"), Switch("10.255.0.2", sender="192.0.2.2")
    came = [switch.flow() for _ in range(10) for switch in (first, second)]
    step_ms = SILENT_NS / MS / 10
    came += [second.flow(after_ms=step_ms) for _ in range(11)]
    assert [x.state for x in hear(came, 1000).exporters] == ["silent", "ok"]
    first.at_ms = second.at_ms
    came += [first.flow()]
    assert [x.state for x in hear(came, 1000).exporters] == ["ok", "ok"]


# Gaps in numbers that are loss, and those that are not (netsampler/goflow2#292,
# alexk99/the_router#14, DataDog/datadog-agent#16819).


@BATCHES
def test_sub_agents_restarts_and_reordering_are_no_loss(batches: int) -> None:
    cards = [Switch(sub_agent=0, sequence=5000), Switch(sub_agent=1, sequence=9)]
    came = [card.flow() for _ in range(20) for card in cards]
    came[10], came[12] = (
        Came(came[10].at_ms, came[12].data),
        Came(came[12].at_ms, came[10].data),
    )
    came += [cards[0].count()]  # takes a number of the datagrams, and none of the samples
    cards[1].sequence += 2
    cards[1].sample += 2
    came += [card.flow() for card in cards]
    cards[0].restart(2000)
    came += [cards[0].flow() for _ in range(5)]
    first, second = hear(came, batches).exporters
    assert (first.lost_datagrams, first.lost_samples, first.restarts) == (0, 0, 1)
    assert (second.lost_datagrams, second.lost_samples, second.restarts) == (2, 2, 0)
    assert kinds(first) == [("restarted", 1)]
    assert kinds(second) == []


@BATCHES
def test_what_the_sampler_dropped_and_what_its_pool_promises(batches: int) -> None:
    switch = Switch(packets=2**32 - 7000, dropped=2**32 - 2)
    came = [switch.flow() for _ in range(10)]
    for _ in range(10):
        switch.dropped = (switch.dropped + 3) % 2**32
        came.append(switch.flow(packets=4000))  # three of four were chosen and not sent
    exporter = one(came, batches)
    assert exporter.lost_samples == 0  # it did not number them
    assert exporter.dropped_samples == 30
    assert (exporter.expected_samples, exporter.pooled_samples) == (9 + 40, 19)


@BATCHES
def test_samples_that_a_policer_drops_show_in_the_counters_of_the_ports(batches: int) -> None:
    # The chip drops what is beyond its limit, and the agent's pool is made up of what it got.
    switch = Switch(port=5)
    came = [switch.flow(), switch.count()]
    for _ in range(10):
        for _ in range(4):
            came.append(switch.flow())
            switch.packets += 3000
        came.append(switch.count())
    exporter = one(came, batches)
    assert (exporter.due_samples, exporter.counted_samples) == (160, 40)
    assert (exporter.state, exporter.lost_samples, exporter.dropped_samples) == ("ok", 0, 0)


def test_samples_lost_on_the_way_show_in_numbers_and_pool() -> None:
    switch = Switch()
    came = [switch.flow() for _ in range(10)]
    came += [switch.flow(lost=5, packets=6000)]
    exporter = one(came)
    assert (exporter.lost_samples, exporter.dropped_samples) == (5, 0)
    assert (exporter.expected_samples, exporter.pooled_samples) == (9 + 6, 10)


# Clocks.


def stamped(switch: Switch, off_ms: float, after_ms: float = 100.0) -> Came:
    switch.sample += 1
    time_ns = e.EPOCH_NS + round((switch.at_ms + after_ms + off_ms - 1) * MS)
    return switch.send(
        e.flow_sample(e.timestamp(time_ns), HEADER, sequence=switch.sample), after_ms=after_ms
    )


@BATCHES
def test_a_clock_that_is_off_is_put_right_and_told(batches: int) -> None:
    switch = Switch()
    told = hear([stamped(switch, -3204) for _ in range(100)], batches)
    (exporter,) = told.exporters
    assert exporter.time_basis == TimeBasis.INTERPOLATED
    assert kinds(exporter) == [("clock_off", 1)]
    assert "behind: its times are put right" in exporter.notes[0].text
    clock = exporter.clock
    assert clock.offset_s is not None
    assert clock.error_s is not None
    assert abs(clock.offset_s + 3.204) <= clock.error_s + 1e-3
    assert clock.basis == "arrival"
    assert abs(clock.corrected_s + 3.204) < 0.1
    late_ns = [came for came in told.flows.time_ns.tolist() if came < e.EPOCH_NS]
    assert len(late_ns) == (0 if batches == 1 else 4)


def test_a_clock_without_stamps_says_why_it_is_not_known() -> None:
    switch = Switch()
    clock = one([switch.flow() for _ in range(100)]).clock
    assert (clock.offset_s, clock.basis) == (None, "none")
    assert clock.reason == "its samples carry no time"
    assert clock.jitter_s == 0.0


def test_clocks_that_differ_by_less_than_delays_are_put_right_by_connections(
    tmp_path: Path,
) -> None:
    # Three switches see one connection; the third's clock is 80 ms behind, which arrival hides.
    switches = [Switch(f"10.255.0.{n}", sender=f"192.0.2.{n}") for n in (1, 2, 3)]
    order = np.random.default_rng(4).integers(0, 3, 600).tolist()
    came = []
    for psn in range(600):
        switch = switches[order[psn]]
        taken_ms = 10.0 * psn
        off_ms = -80.0 if switch is switches[2] else 0.0
        frame = e.roce(e.bth(0x07, 0x11, psn) + b"d" * 1024)
        switch.at_ms, switch.sample = taken_ms, switch.sample + 1
        stamp_ns = e.EPOCH_NS + round((taken_ms + off_ms) * MS)
        sample = e.flow_sample(
            e.timestamp(stamp_ns), e.raw_header(frame), sequence=switch.sample, pool=0
        )
        came.append(switch.send(sample, after_ms=3.0))
    path = tmp_path / "a.pcap"
    path.write_bytes(
        e.pcap((e.EPOCH_NS + round(c.at_ms * MS), e.packet(c.data, src=c.sender)) for c in came)
    )
    told = ingest([path])
    found = {x.agent: x for x in told.exporters}
    assert found["10.255.0.1"].time_basis == found["10.255.0.2"].time_basis == TimeBasis.EXPORTER
    assert found["10.255.0.3"].time_basis == TimeBasis.INTERPOLATED
    assert kinds(found["10.255.0.3"]) == [("clock_off", 1)]
    third = found["10.255.0.3"].clock
    assert third.basis == "hops"
    assert third.offset_s is not None
    assert third.error_s is not None
    assert abs(third.offset_s + 0.080) <= third.error_s
    off_ns = told.flows.time_ns - (e.EPOCH_NS + told.flows.seq.astype(np.int64) * 10 * MS)
    assert np.abs(off_ns).max() <= 10 * MS
