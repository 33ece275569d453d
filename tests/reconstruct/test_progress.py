from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.messages import CLASS_NAMES, MESSAGE_LENGTHS
from collector.schema import (
    ABSENT_U8,
    ABSENT_U32,
    FlowBatch,
    HeaderState,
    TimeBasis,
    Transport,
)
from reconstruct.bins import BIN_NS, Progress, Verb
from reconstruct.jobs import discover
from reconstruct.progress import follow
from reconstruct.traffic import classify
from reconstruct.volumes import window_volumes
from tests import naive
from tests.reconstruct.made import (
    ACKNOWLEDGE,
    HEADERS,
    MTU,
    READ_MIDDLE,
    READ_REQUEST,
    SEND_ONLY,
    START_NS,
    WRITE_FIRST,
    WRITE_LAST_IMM,
    WRITE_MIDDLE,
    WRITE_ONLY,
    address,
    packets,
    segments,
    telemetry,
)

MS = 1_000_000
TURN = 1 << 24


def progress(*batches: FlowBatch) -> Progress:
    return follow(telemetry(*batches))


def rows_of(progress: Progress) -> list[tuple[int, int, int, int, int]]:
    """Bins as (connection, first time, last time, first position, last position)."""
    bins = progress.bins
    return list(
        zip(
            bins.connection.tolist(),
            (bins.first_ns - START_NS).tolist(),
            (bins.last_ns - START_NS).tolist(),
            bins.first_seq.tolist(),
            bins.last_seq.tolist(),
            strict=True,
        )
    )


def test_no_rows_are_an_empty_window() -> None:
    nothing = progress()
    assert (len(nothing.endpoints), len(nothing.connections), len(nothing.bins)) == (0, 0, 0)
    assert (nothing.window_start_ns, nothing.window_end_ns) == (0, 0)
    traffic = classify(nothing, [])
    assert len(traffic) == 0
    assert len(window_volumes(nothing).bytes) == 0
    assert discover(nothing, traffic, {}) == []


def test_one_row_is_one_sample_of_one_connection() -> None:
    one = progress(packets(5 * MS, 1, 2, seq=77, dest_qp=9))
    assert one.endpoints.names == (address(1), address(2))
    assert (one.connections.src.tolist(), one.connections.dst.tolist()) == ([0], [1])
    assert one.connections.dest_qp.tolist() == [9]
    assert rows_of(one) == [(0, 5 * MS, 5 * MS, 77, 77)]
    assert one.bins.samples.tolist() == [1]
    assert one.window_start_ns == one.window_end_ns == START_NS + 5 * MS
    assert discover(one, classify(one, []), {}) == []


@pytest.mark.parametrize(
    "other",
    [
        packets(3 * MS, 1, 2, transport=Transport.UDP, dst_port=53),
        packets(3 * MS, 1, 2, header_state=HeaderState.TRUNCATED_TRANSPORT),
        packets(3 * MS, 1, 2, transport=Transport.OTHER, header_state=HeaderState.NOT_IP),
    ],
    ids=["udp", "truncated", "not ip"],
)
def test_what_cannot_be_followed_only_widens_the_window(other: FlowBatch) -> None:
    seen = progress(packets(5 * MS, 3, 4), other)
    assert seen.endpoints.names == (address(3), address(4))
    assert len(seen.bins) == 1
    assert seen.window_start_ns == START_NS + 3 * MS


def test_packets_seen_at_two_hops_count_once() -> None:
    time = np.arange(100) * 20 * MS
    seq = np.arange(100) * 50
    leaf = packets(time, 1, 2, seq=seq, exporter=1)
    spine = packets(time + MS, 1, 2, seq=seq, exporter=0).take(np.arange(100) % 3 > 0)
    both, alone = progress(spine, leaf), progress(leaf)
    assert len(both.connections) == 1
    assert rows_of(both) == rows_of(alone)
    for name in ("samples", "scaled_bytes", "retransmitted"):
        assert getattr(both.bins, name).tolist() == getattr(alone.bins, name).tolist()
    assert window_volumes(both).samples.tolist() == [100]
    assert window_volumes(both).bytes_by_count.tolist() == [100 * 100 * (MTU + HEADERS)]
    # Positions 0 to 4,950 of full packets, and one of a hundred gaps at each end.
    assert window_volumes(both).bytes[0] == pytest.approx(4950 * MTU * 101 / 99)


def test_received_and_sent_at_one_switch_count_once() -> None:
    time, seq = np.arange(10) * 20 * MS, np.arange(10)
    received = packets(time, 1, 2, seq=seq, direction=1)
    sent = packets(time[:9] + MS, 1, 2, seq=seq[:9], direction=2)
    assert progress(sent, received).bins.samples.sum() == 10


def test_each_connection_is_read_where_most_of_it_was_sampled() -> None:
    time = np.arange(10) * 20 * MS
    batches = [
        packets(time[:few], 1, 2, dest_qp=qp, exporter=exporter, seq=exporter)
        for qp, exporter, few in [(1, 0, 10), (1, 1, 3), (2, 0, 4), (2, 1, 8)]
    ]
    seen = progress(*batches)
    assert window_volumes(seen).samples.tolist() == [10, 8]
    assert [row[3] for row in rows_of(seen)] == [0] * 10 + [1] * 8


def test_queue_pairs_of_one_edge_stay_apart() -> None:
    time = np.arange(6) * 20 * MS
    seen = progress(
        packets(time, 1, 2, dest_qp=5, seq=np.arange(6) * 10),
        packets(time + MS, 1, 2, dest_qp=6, seq=TURN - 30 + np.arange(6) * 10),
    )
    assert seen.connections.dest_qp.tolist() == [5, 6]
    assert seen.connections.src.tolist() == [0, 0]
    assert [row[3] for row in rows_of(seen)] == [
        *range(0, 60, 10),
        *range(TURN - 30, TURN + 30, 10),
    ]


def test_read_responses_are_no_part_of_the_requests_beside_them() -> None:
    # Both run from 1 to 2 towards the same queue pair, but count in different sequences.
    time = np.arange(5) * 20 * MS
    seen = progress(
        packets(time, 1, 2, dest_qp=5, seq=1000 + np.arange(5)),
        packets(time + MS, 1, 2, dest_qp=5, seq=9000 + np.arange(5), opcode=READ_MIDDLE),
        packets(time + 2 * MS, 2, 1, dest_qp=7, seq=9000 + np.arange(5), opcode=READ_REQUEST),
    )
    assert seen.connections.verbs.tolist() == [Verb.WRITE, Verb.READ]
    assert [row[3] for row in rows_of(seen)] == [*range(1000, 1005), *range(9000, 9005)]
    assert seen.bins.retransmitted.sum() == 0


@pytest.mark.parametrize(
    "other",
    [
        packets(9 * MS, 2, 1, opcode=ACKNOWLEDGE, msn=3, syndrome=0, payload_bytes=0),
        packets(9 * MS, 2, 1, opcode=0x81, payload_bytes=0),
        packets(9 * MS, 2, 1, opcode=READ_REQUEST, payload_bytes=0),
        packets(9 * MS, 2, 1, opcode=ABSENT_U8),
        packets(9 * MS, 2, 1, opcode=0x64),
        segments(9 * MS, 2, 1, payload_bytes=0),
    ],
    ids=["acknowledgement", "cnp", "read request", "no bth", "datagram", "bare ack"],
)
def test_what_answers_is_no_data(other: FlowBatch) -> None:
    seen = progress(packets(5 * MS, 1, 2), other)
    assert seen.connections.src.tolist() == [0]
    assert len(seen.bins) == 1


def test_reliable_and_extended_reliable_requests_are_data() -> None:
    opcodes = [SEND_ONLY, 0x16, WRITE_MIDDLE, 0x20 | WRITE_MIDDLE, 0xA0 | WRITE_MIDDLE]
    seen = progress(packets(np.arange(5) * 20 * MS, 1, 2, dest_qp=np.arange(5), opcode=opcodes))
    assert len(seen.connections) == 5


def test_tcp_positions_run_on_over_the_wrap() -> None:
    start = (1 << 32) - 3000
    seq = (start + 1448 * np.arange(6)) % (1 << 32)
    seen = progress(segments(np.arange(6) * 20 * MS, 1, 2, seq=seq))
    assert [row[3] for row in rows_of(seen)] == [start + 1448 * n for n in range(6)]
    assert seen.connections.unit_bytes.tolist() == [1]
    assert seen.connections.dest_qp.tolist() == [ABSENT_U32]


def test_tcp_connections_are_told_by_their_ports() -> None:
    ports = [(4000, 5000), (4001, 5000), (5000, 4000)]
    seen = progress(
        *(segments(20 * MS * np.arange(2), 1, 2, src_port=a, dst_port=b) for a, b in ports),
    )
    pairs = zip(seen.connections.src_port, seen.connections.dst_port, strict=True)
    assert sorted(pairs) == ports


def test_the_same_address_in_two_tenant_networks_is_two_endpoints() -> None:
    seen = progress(packets([0, MS], 1, 2, vni=[7, 8]), packets(2 * MS, 1, 2))
    one, two = address(1), address(2)
    assert set(seen.endpoints.names) == {
        *(f"{one}%7", f"{two}%7", f"{one}%8", f"{two}%8"),
        *(one, two),
    }
    assert len(seen.connections) == 3


def test_endpoints_are_sorted_by_address() -> None:
    numbers = [700, 3, 299, 5]
    seen = progress(packets(np.arange(4) * MS, numbers, [9, 700, 3, 3], seq=1))
    assert seen.endpoints.names == tuple(address(n) for n in (3, 5, 9, 299, 700))
    edges = zip(seen.connections.src, seen.connections.dst, strict=True)
    assert sorted(edges) == [(0, 4), (1, 0), (3, 0), (4, 2)]


@pytest.mark.parametrize(
    ("payload", "mtu"), [([1024, 700], 1024), ([1025], 2048), ([4096, 16], 4096), ([200], 256)]
)
def test_the_path_mtu_is_the_smallest_that_holds_every_payload(
    payload: list[int], mtu: int
) -> None:
    time = np.arange(len(payload)) * 20 * MS
    seen = progress(packets(time, 1, 2, payload_bytes=payload))
    assert seen.connections.unit_bytes.tolist() == [mtu]


def test_message_lengths_and_verbs_are_gathered() -> None:
    seen = progress(
        packets(
            np.arange(5) * 20 * MS,
            1,
            2,
            opcode=[WRITE_FIRST, WRITE_FIRST, WRITE_ONLY, WRITE_LAST_IMM, WRITE_MIDDLE],
            message_bytes=[1_048_576, 1_048_576, 65_536, ABSENT_U32, 12_345],
        )
    )
    read = dict(zip(CLASS_NAMES, seen.connections.message_classes[0].tolist(), strict=True))
    assert {name: count for name, count in read.items() if count} == {
        "ring_simple": 2,
        "p2p_64k": 1,
    }
    assert seen.connections.verbs.tolist() == [Verb.WRITE | Verb.WRITE_IMM]


def test_a_site_has_message_lengths_of_its_own() -> None:
    first = packets(np.arange(3) * 20 * MS, 1, 2, opcode=[WRITE_FIRST] * 3)
    batch = replace(first, message_bytes=np.array([2_097_152, 2_097_152, 1_048_576], np.uint32))
    seen = follow(telemetry(batch), (2_097_152, *MESSAGE_LENGTHS[1:]))
    read = dict(zip(CLASS_NAMES, seen.connections.message_classes[0].tolist(), strict=True))
    assert read == {name: 2 * (name == "ring_simple") for name in CLASS_NAMES}


def test_a_bin_holds_its_samples_and_what_happened_to_them() -> None:
    slot = START_NS % BIN_NS
    assert slot == 0  # the bins below are those of the start
    seen = progress(
        packets(
            np.array([1, 2, 9, 12]) * MS,
            1,
            2,
            seq=[5000, 7000, 5500, 9000],
            ecn=[3, 0, 3, 1],
            frame_bytes=[100, 200, 300, 400],
            sampling_rate=[10, 10, 20, 10],
        )
    )
    assert rows_of(seen) == [(0, MS, 9 * MS, 5000, 5500), (0, 12 * MS, 12 * MS, 9000, 9000)]
    bins = seen.bins
    assert bins.samples.tolist() == [3, 1]
    assert bins.scaled_bytes.tolist() == [100 * 10 + 200 * 10 + 300 * 20, 400 * 10]
    assert bins.marks.tolist() == [2, 0]
    # 1,500 packets behind is more than queues put out of order; 500 would not be.
    assert bins.retransmitted.tolist() == [1, 0]


def test_reordering_within_a_queue_is_no_retransmission() -> None:
    seen = progress(packets(np.arange(3) * 20 * MS, 1, 2, seq=[5000, 5900, 5100]))
    assert seen.bins.retransmitted.sum() == 0
    assert [row[3] for row in rows_of(seen)] == [5000, 5900, 5100]


def test_a_bin_is_as_uncertain_as_its_worst_sample() -> None:
    time = np.array([1, 2, 12]) * MS
    flows = packets(time, 1, 2, time_basis=TimeBasis.ARRIVAL)
    flows.time_min_ns[:] -= np.array([3, 900, 40]) * MS
    stamped = packets(time + MS, 1, 2, dest_qp=4)
    stamped.time_min_ns[:] -= 5  # a stamp is a stamp
    seen = progress(flows, stamped)
    assert seen.bins.slack_ns.tolist() == [900 * MS, 40 * MS, 0, 0]


PACKETS = st.lists(
    st.tuples(
        st.integers(0, 60),  # time in ms
        st.integers(1, 3),  # source
        st.integers(1, 3),  # destination
        st.integers(5, 6),  # queue pair
        st.integers(0, 1),  # exporter
        st.sampled_from([WRITE_MIDDLE, READ_MIDDLE]),
        st.integers(0, 3).map(lambda quarter: (quarter * TURN // 4 + 100 * quarter) % TURN),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[0],
)


@given(PACKETS, st.randoms(use_true_random=False))
def test_following_equals_reading_one_packet_after_another(
    rows: list[tuple[int, int, int, int, int, int, int]], random: Random
) -> None:
    points: dict[tuple[str, str, bool, int], Counter[int]] = defaultdict(Counter)
    for _, src, dst, qp, exporter, opcode, _ in rows:
        points[address(src), address(dst), opcode == READ_MIDDLE, qp][exporter] += 1
    wanted = {}
    for key, seen_at in points.items():
        best = max(seen_at, key=lambda exporter: (seen_at[exporter], -exporter))
        mine = sorted(
            (time, seq)
            for time, src, dst, qp, exporter, opcode, seq in rows
            if (address(src), address(dst), opcode == READ_MIDDLE, qp) == key and exporter == best
        )
        position = naive.unwrap([0] * len(mine), [seq for _, seq in mine], [24] * len(mine))
        slots: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (time, _), at in zip(mine, position, strict=True):
            slots[time // 10].append((time * MS, at))
        wanted[key] = [
            (inside[0][0], inside[-1][0], inside[0][1], inside[-1][1]) for inside in slots.values()
        ]

    random.shuffle(rows)
    times, *ends, qps, exporters, opcodes, seqs = np.array(rows).T
    seen = progress(
        packets(times * MS, *ends, dest_qp=qps, exporter=exporters, opcode=opcodes, seq=seqs)
    )
    names, made = seen.endpoints.names, seen.connections
    keys = [
        (names[src], names[dst], verbs == Verb.READ, qp)
        for src, dst, verbs, qp in zip(
            made.src.tolist(),
            made.dst.tolist(),
            made.verbs.tolist(),
            made.dest_qp.tolist(),
            strict=True,
        )
    ]
    found: dict[tuple[str, str, bool, int], list[tuple[int, int, int, int]]] = defaultdict(list)
    for connection, *row in rows_of(seen):
        found[keys[connection]].append((row[0], row[1], row[2], row[3]))
    assert found == wanted
