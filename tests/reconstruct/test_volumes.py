from __future__ import annotations

import numpy as np
import pytest

from collector.schema import Transport
from reconstruct.progress import follow
from reconstruct.volumes import window_volumes
from tests.reconstruct.made import HEADERS, MTU, S, Stream, progress_of, segments, telemetry

RATE = 100
FRAME = MTU + HEADERS


def samples_of(total: int, count: int, seed: int = 1) -> np.ndarray:
    """Positions of `count` packets drawn from `total`, in order."""
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False))


def stream(position: np.ndarray, **fields: object) -> Stream:
    return Stream(0, 1, np.arange(len(position)) * S // 10, position, dict(fields))


def test_progress_tells_the_volume_better_than_the_count() -> None:
    total = 1_000_000
    by_progress, by_count = [], []
    for seed in range(40):
        # A tenth more samples than the rate says: the counters of real agents are no better.
        position = samples_of(total, 1100, seed)
        found = window_volumes(progress_of(stream(position), rate=total // 1000))
        by_progress.append(found.bytes[0] / MTU / total - 1)
        by_count.append(found.bytes_by_count[0] / FRAME / total - 1)
    assert np.abs(by_progress).max() < 0.01
    assert abs(np.mean(by_progress)) < 0.0005
    assert np.mean(by_count) == pytest.approx(0.1)


def test_few_samples_span_too_little_and_are_made_up_for() -> None:
    total = 1_000_000
    found = [
        window_volumes(progress_of(stream(samples_of(total, 5, seed)), rate=total // 5)).bytes[0]
        for seed in range(300)
    ]
    # n samples span (n - 1) / (n + 1) on average: 4 / 6 without the correction.
    assert np.mean(found) / MTU / total == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_samples_are_counted(count: int) -> None:
    found = window_volumes(progress_of(stream(np.arange(count) * 7), rate=RATE))
    assert found.bytes[0] == pytest.approx(count * RATE * MTU)


def test_three_samples_are_enough_for_progress() -> None:
    found = window_volumes(progress_of(stream(np.array([0, 100, 200])), rate=RATE))
    # Three samples span half of what they are drawn from.
    assert found.bytes[0] == pytest.approx(400 * MTU)


@pytest.mark.parametrize(
    ("times", "stands"), [(0.5, True), (1.5, True), (0.25, False), (1.75, False)]
)
def test_progress_stands_within_six_sigma_of_the_count(times: float, stands: bool) -> None:
    # 100 samples: six sigma are 0.6 of the count.
    position = np.linspace(0, times * 100 * RATE * 99 / 101, 100).round().astype(np.int64)
    found = window_volumes(progress_of(stream(position), rate=RATE))
    packets = (times if stands else 1) * 100 * RATE
    assert found.bytes[0] == pytest.approx(packets * MTU, rel=0.001)


@pytest.mark.parametrize(
    "position",
    [
        np.zeros(100, np.int64),
        np.where(np.arange(100) < 50, 0, 1 << 23) + np.arange(100) * RATE,
        np.arange(100) * RATE * 50,
    ],
    ids=["one packet repeated", "queue pair changed", "wraps read as progress"],
)
def test_the_count_stands_in_where_progress_contradicts_it(position: np.ndarray) -> None:
    found = window_volumes(progress_of(stream(position), rate=RATE))
    assert found.bytes[0] == pytest.approx(100 * RATE * MTU)
    assert found.bytes_by_count[0] == pytest.approx(100 * RATE * FRAME)


def test_headers_are_added_at_the_observed_size() -> None:
    found = window_volumes(progress_of(stream(np.arange(100) * RATE), rate=RATE))
    assert found.wire_bytes[0] / found.bytes[0] == pytest.approx(FRAME / MTU)


def test_messages_that_do_not_fill_the_mtu_count_as_long_as_they_are() -> None:
    fields = {"mean_payload": 3000, "mean_frame": 3000 + HEADERS}
    scaled = {"scaled_bytes": RATE * (3000 + HEADERS)}
    found = window_volumes(progress_of(stream(np.arange(101) * RATE, **fields, **scaled)))
    assert found.bytes[0] == pytest.approx(100 * RATE * 3000 * 102 / 100)


def test_tcp_counts_in_bytes() -> None:
    fields = {"transport": Transport.TCP, "unit_bytes": 1, "mean_payload": 1448, "mean_frame": 1518}
    position = np.arange(100) * RATE * 1448
    found = window_volumes(progress_of(stream(position, **fields, scaled_bytes=RATE * 1518)))
    assert found.bytes[0] == pytest.approx(99 * RATE * 1448 * 101 / 99)


def test_bare_acknowledgements_are_on_the_wire_and_no_payload() -> None:
    """Data one way and a little the other way, where most segments acknowledge only."""
    time = np.arange(100) * S // 10
    data = segments(time, 1, 2, seq=np.arange(100) * 1448 * RATE, src_port=9, dst_port=7)
    notices = segments(time[::10], 2, 1, seq=np.arange(10) * 48, src_port=7, dst_port=9)
    notices.payload_bytes[:], notices.frame_bytes[:] = 48, 118
    bare = {"src_port": 7, "dst_port": 9, "payload_bytes": 0, "frame_bytes": 70}
    acks = segments(time, 2, 1, **bare)
    elsewhere = segments(time, 2, 1, **bare, direction=2)  # seen again as they leave
    others = segments(time, 2, 3, payload_bytes=0, frame_bytes=70)  # beside no data
    without = window_volumes(follow(telemetry(data, notices)))
    for seen in ((acks,), (acks, elsewhere, others)):
        found = window_volumes(follow(telemetry(data, notices, *seen)))
        assert (found.bytes == without.bytes).all()
        assert (found.bytes_by_count == without.bytes_by_count).all()
        assert (found.wire_bytes - without.wire_bytes).tolist() == pytest.approx(
            [0, 70 * 100 * 100]
        )


def test_each_connection_has_a_row_of_its_own() -> None:
    sent_again = np.zeros(60, np.int64)
    sent_again[[7, 9]] = 1
    found = window_volumes(
        progress_of(
            stream(np.arange(50) * RATE),
            stream(np.arange(60) * RATE, retransmitted=sent_again),
            rate=RATE,
        )
    )
    assert found.samples.tolist() == [50, 60]
    assert found.retransmitted.tolist() == [0, 2]
    assert (found.bytes / MTU / RATE).tolist() == pytest.approx([51, 61])


def test_progress_stands_alone_where_the_sampling_rate_is_unknown() -> None:
    found = window_volumes(progress_of(stream(np.arange(100) * RATE), rate=0))
    assert found.bytes[0] == pytest.approx(99 * RATE * MTU * 101 / 99)


def test_lost_datagrams_do_not_make_volumes_smaller() -> None:
    total = 4_000_000
    position = samples_of(total, 40_000)
    held = np.random.default_rng(2).random(len(position)) > 0.05
    found = window_volumes(progress_of(stream(position[held]), rate=RATE))
    assert found.bytes[0] == pytest.approx(total * MTU, rel=0.001)
