from __future__ import annotations

import numpy as np
import pytest

from collector.schema import FlowBatch
from reconstruct.acknowledgements import Curve
from reconstruct.progress import follow
from tests.reconstruct.made import ACKNOWLEDGE, MTU, WRITE_MIDDLE, packets, telemetry

MS = 1_000_000
TURN = 1 << 24


def data(first: int, per_ms: int, port: int = 50_000, qp: int = 7) -> FlowBatch:
    """A connection from 1 to 2 that sends `per_ms` packets in each of 400 ms."""
    time = np.arange(0, 400, 4)
    return packets(time * MS, 1, 2, dest_qp=qp, src_port=port, seq=(first + time * per_ms) % TURN)


def acknowledgements(
    first: int, per_ms: int, per_message: int, port: int = 50_000, msn: int = 0, **columns: int
) -> FlowBatch:
    """What 2 answers: the last packet of every twentieth millisecond, messages completed."""
    time = np.arange(10, 400, 20)
    packet = time * per_ms // per_message * per_message
    answer: dict[str, int] = {"opcode": ACKNOWLEDGE, "syndrome": 0x1F, "payload_bytes": 0}
    return packets(
        time * MS,
        2,
        1,
        dest_qp=3,
        src_port=port,
        seq=(first + packet - 1) % TURN,
        msn=(msn + packet // per_message) % TURN,
        **{**answer, **columns},
    )


def mean_message(*batches: FlowBatch) -> list[float]:
    return list(follow(telemetry(*batches)).connections.mean_message_bytes)


@pytest.mark.parametrize("per_message", [1, 16, 256])
@pytest.mark.parametrize("first", [0, TURN - 20_000], ids=["from zero", "over the wrap"])
def test_mean_message_is_packets_over_messages(per_message: int, first: int) -> None:
    said = mean_message(data(first, 256), acknowledgements(first, 256, per_message))
    assert said == [pytest.approx(MTU * per_message)]


def test_many_turns_between_acknowledgements_are_not_lost() -> None:
    # 100,000 packets a millisecond go round the counter every 168 ms.
    said = mean_message(data(0, 100_000), acknowledgements(0, 100_000, 256))
    assert said == [pytest.approx(MTU * 256)]


def test_messages_are_counted_over_their_own_wrap() -> None:
    said = mean_message(data(0, 256), acknowledgements(0, 256, 16, msn=TURN - 40))
    assert said == [pytest.approx(MTU * 16)]


def test_two_connections_are_told_by_their_port() -> None:
    said = mean_message(
        data(0, 256, port=50_000, qp=7),
        data(0, 256, port=50_001, qp=8),
        acknowledgements(0, 256, 256, port=50_000),
        acknowledgements(0, 256, 16, port=50_001),
    )
    assert said == [pytest.approx(MTU * 256), pytest.approx(MTU * 16)]


def test_connections_on_one_port_are_not_told() -> None:
    said = mean_message(data(0, 256, qp=7), data(0, 256, qp=8), acknowledgements(0, 256, 256))
    assert np.isnan(said).tolist() == [True, True]


@pytest.mark.parametrize(
    "answers",
    [
        acknowledgements(0, 256, 256).take(slice(0, 1)),
        acknowledgements(0, 256, 256, port=50_009),
        acknowledgements(0, 256, 256, syndrome=0x60),
        acknowledgements(0, 256, 256, opcode=WRITE_MIDDLE),
        packets([MS, 9 * MS], 2, 1, src_port=50_000, opcode=ACKNOWLEDGE, syndrome=0, msn=5, seq=9),
    ],
    ids=["only one", "another port", "refusals", "data", "no progress"],
)
def test_too_little_is_not_a_number(answers: FlowBatch) -> None:
    assert np.isnan(mean_message(data(0, 256), answers)[0])


CURVE = Curve(
    connection=np.array([0, 0, 0, 2, 2], np.int32),
    time_ns=np.array([100, 200, 400, 150, 250], np.int64),
    position=np.array([0, 10, 50, 1000, 900], np.int64),
)


@pytest.mark.parametrize(
    ("connection", "time_ns", "position"),
    [
        (0, 100, 0),
        (0, 150, 5),
        (0, 300, 30),
        (0, 400, 50),
        (0, 0, 0),
        (0, 99_999, 50),
        (2, 200, 950),
        (2, 149, 1000),
        (2, 251, 900),
    ],
)
def test_positions_between_samples_are_linear_and_held_beyond(
    connection: int, time_ns: int, position: int
) -> None:
    at = CURVE.at(np.array([connection], np.int32), np.array([time_ns], np.int64))
    assert at.tolist() == [position]


def test_a_curve_is_read_at_many_moments_at_once() -> None:
    at = CURVE.at(np.array([2, 0, 0], np.int32), np.array([200, 9999, 150], np.int64))
    assert at.tolist() == [950, 50, 5]
