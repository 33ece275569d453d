from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.clock import BELIEVED_NS
from collector.errors import NothingReadError
from collector.exporters import FLUSH_NS
from collector.ingest import ingest
from collector.schema import COLUMNS, COUNTER_COLUMNS, PortState, Telemetry, TimeBasis, Transport
from tests.collector import encode as e

START = e.EPOCH_NS
MS = 1_000_000
DAY = 86_400 * e.SECOND
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
COUNTERS = e.counter_sample(e.record(1, e.GENERIC_COUNTERS.pack(3, *range(18))))


def capture(folder: Path, packets: Sequence[tuple[int, bytes]], name: str = "a.pcap") -> Path:
    """A capture of sFlow datagrams; times are ms after the start."""
    path = folder / name
    path.write_bytes(e.pcap((START + at_ms * MS, e.packet(data)) for at_ms, data in packets))
    return path


def flow(stamp_ns: int | None = None, rate: int = 1000, sequence: int = 1) -> bytes:
    records = [HEADER] if stamp_ns is None else [e.timestamp(stamp_ns), HEADER]
    return e.flow_sample(*records, rate=rate, sequence=sequence)


def test_rows_carry_time_exporter_and_packet(tmp_path: Path) -> None:
    stamp = START + 3 * MS
    first = e.datagram(flow(stamp), COUNTERS, flow(stamp + 1), sub_agent=7)
    second = e.datagram(flow(stamp + 2), agent="2001:db8::5")
    read = ingest([capture(tmp_path, [(10, first), (20, second)])])
    assert read.flows.time_ns.tolist() == [stamp, stamp + 1, stamp + 2]
    assert read.flows.time_min_ns.tolist() == [stamp, stamp + 1, stamp + 2]
    assert read.flows.time_basis.tolist() == [TimeBasis.EXPORTER] * 3
    assert read.flows.exporter.tolist() == [0, 0, 1]
    assert read.flows.transport.tolist() == [Transport.ROCEV2] * 3
    assert read.counters.time_ns.tolist() == [START + 10 * MS]
    assert read.counters.ifindex.tolist() == [3]
    assert [(x.agent, x.sub_agent, x.flow_samples) for x in read.exporters] == [
        ("10.255.0.1", 7, 2),
        ("2001:db8::5", 0, 1),
    ]
    assert (read.datagrams, read.flow_samples, read.counter_samples) == (2, 3, 1)
    assert (read.lost_datagrams, read.decode_errors, read.errors) == (0, 0, ())
    for batch, columns in ((read.flows, COLUMNS), (read.counters, COUNTER_COLUMNS)):
        assert {name: getattr(batch, name).dtype for name in columns} == columns


def test_without_stamps_a_sample_lies_between_two_flushes(tmp_path: Path) -> None:
    def numbered(sequence: int, sub_agent: int = 0) -> bytes:
        return e.datagram(flow(), sequence=sequence, sub_agent=sub_agent)

    packets = [
        (0, numbered(1)),
        (400, numbered(2)),
        (500, numbered(1, sub_agent=1)),  # another exporter does not bound this one
        (2400, numbered(3)),  # two seconds of silence: the flush was at most one ago
        (2450, numbered(5)),
        (2460, numbered(4)),  # overtaken: its samples may be older than number 5's
        (2470, numbered(5)),  # a duplicate
        (2480, numbered(6)),
    ]
    flows = ingest([capture(tmp_path, packets)]).flows
    assert flows.time_basis.tolist() == [TimeBasis.ARRIVAL] * 7
    assert ((flows.time_ns - START) // MS).tolist() == [0, 400, 500, 2400, 2450, 2460, 2480]
    assert ((flows.time_min_ns - START) // MS).tolist() == [-1000, 0, -500, 1400, 2400, 1460, 2450]
    assert FLUSH_NS == 1000 * MS


def test_the_bound_carries_over_from_batch_to_batch(tmp_path: Path) -> None:
    # More datagrams than one batch of packets holds.
    path = tmp_path / "a.pcap"
    count = (1 << 16) + 10
    frame = e.packet(e.datagram(flow()))
    at = frame.index(b"\x00\x00\xea\x60") - 4
    path.write_bytes(
        e.pcap(
            (START + n * MS, frame[:at] + n.to_bytes(4) + frame[at + 4 :])
            for n in range(1, count + 1)
        )
    )
    read = ingest([path])
    assert (read.datagrams, read.lost_datagrams) == (count, 0)
    widths = read.flows.time_ns - read.flows.time_min_ns
    assert widths[0] == FLUSH_NS
    assert set(widths[1:].tolist()) == {MS}


@pytest.mark.parametrize("away_ns", [BELIEVED_NS + 1, -BELIEVED_NS - 1, -START + 1, 1 << 63])
def test_an_absurd_stamp_is_not_believed_and_counted(tmp_path: Path, away_ns: int) -> None:
    stamp = (START + away_ns) % (1 << 64)
    read = ingest([capture(tmp_path, [(0, e.datagram(flow(stamp), flow(START - MS)))])])
    assert read.flows.time_basis.tolist() == [TimeBasis.ARRIVAL, TimeBasis.EXPORTER]
    assert read.flows.time_ns.tolist() == [START, START - MS]
    (error,) = read.errors
    assert (error.exporter, error.count) == ("10.255.0.1", 1)
    assert "more than an hour" in error.reason


def test_a_stamp_within_the_hour_is_believed(tmp_path: Path) -> None:
    stamp = START - BELIEVED_NS
    read = ingest([capture(tmp_path, [(0, e.datagram(flow(stamp)))])])
    assert (read.flows.time_ns[0], read.errors) == (stamp, ())


def test_packets_without_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    stamped, plain = e.datagram(flow(START)), e.datagram(flow(), sequence=2)
    blocks = [e.section(), e.interface(), e.simple(e.packet(stamped)), e.simple(e.packet(plain))]
    path.write_bytes(b"".join(blocks))
    read = ingest([path])
    assert read.flows.time_ns.tolist() == [START]
    assert [error.reason for error in read.errors] == ["neither capture nor exporter gives a time"]


def test_loss_is_counted_by_agent_and_sub_agent(tmp_path: Path) -> None:
    def dg(
        sequence: int, sub_agent: int = 0, uptime_ms: int = 60_000, counters: bool = False
    ) -> bytes:
        sample = COUNTERS if counters else flow(START)
        return e.datagram(sample, sequence=sequence, sub_agent=sub_agent, uptime_ms=uptime_ms)

    packets = [
        dg(10),
        dg(500, sub_agent=1),
        dg(11, counters=True),  # counters take numbers of the same count
        dg(501, sub_agent=1),
        dg(14),
        dg(13),  # late: 12 alone is lost
        dg(1, uptime_ms=100),  # the agent started again
        dg(3, uptime_ms=2000),
    ]
    read = ingest([capture(tmp_path, list(enumerate(packets)))])
    assert [x.lost_datagrams for x in read.exporters] == [1 + 1, 0]
    assert read.lost_datagrams == 2
    assert [x.datagrams for x in read.exporters] == [6, 2]


def test_duplicated_datagrams_do_not_double_the_samples(tmp_path: Path) -> None:
    first, second = (e.datagram(flow(START + n), COUNTERS, sequence=n) for n in (1, 2))
    read = ingest([capture(tmp_path, [(0, first), (1, second), (2, first), (3, second)])])
    assert read.flows.time_ns.tolist() == [START + 1, START + 2]
    assert (read.datagrams, read.flow_samples, read.counter_samples) == (4, 2, 2)
    assert len(read.counters) == 2
    assert read.exporters[0].duplicate_datagrams == 2
    assert read.lost_datagrams == 0


def test_an_agent_that_never_numbers_its_datagrams_loses_nothing(tmp_path: Path) -> None:
    packets = [(n, e.datagram(flow(START + n), sequence=0)) for n in range(5)]
    read = ingest([capture(tmp_path, packets)])
    assert (read.flow_samples, read.lost_datagrams) == (5, 0)


def test_lost_samples_by_their_own_numbers(tmp_path: Path) -> None:
    def sample(number: int, index: int) -> bytes:
        return e.flow_sample(HEADER, sequence=number, source=(0, index))

    data = e.datagram(sample(1, 3), sample(100, 4), sample(4, 3), sample(101, 4))
    read = ingest([capture(tmp_path, [(0, data)])])
    assert read.exporters[0].lost_samples == 2


def test_states_and_rates(tmp_path: Path) -> None:
    packets = [
        e.datagram(COUNTERS, agent="10.0.0.1"),
        e.datagram(flow(rate=0), agent="10.0.0.2"),
        e.datagram(flow(rate=4000), flow(rate=1000), flow(rate=4000), agent="10.0.0.3"),
        e.datagram(e.record(5, b"\0" * 36), e.record(4413 << 12 | 1, b"\0" * 8), agent="10.0.0.4"),
    ]
    read = ingest([capture(tmp_path, list(enumerate(packets)))])
    assert [(x.state, x.sampling_rates) for x in read.exporters] == [
        ("counters_only", ()),
        ("rate_unknown", ()),
        ("ok", (1000, 4000)),
        ("counters_only", ()),
    ]
    assert (read.exporters[3].discard_samples, read.exporters[3].unknown_samples) == (1, 1)
    assert read.flows.sampling_rate.tolist() == [0, 4000, 1000, 4000]


def test_an_output_of_zero_is_no_port(tmp_path: Path) -> None:
    # sflow/host-sflow#41, #67, #71: packets are sampled before the switch knows where they go.
    read = ingest([capture(tmp_path, [(0, e.datagram(flow()))])])
    assert read.flows.output_state.tolist() == [PortState.UNKNOWN]


def test_errors_say_where_and_why(tmp_path: Path) -> None:
    good = e.datagram(flow(), flow(sequence=2))
    bad_frame = e.datagram(e.flow_sample(e.raw_header(e.ethernet(0x0806, b""), frame_bytes=0)))
    packets = [
        (0, good[:-1]),
        (1, good[:-2]),
        (2, b"\0\0\0\4" + good[4:]),
        (3, b""),
        (4, b"\xff" * 40),
        (5, bad_frame),
        (6, good),
    ]
    path = capture(tmp_path, packets)
    read = ingest([path])
    data = path.read_bytes()
    said = {(x.exporter, x.reason): x for x in read.errors}
    short = said["10.255.0.1", "the datagram ends before its last sample"]
    assert short.count == 2
    assert short.offset == data.index(good[:-1]) + 28 + len(flow())
    not_v5 = said["192.0.2.1", "not an sFlow version 5 datagram"]
    assert (not_v5.count, not_v5.offset) == (2, data.index(b"\0\0\0\4" + good[4:]))
    absurd = said["10.255.0.1", "an impossible frame length, taken from the IP header instead"]
    assert absurd.count == 1
    assert {x.file for x in read.errors} == {str(path)}
    assert read.decode_errors == sum(x.count for x in read.errors) == 5
    assert read.exporters[0].decode_errors == 3
    assert read.flow_samples == 1 + 1 + 1 + 2


def test_a_fragment_keeps_its_whole_samples_and_is_one_error(tmp_path: Path) -> None:
    data = e.datagram(flow(), flow(sequence=2))
    first = e.ipv4(e.udp(data)[: 8 + len(data) - 40], 17, fragment=0x2000)
    path = tmp_path / "a.pcap"
    path.write_bytes(e.pcap([(START, e.ethernet(0x0800, first))]))
    read = ingest([path])
    assert read.flow_samples == 1
    assert [(x.reason, x.count) for x in read.errors] == [
        ("an IP fragment: the rest of the datagram is missing", 1)
    ]


def test_several_captures_are_one_window_in_order_of_time(tmp_path: Path) -> None:
    late = capture(tmp_path, [(1000, e.datagram(flow(), sequence=2))], "a.pcap")
    early = capture(tmp_path, [(0, e.datagram(flow(), sequence=1))], "b.pcap")
    packed = tmp_path / "c.pcap.gz"
    more = capture(tmp_path, [(2000, e.datagram(flow(), sequence=3))], "c.pcap")
    packed.write_bytes(gzip.compress(more.read_bytes()))
    calls: list[tuple[int, int]] = []
    read = ingest([packed, late, early], lambda done, total: calls.append((done, total)))
    assert ((read.flows.time_ns - START) // MS).tolist() == [0, 1000, 2000]
    assert (len(read.exporters), read.lost_datagrams) == (1, 0)
    total = sum(path.stat().st_size for path in (packed, late, early))
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)


def test_one_bad_file_among_good_ones_is_an_error_not_the_end(tmp_path: Path) -> None:
    good = capture(tmp_path, [(0, e.datagram(flow()))])
    bad = tmp_path / "notes.txt"
    bad.write_text("no capture at all")
    read = ingest([bad, good, tmp_path / "absent.pcap"])
    assert read.flow_samples == 1
    assert {(x.file, x.count) for x in read.errors} == {
        (str(bad), 1),
        (str(tmp_path / "absent.pcap"), 1),
    }


def test_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    path = capture(tmp_path, [(n, e.datagram(flow(), sequence=n)) for n in range(200)])
    read = ingest([path, tmp_path / "." / path.name])
    assert (read.flow_samples, read.datagrams, read.lost_datagrams) == (200, 200, 0)


def test_a_clock_not_yet_set_does_not_stretch_the_window(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    datagrams = [e.datagram(flow(sequence=n), sequence=n) for n in range(6)]
    times = [e.SECOND, START, START + 30 * DAY, START + 62 * DAY, 4_102_444_800 * e.SECOND, START]
    path.write_bytes(e.pcap((t, e.packet(d)) for t, d in zip(times, datagrams, strict=True)))
    read = ingest([path])
    assert read.flows.time_ns.tolist() == [START, START + 30 * DAY, START]
    assert read.flow_samples == 6
    (error,) = read.errors
    assert (error.count, read.decode_errors) == (3, 3)
    assert "more than 31 days" in error.reason


def test_paths_that_lead_nowhere_are_errors(tmp_path: Path) -> None:
    good = capture(tmp_path, [(0, e.datagram(flow()))])
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    long = tmp_path / ("a" * 300)
    read = ingest([loop, long, good])
    assert read.flow_samples == 1
    assert {(x.file, x.reason) for x in read.errors} == {
        (str(loop), "Too many levels of symbolic links"),
        (str(long), "File name too long"),
    }


def test_a_name_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pcap"))
    good = capture(tmp_path, [(0, e.datagram(flow()))])
    good.rename(path)
    with path.open("ab") as file:
        file.write(b"cut")
    (error,) = ingest([path]).errors
    assert error.file == f"{tmp_path}/\\udcff.pcap"


def test_garbage_is_counted_by_sender(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    frames = [e.packet(b"rubbish" * 9, src=f"192.0.2.{n % 3}") for n in range(9)]
    frames += [e.packet(e.datagram(agent="10.0.0.1")[:20], src="192.0.2.7")]
    path.write_bytes(e.pcap((START, frame) for frame in frames))
    read = ingest([path])
    assert [(x.exporter, x.reason, x.count) for x in read.errors] == [
        *((f"192.0.2.{n}", "not an sFlow version 5 datagram", 3) for n in range(3)),
        ("192.0.2.7", "the datagram ends inside its header", 1),
    ]
    assert read.exporters == ()


def test_exporters_without_number_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.exporters.MOST_EXPORTERS", 3)
    monkeypatch.setattr("collector.packets._MOST_NAMED", 4)
    datagrams = [e.datagram(flow(START + n), agent=f"10.0.0.{n}") for n in range(5)]
    rubbish = [b"rubbish" * 9] * 8
    path = tmp_path / "a.pcap"
    packets = [e.packet(data, src=f"192.0.2.{n}") for n, data in enumerate(datagrams + rubbish)]
    path.write_bytes(e.pcap((START, frame) for frame in packets))
    read = ingest([path])
    assert [x.agent for x in read.exporters] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert read.flows.time_ns.tolist() == [START, START + 1, START + 2]
    assert [x.count for x in read.errors] == [1, 1, 1, 1, 4, 2]
    assert [x.exporter for x in read.errors[4:]] == [None, None]


def test_nothing_readable_at_all_is_raised(tmp_path: Path) -> None:
    bad = tmp_path / "notes.txt"
    bad.write_text("no capture at all")
    with pytest.raises(
        NothingReadError, match=r"notes\.txt: offset 0: no pcap, pcapng or IPFIX"
    ) as caught:
        ingest([bad])
    assert len(caught.value.errors) == 1
    with pytest.raises(NothingReadError, match="no capture given"):
        ingest([])


def test_a_capture_without_telemetry_is_an_empty_window(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(e.pcap([]))
    read: Telemetry = ingest([path])
    assert (read.datagrams, len(read.flows), len(read.counters)) == (0, 0, 0)
    assert read.exporters == ()
    assert [error.reason for error in read.errors] == [
        "no sFlow, IPFIX or NetFlow datagram among its 0 UDP packets"
    ]


def test_the_agent_of_sonic(shared: Path) -> None:
    (path,) = (shared / "corpus/hsflowd-agent").glob("*.pcap")
    read = ingest([path])
    assert (read.flow_samples, read.counter_samples, read.decode_errors) == (656, 13, 0)
    (exporter,) = read.exporters
    assert (exporter.agent, exporter.sub_agent, exporter.sampling_rates) == (
        *("10.9.9.1", 100000),
        (10,),
    )
    assert (exporter.time_basis, exporter.lost_datagrams) == (TimeBasis.EXPORTER, 0)
    assert int(read.flows.frame_bytes.sum()) * 10 == 619_930
    assert set(read.flows.output_state.tolist()) == {PortState.UNKNOWN}


@pytest.mark.parametrize(
    ("folder", "rate", "samples"),
    [
        ("ddp8-ring", 50, 12_967),
        ("dp4-pp2", 30, 12_429),
        ("mpi-ring", 50, 6_376),
        ("iperf-only", 200, 1_861),
    ],
)
def test_captures_of_a_real_switch(real: Path, folder: str, rate: int, samples: int) -> None:
    (path,) = (real / folder).glob("capture.pcap*")
    read = ingest([path])
    assert int((read.flows.transport == Transport.TCP).sum()) == samples
    assert (read.exporters[0].sampling_rates, read.decode_errors) == ((rate,), 0)
    assert read.lost_datagrams == 0
    within = read.flows.time_ns - read.flows.time_min_ns
    assert 0 <= within.min() <= within.max() <= FLUSH_NS
