from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.hops import Hops, _most_allowed
from collector.schema import I64, FlowBatch, TimeBasis, Transport
from tests.collector import encode as e

US, MS, S = 1_000, 1_000_000, 1_000_000_000
NEAR = np.zeros((2, 8))


def connection(
    number: int, rng: np.random.Generator, packets: int, tcp: bool
) -> tuple[I64, I64, FlowBatch]:
    """Times and numbers of the packets of one connection, and a row of it."""
    row = FlowBatch.empty(1)
    row.src_lo[:], row.dst_lo[:] = 7, number
    row.transport[:] = Transport.TCP if tcp else Transport.ROCEV2
    row.opcode[:] = 0x07
    row.payload_bytes[:] = 1448
    start = int(rng.integers(0, 2**32))
    step = 1448 if tcp else 1
    times = e.EPOCH_NS + np.sort(rng.integers(0, 20 * S, packets))
    return times, (start + step * np.arange(packets)) % (2**32 if tcp else 2**24), row


def sampled(
    paths: list[list[tuple[int, float]]],
    *,
    tcp: bool = False,
    packets: int = 20_000,
    one_in: int = 20,
    resent: float = 0.0,
    seed: int = 1,
) -> FlowBatch:
    """Samples of connections, each along a path of (exporter, clock's offset in ns)."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, path in enumerate(paths):
        times, numbers, row = connection(number, rng, packets, tcp)
        late = rng.random(packets) < resent
        for hop, (exporter, offset_ns) in enumerate(path):
            kept = np.flatnonzero(rng.random(packets) < 1 / one_in)
            batch = row.take(np.zeros(len(kept), np.int64))
            again = np.where(late[kept], rng.integers(0, 400 * MS, len(kept)), 0)
            batch.time_ns[:] = times[kept] + hop * US + offset_ns + again
            batch.seq[:] = numbers[kept]
            batch.exporter[:] = exporter
            parts.append(batch)
    flows = FlowBatch.concat(parts)
    return flows.take(np.argsort(flows.time_ns + rng.integers(0, S, len(flows)), kind="stable"))


def offsets(flows: FlowBatch, exporters: int, batches: int = 1) -> list[float]:
    hops = Hops()
    for part in np.array_split(np.arange(len(flows)), batches):
        hops.add(flows.take(part))
    hops.look()
    return [float(offset) for offset in hops.scale(exporters, NEAR).offset_ns]


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("batches", [1, 200])
def test_three_exporters_make_one_scale(tcp: bool, batches: int) -> None:
    a, b, c = (0, -3.0 * MS), (1, 0.0), (2, 80.0 * MS)
    flows = sampled([[a, b], [b, a], [b, c], [c, b]] * 3, tcp=tcp)
    found = offsets(flows, 4, batches)
    assert np.abs(np.array(found[:3]) - [-3.0 * MS, 0.0, 80.0 * MS]).max() < 30 * US
    assert np.isnan(found[3])


def test_the_error_holds_and_shrinks() -> None:
    rng = np.random.default_rng(5)
    true = rng.normal(0, 200 * US, 5)
    paths = [[(i, true[i]), (j, true[j])] for i in range(5) for j in range(5) if i != j]
    for one_in in (40, 10):
        hops = Hops()
        hops.add(sampled(paths, one_in=one_in))
        hops.look()
        scale = hops.scale(5, NEAR)
        wrong = scale.offset_ns - (true - np.median(true))
        assert (np.abs(wrong) < 6 * scale.error_ns).all()
    assert scale.error_ns.max() < 20 * US


def test_packets_sent_again_are_outvoted() -> None:
    flows = sampled([[(0, 0.0), (1, 5.0 * MS)], [(1, 5.0 * MS), (2, 0.0)]] * 4, resent=0.02)
    found = offsets(flows, 3)
    assert abs(found[1] - 5 * MS) < 100 * US


def test_of_two_the_one_nearer_to_us_is_right() -> None:
    flows = sampled([[(0, 0.0), (1, 5.0 * MS)], [(1, 5.0 * MS), (0, 0.0)]])
    hops = Hops()
    hops.add(flows)
    hops.look()
    scale = hops.scale(2, np.array([[0.2 * MS, 5.2 * MS]] * 2))
    assert scale.offset_ns[0] == 0.0
    assert abs(scale.offset_ns[1] - 5 * MS) < 100 * US


def test_only_what_is_sure_and_matters_is_corrected_and_that_does_not_feed_itself() -> None:
    a, b, c = (0, 0.2 * MS), (1, 0.0), (2, 80.0 * MS)
    flows = sampled([[a, b], [b, a], [b, c], [c, b]] * 3)
    hops = Hops()
    for part in np.array_split(np.arange(len(flows)), 50):
        rows = flows.take(part)
        off = hops.correction(3)[rows.exporter]
        rows.time_ns[:] -= off
        rows.time_basis[off != 0] = TimeBasis.INTERPOLATED
        hops.add(rows)
        scale = hops.scale(3, NEAR)
    assert hops.correction(3)[:2].tolist() == [0, 0]
    assert abs(hops.correction(3)[2] - 80 * MS) < MS
    assert abs(scale.offset_ns[2] - 79.8 * MS) < 100 * US  # the median exporter is 0.2 ms ahead


def test_what_says_nothing_is_left_out() -> None:
    flows = sampled([[(0, 0.0), (1, 0.0)]])
    flows.opcode[:] = 0x11  # acknowledgements repeat their numbers
    assert np.isnan(offsets(flows, 2)).all()
    flows = sampled([[(0, 0.0), (1, 0.0)]])
    flows.time_basis[:] = TimeBasis.ARRIVAL
    assert np.isnan(offsets(flows, 2)).all()


def test_answers_to_reads_have_numbers_of_their_own() -> None:
    both = FlowBatch.concat([sampled([[(0, 0.0)]] * 2), sampled([[(1, 5.0 * MS)]] * 2)])
    both = both.take(np.argsort(both.time_ns, kind="stable"))
    assert np.isfinite(offsets(both, 2)).all()
    both.opcode[both.exporter == 1] = 0x0E  # these count with the other side's requests
    assert np.isnan(offsets(both, 2)).all()


def test_hostile_rows_are_bounded() -> None:
    rng = np.random.default_rng(3)
    flows = FlowBatch.empty(300_000)
    flows.transport[:] = Transport.ROCEV2
    flows.time_ns[:] = rng.integers(0, 2**62, len(flows))
    flows.seq[:] = rng.integers(0, 2**32, len(flows))
    flows.exporter[:] = rng.integers(0, 16_000, len(flows))
    hops = Hops()
    hops.add(flows)
    hops.add(flows)
    flows.time_ns[:] = e.EPOCH_NS
    hops.add(flows)
    assert len(hops.scale(16_000, np.zeros(16_000)).offset_ns) == 16_000
    assert hops._kept.nbytes <= 4096 * 2 * 256 * 8


@given(
    lower=st.lists(st.integers(-50, 50), min_size=1, max_size=12),
    upper=st.lists(st.integers(-50, 50), min_size=1, max_size=12),
)
def test_most_bounds_allow_the_interval(lower: list[int], upper: list[int]) -> None:
    low, high = _most_allowed(np.array(lower, np.float64), np.array(upper, np.float64))

    def allowing(offset: float) -> int:
        return sum(bound <= offset for bound in lower) + sum(bound >= offset for bound in upper)

    best = max(allowing(offset) for offset in range(-50, 51))
    assert low <= high
    assert allowing(low) == allowing(high) == best
