"""Counters of several ports as one curve."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.counters import read_rates
from reconstruct.pooled import pool, read_apart_ns
from tests.reconstruct.polled import F64, FINE_S, bursts, fleet


def errors(phases_s: tuple[float, ...]) -> tuple[F64, F64]:
    """By how much each port alone, and all pooled, miss the bytes of a job by bin; as shares."""
    job = bursts(6.0, [(0.1, 0.12), (0.5, 0.08)], 3)
    rates = read_rates(*fleet([job], hosts=1, phases_s=phases_s))
    assert rates is not None
    gone = np.append(0.0, np.cumsum(job))
    edges_s = (rates.edges_ns - rates.edges_ns[0]) / 1e9 + min(phases_s)
    true = np.diff(np.interp(edges_s, np.arange(len(gone)) * FINE_S, gone))
    ports = np.arange(len(rates))
    out = [
        np.abs(told / told.sum() - true / true.sum())
        for told in (rates.passed[0], pool(rates, ports))
    ]
    return out[0], out[1]


def test_ports_polled_at_other_moments_show_more() -> None:
    alone, pooled = errors((0.02, 0.13, 0.27, 0.39))
    assert pooled.sum() < 0.5 * alone.sum()


def test_ports_polled_at_one_moment_show_no_more() -> None:
    alone, pooled = errors((0.1, 0.1, 0.1))
    assert pooled.sum() == pytest.approx(alone.sum(), rel=0.3)


def test_traffic_of_one_port_alone_does_not_bend_the_curve() -> None:
    job = bursts(6.0, [(0.1, 0.3)], 3)
    batch, agents, ports = fleet([job], hosts=2, phases_s=(0.03, 0.21))
    rates = read_rates(batch, agents, ports)
    assert rates is not None
    was = pool(rates, np.arange(4))
    rows = (batch.exporter == 0) & (batch.ifindex == 1)
    batch.in_octets[rows] += np.linspace(0, 0.2 * job.sum(), rows.sum()).astype(np.uint64)
    disturbed = read_rates(batch, agents, ports)
    assert disturbed is not None
    told = pool(disturbed, np.arange(4))
    n = min(len(was), len(told))
    assert np.corrcoef(was[:n], told[:n])[0, 1] > 0.95


def test_nothing_is_less_than_nothing() -> None:
    rates = read_rates(*fleet([bursts(3.0, [(0.1, 0.3)], 3, window_s=60)]))
    assert rates is not None
    assert (pool(rates, np.arange(len(rates))) >= 0).all()


@pytest.mark.parametrize(("phases_s", "apart_s"), [((0.1, 0.1), 0.49), ((0.0, 0.25), 0.25)])
def test_time_between_polls_of_any_port(phases_s: tuple[float, ...], apart_s: float) -> None:
    rates = read_rates(*fleet([bursts(3.0, [(0.1, 0.3)], 3)], hosts=1, phases_s=phases_s))
    assert rates is not None
    assert read_apart_ns(rates, np.arange(2)) / 1e9 == pytest.approx(apart_s, abs=0.02)
