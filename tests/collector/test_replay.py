from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import NothingReadError, ReplayRefused
from collector.replay import Replay
from tests import naive
from tests.collector import encode as e
from tests.collector.ipfix import encode

START = e.EPOCH_NS
MS = 1_000_000
NOW = START + 3_600 * 24 * e.SECOND + 17
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))

Sent = list[tuple[int, bytes]]


def stamped(*stamps_ns: int, sequence: int = 1) -> bytes:
    samples = [e.flow_sample(e.timestamp(t), HEADER, sequence=n) for n, t in enumerate(stamps_ns)]
    return e.datagram(*samples, sequence=sequence)


def capture(folder: Path, packets: Sequence[tuple[int, bytes]], name: str = "a.pcap") -> Path:
    """A capture of sFlow datagrams; times are ns after the start."""
    path = folder / name
    path.write_bytes(e.pcap((START + at, e.packet(data)) for at, data in packets))
    return path


def departures(replay: Replay, now_ns: Callable[[], int] = lambda: NOW) -> Sent:
    """(due, payload) of all datagrams."""
    out: Sent = []
    for part in replay.departures(now_ns):
        columns = zip(part.due_ns.tolist(), part.offset, part.length, strict=True)
        out += [(due, part.buffer[at : at + size].tobytes()) for due, at, size in columns]
    return out


def test_everything_moves_by_one_constant(tmp_path: Path) -> None:
    """Spacing, the lag of stamps behind arrivals, and every other byte stay."""
    packets = [
        (0, stamped(START - 300 * MS, START - 7)),
        (5, stamped(START - 1, sequence=2)),
        (900 * MS + 3, e.datagram(e.counter_sample(), sequence=3)),
        (901 * MS, stamped(START + 900 * MS, sequence=4)),
    ]
    sent = departures(Replay([capture(tmp_path, packets)], 1, keep_time=False))
    assert [due - NOW for due, _ in sent] == [at for at, _ in packets]
    moved = NOW - START
    assert [payload for _, payload in sent] == [
        stamped(START - 300 * MS + moved, START - 7 + moved),
        stamped(START - 1 + moved, sequence=2),
        packets[2][1],
        stamped(START + 900 * MS + moved, sequence=4),
    ]


def test_flow_records_stay_behind(tmp_path: Path) -> None:
    """Their times stand in too many places; who asked is told."""
    packets = [(0, encode.message()), (5, stamped(START)), (9, encode.message_9(bytes(8)))]
    replay = Replay([capture(tmp_path, packets)], 1, keep_time=True)
    assert [payload for _, payload in departures(replay)] == [packets[1][1]]
    assert [(x.reason, x.count) for x in replay.errors] == [("flow records are not sent again", 2)]


def test_kept_time_leaves_every_byte(tmp_path: Path) -> None:
    packets = [(0, stamped(START - 5)), (77, stamped(START + 70, sequence=2))]
    sent = departures(Replay([capture(tmp_path, packets)], 1, keep_time=True))
    assert sent == [(NOW + at, data) for at, data in packets]


@pytest.mark.parametrize(("speed", "keep_time"), [(2.0, False), (0.25, False), (2.0, True)])
def test_speed_draws_times_together_around_the_first_stamp(
    tmp_path: Path, speed: float, keep_time: bool
) -> None:
    first = START - 300 * MS
    stamps = [first, first + 4_000, first - 2_000, first + 800 * MS]
    packets = [(0, stamped(*stamps[:3])), (600 * MS, stamped(stamps[3], sequence=2))]
    sent = departures(Replay([capture(tmp_path, packets)], speed, keep_time=keep_time))
    assert [due - NOW for due, _ in sent] == [0, 600 * MS / speed]
    centre = first if keep_time else first + NOW - START
    scaled = [centre + int((stamp - first) / speed) for stamp in stamps]
    assert [payload for _, payload in sent] == [
        stamped(*scaled[:3]),
        stamped(scaled[3], sequence=2),
    ]


def test_samples_without_a_stamp_refuse_another_speed(tmp_path: Path) -> None:
    bare = e.datagram(e.flow_sample(HEADER), e.flow_sample(e.timestamp(START), HEADER))
    path = capture(tmp_path, [(0, bare)])
    with pytest.raises(ReplayRefused, match=r"1 of 2 flow samples carry no .*0:1043"):
        Replay([path], 1.5, keep_time=True)
    moved = departures(Replay([path], 1, keep_time=False))
    again = e.datagram(e.flow_sample(HEADER), e.flow_sample(e.timestamp(NOW), HEADER))
    assert moved == [(NOW, again)]


def test_counters_alone_refuse_another_speed(tmp_path: Path) -> None:
    path = capture(tmp_path, [(0, e.datagram(e.counter_sample()))])
    with pytest.raises(ReplayRefused, match="0 of 0 flow samples"):
        Replay([path], 2, keep_time=False)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_speeds_that_make_no_sense(tmp_path: Path, speed: float) -> None:
    with pytest.raises(ReplayRefused, match=r"not from 0\.001 to 1000"):
        Replay([capture(tmp_path, [(0, stamped(START))])], speed, keep_time=False)


def test_captures_follow_one_another_by_time(tmp_path: Path) -> None:
    late = capture(tmp_path, [(50, stamped(START, sequence=3)), (60, b"noise")], "late.pcap")
    early = capture(tmp_path, [(0, stamped(START)), (70, stamped(START, sequence=2))], "early.pcap")
    sent = departures(Replay([late, early, late], 1, keep_time=True))
    # One clock for all; the later file begins before the earlier ends, and catches up.
    assert [due - NOW for due, _ in sent] == [0, 70, 50, 60]
    assert [payload for _, payload in sent] == [
        stamped(START),
        stamped(START, sequence=2),
        stamped(START, sequence=3),
        b"noise",
    ]


def test_a_clock_that_steps_back_does_not_hold_anything_up(tmp_path: Path) -> None:
    packets = [(100, stamped(START)), (20, stamped(START, sequence=2)), (150, stamped(START))]
    sent = departures(Replay([capture(tmp_path, packets)], 1, keep_time=True))
    assert [due - NOW for due, _ in sent] == [0, 0, 50]


def test_now_is_asked_once(tmp_path: Path) -> None:
    size = 2_000  # more than one block of the file
    packets = [(n, stamped(START + n, sequence=n)) for n in range(size)]
    clock = itertools.count(NOW)
    sent = departures(Replay([capture(tmp_path, packets)], 1, keep_time=False), lambda: next(clock))
    assert sent == [(NOW + n, stamped(NOW + n, sequence=n)) for n in range(size)]
    assert next(clock) == NOW + 1


def test_a_capture_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(e.section() + e.interface() + e.simple(e.packet(stamped(START))))
    with pytest.raises(ReplayRefused, match="does not say when"):
        departures(Replay([path], 1, keep_time=False))


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    good = capture(tmp_path, [(0, stamped(START))])
    empty = tmp_path / "empty.pcap"
    empty.touch()
    replay = Replay([empty, good], 1, keep_time=True)
    assert len(departures(replay)) == 1
    assert [(error.file, error.reason) for error in replay.errors] == [
        (str(empty), "the file is empty")
    ]
    with pytest.raises(NothingReadError, match=r"empty\.pcap: offset 0: the file is empty"):
        departures(Replay([empty], 1, keep_time=False))


@given(
    st.lists(
        st.tuples(st.binary(max_size=300), st.integers(0, 2**64 - 1), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
def test_only_the_stamps_a_decoder_reads_change(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[bytes, int, bool]]
) -> None:
    """Noise, cut datagrams and nonsense stamps: each length stays, each stamp moves alike."""
    data = []
    for noise, stamp, cut in drawn:
        whole = e.datagram(e.flow_sample(e.timestamp(stamp), HEADER)) + noise
        data.append(whole[: 60 + len(noise) % 80] if cut else whole)
    folder = tmp_path_factory.mktemp("replay")
    path = capture(folder, list(enumerate(data)))
    sent = departures(Replay([path], 1, keep_time=False))
    assert len(sent) == len(data)
    for before, (_, after) in zip(data, sent, strict=True):
        old, new = naive.decode(before), naive.decode(after)
        expected = [(f["stamp_ns"] and (f["stamp_ns"] + NOW - START) % 2**64) for f in old["flows"]]
        assert [f["stamp_ns"] for f in new["flows"]] == expected
        changed = np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))
        assert len(changed) <= 8 * len(expected)
