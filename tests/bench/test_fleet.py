"""A fleet's datagrams say what its truth says, by a strict reader and by the product's decoder."""

from __future__ import annotations

import json
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cli.replay import Clock
from api.offline import analyze
from bench.accuracy import check
from bench.fleet import CAPTURE_START_NS, Fleet, main, send, write_pcap
from bench.fleet_jobs import draw_job
from bench.fleet_places import RAILS, Place, place_jobs
from bench.fleet_samples import count_up, flush
from bench.fleet_times import draw_ends, draw_transfers
from bench.fleet_truth import TrueJob
from collector.ingest import ingest
from collector.inventory import read_inventory
from fixtures.workload.connections import ConnectionTable
from tests.fixtures.walk import Datagram, FlowSample, walk

# Rings of two and three, a pipeline and a tree, with periods that nobody takes for one.
SEED, SAMPLES_PER_S, JOBS, NICS, SECONDS = 6, 1200.0, 5, 96, 40.0
START_NS = CAPTURE_START_NS
MTU = 4096
FIRST, MIDDLE, LAST = 0x06, 0x07, 0x09  # writes of more than two packets, the last with immediate


@dataclass(frozen=True)
class Header:
    """A sampled RoCEv2 header, taken apart by hand."""

    src: str
    dst: str
    src_port: int
    opcode: int
    dest_qp: int
    psn: int
    message_bytes: int | None


def header(sample: FlowSample) -> Header:
    raw = sample.header
    words = struct.unpack(">10H", raw[14:34])
    total = sum(words)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # RFC 1071: the sum with its checksum
    assert (raw[12:15], raw[23], words[1]) == (b"\x08\x00\x45", 17, sample.frame_bytes - 4 - 14)
    ports = struct.unpack(">HHH", raw[34:40])
    assert ports[1:] == (4791, words[1] - 20)
    opcode = raw[42]
    extension = {FIRST: 16, MIDDLE: 0, LAST: 4}[opcode]
    assert sample.frame_bytes == 14 + 20 + 8 + 12 + extension + MTU + 4 + 4
    message = struct.unpack(">I", raw[66:70])[0] if opcode == FIRST else None
    if opcode == LAST:
        message = struct.unpack(">I", raw[54:58])[0]
    return Header(
        ".".join(map(str, raw[26:30])),
        ".".join(map(str, raw[30:34])),
        ports[0],
        opcode,
        int.from_bytes(raw[47:50], "big"),
        int.from_bytes(raw[51:54], "big"),
        message,
    )


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(SEED, SAMPLES_PER_S, JOBS, NICS, SECONDS)


@pytest.fixture(scope="module")
def pcap(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "fleet.pcap"
    write_pcap(fleet, path, START_NS)
    return path


@pytest.fixture(scope="module")
def datagrams(pcap: Path) -> list[Datagram]:
    return walk(pcap)


@pytest.fixture(scope="module")
def rows(datagrams: list[Datagram]) -> list[tuple[FlowSample, Header]]:
    return [(sample, header(sample)) for datagram in datagrams for sample in datagram.flows]


@pytest.mark.parametrize(("jobs", "hosts"), [(64, 100), (5, 12), (40, 60), (1, 3), (22, 40)])
def test_every_nic_belongs_to_one_job(jobs: int, hosts: int) -> None:
    places = place_jobs(jobs, hosts, np.random.default_rng(1))
    nics = sorted((h, r) for place in places for h in place.hosts for r in place.rails)
    assert nics == [(h, r) for h in range(hosts) for r in range(RAILS)]
    assert len(places) == jobs
    sizes = [len(place.hosts) for place in places]
    assert all(2 <= size <= 4 for size in sizes[jobs // 20 :])
    assert all(size >= 4 and size % 4 == 0 for size in sizes[: jobs // 20])


def test_jobs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="64 jobs of 2 to 4 hosts, a few larger, do not fill 8"):
        place_jobs(64, 8, np.random.default_rng(1))
    with pytest.raises(ValueError, match="12 NICs"):
        Fleet(nics=12)


@pytest.mark.parametrize("seed", range(6))
def test_an_iteration_ends_with_its_last_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = ConnectionTable(rng, 0)
    job = draw_job(0, Place((4, 1, 7, 2), (2, 3)), table, [], rng)
    ends = draw_ends(job, 30.0, rng)
    durations = np.diff(ends)
    assert ends[0] <= 0 < ends[1]
    assert ends[-2] < 30 <= ends[-1]
    assert (abs(durations / job.period_s - 1) < 0.031).all()
    transfers = draw_transfers([job], [ends], rng)
    assert (np.diff(transfers["start_s"]) >= 0).all()
    assert (transfers["end_s"] > transfers["start_s"]).all()
    latest = np.zeros(len(durations))
    for flow in job.flows:
        mine = transfers[transfers["connection"] == flow.connection]
        assert mine["packets"].tolist() == [flow.packets] * (flow.times * len(durations))
        assert mine["before"].tolist() == [flow.packets * n for n in range(len(mine))]
        assert (mine["start_s"][1:] > mine["end_s"][:-1]).all()
        of_turn = mine["end_s"].reshape(-1, flow.times)
        assert (of_turn > ends[:-1, None]).all()
        if flow.step:  # a pipeline is done before the gradients begin
            assert (of_turn < ends[1:, None] - job.burst_s).all()
        else:
            latest = np.maximum(latest, of_turn[:, 0])
    assert latest == pytest.approx(ends[1:], abs=1e-12)


def test_datagrams_are_numbered_and_flushed_in_time(datagrams: list[Datagram]) -> None:
    arrivals = [d.arrival_ns for d in datagrams]
    assert arrivals == sorted(arrivals)
    by_agent = defaultdict(list)
    for datagram in datagrams:
        by_agent[datagram.agent].append(datagram)
    assert len(by_agent) == 16  # the leaves; neither spines nor the leaf of storage see a NIC
    for of_agent in by_agent.values():
        first = of_agent[0]
        for index, datagram in enumerate(of_agent):
            assert datagram.sequence == first.sequence + index
            # Both were cut to milliseconds.
            since_ms = (datagram.arrival_ns - START_NS) // 10**6
            assert datagram.uptime_ms - since_ms == first.uptime_ms - (
                (first.arrival_ns - START_NS) // 10**6
            )
            assert datagram.bytes <= 1400
            stamps = [s.stamp_ns or 0 for s in datagram.flows]
            assert stamps == sorted(stamps)
            full = len(stamps) == 6
            wait_ns = datagram.arrival_ns - stamps[0]
            assert wait_ns <= 250_000_000 if full else wait_ns == 250_000_000
            assert not full or datagram.arrival_ns == stamps[-1]


def test_samples_are_numbered_by_port_and_say_their_rate(
    fleet: Fleet, datagrams: list[Datagram]
) -> None:
    by_port = defaultdict(list)
    for datagram in datagrams:
        for sample in datagram.flows:
            assert (sample.rate, sample.drops, sample.stripped) == (fleet.rate, 0, 4)
            assert sample.source == sample.input != sample.output
            by_port[datagram.agent, sample.source].append(sample)
    assert len(by_port) == NICS
    for of_port in by_port.values():
        for before, after in pairwise(of_port):
            assert after.sequence == before.sequence + 1
            assert (after.pool - before.pool) % (1 << 32) == fleet.rate


def test_as_many_are_sampled_as_the_rate_says(
    fleet: Fleet, rows: list[tuple[FlowSample, Header]]
) -> None:
    expected = 0.0
    for job in fleet.truth:
        whole = (fleet.duration_ns / 1e9) / (job.period_s(fleet.duration_ns) or 0.0)
        expected += whole * sum(sent for _, _, sent in job.edges) / MTU / fleet.rate
    # The window cuts bursts at both ends: up to one of some twelve iterations.
    assert abs(len(rows) / expected - 1) < 0.1
    assert len(rows) == pytest.approx(SAMPLES_PER_S * SECONDS, rel=0.1)


def test_progress_adds_up_to_the_volume_of_each_iteration(
    fleet: Fleet, rows: list[tuple[FlowSample, Header]]
) -> None:
    by_edge: dict[tuple[str, str], dict[int, list[tuple[int, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for sample, head in sorted(rows, key=lambda row: row[0].stamp_ns or 0):
        stamp_ns = (sample.stamp_ns or 0) - START_NS
        by_edge[head.src, head.dst][head.dest_qp].append((stamp_ns, head.psn))
    checked = 0
    for job in fleet.truth:
        for src, dst, sent in job.edges:
            connections = by_edge.pop((src, dst))
            volume, rest = divmod(sent / MTU, len(connections))
            assert rest == 0
            for points in connections.values():
                checked += _progress(points, int(volume), job)
    assert not by_edge  # no edge that the truth does not know
    assert checked > 5000


def _progress(points: list[tuple[int, int]], volume: int, job: TrueJob) -> int:
    """Every packet lies in its iteration, if iterations follow each other without a gap."""
    psn = np.array([psn for _, psn in points])
    step = np.diff(psn) % (1 << 24)
    assert (step < 1 << 23).all()
    position = np.concatenate([[0], np.cumsum(step)])
    turn = np.searchsorted(job.ends_ns, [stamp for stamp, _ in points], "left")
    within = position - turn * volume
    assert within.max() - within.min() < volume
    return len(points)


def test_messages_begin_and_end_where_their_opcodes_say(
    rows: list[tuple[FlowSample, Header]],
) -> None:
    by_connection = defaultdict(list)
    for _, head in rows:
        by_connection[head.src, head.dst, head.dest_qp].append(head)
    ends = 0
    for heads in by_connection.values():
        sizes = {h.message_bytes for h in heads if h.message_bytes is not None}
        assert sizes <= {1 << 20, 1 << 19, 1 << 17}  # ring, tree, point to point
        assert len(sizes) <= 1
        assert len({h.src_port for h in heads}) == 1
        packets = max(sizes, default=MTU) // MTU
        firsts = {h.psn % packets for h in heads if h.opcode == FIRST}
        firsts |= {(h.psn + 1) % packets for h in heads if h.opcode == LAST}
        assert len(firsts) <= 1
        if firsts:
            ends += 1
            middles = {h.psn % packets for h in heads if h.opcode == MIDDLE}
            assert not middles & firsts
    assert ends > 20


def test_nothing_is_sent_between_an_end_and_the_optimiser(
    fleet: Fleet, rows: list[tuple[FlowSample, Header]]
) -> None:
    times = defaultdict(list)
    for sample, head in rows:
        times[head.src].append((sample.stamp_ns or 0) - START_NS)
    for job in fleet.truth:
        of_job = np.sort(np.concatenate([times[e] for e in job.endpoints]))
        period_ns = (job.period_s(fleet.duration_ns) or 0.0) * 1e9
        for end_ns in job.ends_ns[
            (job.ends_ns > period_ns) & (job.ends_ns < fleet.duration_ns - period_ns)
        ].tolist():
            at = np.searchsorted(of_job, end_ns, "right")
            assert end_ns - of_job[at - 1] < 0.03 * period_ns  # a dozen NICs are busy till then
            assert of_job[at] - end_ns > 0.01 * period_ns


def test_the_decoder_reads_what_the_walk_reads(
    pcap: Path, rows: list[tuple[FlowSample, Header]], fleet: Fleet
) -> None:
    telemetry = ingest([pcap])
    assert telemetry.errors == ()
    flows = telemetry.flows
    assert flows.time_ns.tolist() == [sample.stamp_ns for sample, _ in rows]
    assert flows.seq.tolist() == [head.psn for _, head in rows]
    assert flows.dest_qp.tolist() == [head.dest_qp for _, head in rows]
    assert flows.opcode.tolist() == [head.opcode for _, head in rows]
    assert set(flows.sampling_rate.tolist()) == {fleet.rate}
    assert set(flows.payload_bytes.tolist()) == {MTU}


def test_the_same_seed_sends_the_same(fleet: Fleet) -> None:
    def sent(source: Fleet, start_ns: int) -> tuple[bytes, list[int]]:
        chunks = list(source.departures(start_ns))[:40]
        due = [t - start_ns for chunk in chunks for t in chunk.due_ns.tolist()]
        return b"".join(chunk.buffer.tobytes() for chunk in chunks), due

    data, due = sent(fleet, START_NS)
    again = Fleet(SEED, SAMPLES_PER_S, JOBS, NICS, SECONDS)
    assert sent(again, START_NS) == (data, due)
    assert sent(again, START_NS + 1)[1] == due
    assert sent(Fleet(SEED + 1, SAMPLES_PER_S, JOBS, NICS, SECONDS), START_NS)[0] != data


def test_a_longer_fleet_has_the_same_iterations(fleet: Fleet) -> None:
    longer = Fleet(SEED, SAMPLES_PER_S, JOBS, NICS, 3 * SECONDS)
    for short, long in zip(fleet.truth, longer.truth, strict=True):
        assert short.endpoints == long.endpoints
        assert short.groups == long.groups
        assert short.ends_ns.tolist() == long.ends_ns[: len(short.ends_ns)].tolist()
        assert short.ends_ns[0] <= 0
        assert short.ends_ns[-1] >= fleet.duration_ns


def test_the_product_finds_the_jobs(pcap: Path, fleet: Fleet, tmp_path: Path) -> None:
    inventory = tmp_path / "fleet.toml"
    inventory.write_text(fleet.inventory, encoding="utf-8")
    read = read_inventory(inventory)
    assert len(read.switches) == 24
    assert {nic for host in read.hosts for nic in host.nics} == {
        nic for job in fleet.truth for nic in job.endpoints
    }
    analysis, _ = analyze([pcap], inventory)
    found = {frozenset(job.endpoints): job.period_s for job in analysis.jobs}
    true = {frozenset(j.endpoints): j.period_s(fleet.duration_ns) for j in fleet.truth}
    assert found == {ends: pytest.approx(period, rel=0.01) for ends, period in true.items()}


def test_the_truth_follows_the_schema(fleet: Fleet) -> None:
    truth = fleet.truth_document(START_NS)
    check(truth, "document")
    assert len(truth["jobs"]) == JOBS
    for job, true in zip(truth["jobs"], fleet.truth, strict=True):
        parts = [i for i in job["iterations"] if i["complete"]]
        whole = true.ends_ns[(true.ends_ns >= 0) & (true.ends_ns <= fleet.duration_ns)]
        assert len(parts) == len(whole) - 1
        assert parts[0]["start"].endswith(f".{whole[0] % 10**9:09d}Z")
        assert sum(g["bytes_per_iteration"] for g in job["groups"]) == parts[0]["bytes"]
        inside = {e for group in job["groups"] for e in group["members"]}
        assert inside == set(job["endpoints"])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=60),
    st.integers(1, 4),
    st.integers(1, 300),
)
def test_flush_beside_its_twin(gaps: list[tuple[int, int]], most: int, wait: int) -> None:
    switch = np.array([s for s, _ in gaps], np.int32)
    time = np.cumsum(np.array([gap for _, gap in gaps], np.int64))
    until = int(time[-1]) + 50 if len(time) else 0
    last = np.array([10, 20, 30])
    datagram, due, number = flush(switch, time, until, last.copy(), most, wait)
    found = [
        (int(due[d]), int(number[d]), [int(time[i]) for i in np.flatnonzero(datagram == d)])
        for d in range(len(due))
    ]
    assert sorted(found) == sorted(_naive(switch.tolist(), time.tolist(), until, most, wait))
    assert datagram.tolist() == sorted(datagram.tolist()) or len(set(switch.tolist())) > 1


def _naive(
    switch: list[int], time: list[int], until: int, most: int, wait: int
) -> Iterator[tuple[int, int, list[int]]]:
    for s in range(3):
        mine = [t for o, t in zip(switch, time, strict=True) if o == s]
        number = 10 * (s + 1)
        while mine:
            held = [t for t in mine[:most] if t < mine[0] + wait]
            mine = mine[len(held) :]
            leaves = held[-1] if len(held) == most else held[0] + wait
            sent = leaves <= until
            number += sent
            yield (leaves, number, held) if sent else (-1, -1, held)


def test_counting_goes_on_from_the_last_number() -> None:
    last = np.array([5, 7])
    assert count_up(np.array([1, 0, 1], np.int32), last).tolist() == [8, 6, 9]
    assert last.tolist() == [6, 9]


class Reader(Clock):
    """A clock that stands still but for sleep, in which a collector reads what has come."""

    def __init__(self, listener: socket.socket, oversleep_ns: int) -> None:
        self.payloads: list[bytes] = []
        self._listener = listener
        self._now_ns = START_NS
        self._oversleep_ns = oversleep_ns

    def now_ns(self) -> int:
        return self._now_ns

    def sleep_until(self, due_ns: int) -> None:
        self.read()
        self._now_ns = due_ns + self._oversleep_ns

    def read(self) -> None:
        try:
            while True:
                self.payloads.append(self._listener.recv(2048))
        except BlockingIOError:
            pass


@pytest.mark.parametrize("oversleep_ns", [0, 200_000])
def test_all_of_it_is_sent_when_it_is_due(oversleep_ns: int) -> None:
    small = Fleet(SEED, 500.0, JOBS, NICS, 2.0)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        connection.connect(listener.getsockname())
        clock = Reader(listener, oversleep_ns)
        sent = send(small, connection, clock, START_NS)
        clock.read()
    chunks = list(small.departures(START_NS))
    made = [
        chunk.buffer[offset : offset + length].tobytes()
        for chunk in chunks
        for offset, length in zip(chunk.offset, chunk.length, strict=True)
    ]
    assert clock.payloads == made
    assert (sent.datagrams, sent.unreachable) == (len(made), 0)
    assert sent.samples == sum(struct.unpack_from(">I", payload, 24)[0] for payload in made)
    assert sent.latest_s == oversleep_ns / 1e9


def test_the_command_writes_capture_truth_and_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {name: tmp_path / name for name in ("pcap", "truth", "inventory")}
    options = [word for name, path in made.items() for word in (f"--{name}", str(path))]
    small = ["--seconds", "1", "--jobs", "5", "--nics", "96", "--samples-per-s", "500"]
    assert main([*options, *small]) == 0
    assert str(len(walk(made["pcap"]))) + " datagrams" in capsys.readouterr().out
    check(json.loads(made["truth"].read_text()), "document")
    assert len(read_inventory(made["inventory"]).hosts) == 12


@pytest.mark.parametrize("to", ["nowhere", "127.0.0.1:", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(to: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--seconds", "1", "--jobs", "5", "--nics", "96", "--samples-per-s", "500"]
    assert main(["--to", to, *small]) == 2
    assert "fleet: " in capsys.readouterr().err
