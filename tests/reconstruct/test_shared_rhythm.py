"""Which hosts share a rhythm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reconstruct.counters import read_rates
from reconstruct.shared_rhythm import Rhythm, shared_rhythms
from tests.reconstruct.polled import F64, RATE, bursts, fleet


def rhythms(
    jobs: Sequence[F64],
    poll_s: float = 0.5,
    phases_s: Sequence[float] = (0.03, 0.29),
    sends: float = 1.0,
) -> list[Rhythm]:
    rates = read_rates(*fleet(jobs, poll_s=poll_s, phases_s=phases_s, sends=sends))
    assert rates is not None
    return shared_rhythms(rates)


def test_jobs_of_one_period_are_told_apart() -> None:
    first = bursts(6.0, [(0.1, 0.3)], 1)
    second = bursts(6.0, [(0.0, 0.1), (0.5, 0.2)], 2)
    third = bursts(15.0, [(0.2, 0.4)], 3)
    idle = np.zeros(len(first))
    found = rhythms([first, second, third, idle])
    assert [one.hosts for one in found] == [
        tuple(f"job{n}-{host}" for host in range(4)) for n in range(3)
    ]
    assert [len(one.ports) for one in found] == [8, 8, 8]
    assert [one.period_s for one in found] == pytest.approx([6.0, 6.0, 15.0], rel=0.005)
    assert all(low <= one.period_s <= high for one in found for low, high in [one.interval_s])
    assert not any(one.hidden for one in found)
    assert all(one.spread for one in found)


def test_a_nic_that_the_job_does_not_use_is_left_out() -> None:
    batch, agents, ports = fleet([bursts(6.0, [(0.1, 0.3)], 1)])
    batch.in_octets[batch.exporter == 1] = 0
    batch.out_octets[batch.exporter == 1] = 0
    rates = read_rates(batch, agents, ports)
    assert rates is not None
    (found,) = shared_rhythms(rates)
    assert {int(rates.nic[port]) for port in found.ports} == {0}


def test_a_job_whose_hosts_are_polled_at_other_moments_is_one() -> None:
    batch, agents, ports = fleet([bursts(2.8, [(0.1, 0.12)], 4)], phases_s=(0.03, 0.29))
    # Each host has but the ports of one switch.
    ports = {port: (f"{host}-{nic}", 0) for port, (host, nic) in ports.items()}
    rates = read_rates(batch, agents, ports)
    assert rates is not None
    (found,) = shared_rhythms(rates)
    assert len(found.hosts) == 8
    assert found.period_s == pytest.approx(2.8, rel=0.005)


@pytest.mark.parametrize("period_s", [0.35, 0.6, 0.7, 0.9, 1.1, 1.3])
@pytest.mark.parametrize("lasting", [[(0.0, 0.4)], [(0.0, 0.15)], [(0.0, 0.1), (0.5, 0.2)]])
@pytest.mark.parametrize("phases_s", [(0.03, 0.29), (0.03, 0.13, 0.27, 0.39)])
def test_a_period_under_three_refreshes_is_not_stated(
    period_s: float, lasting: list[tuple[float, float]], phases_s: tuple[float, ...]
) -> None:
    for one in rhythms([bursts(period_s, lasting, 6)], phases_s=phases_s):
        assert "counters change every" in one.hidden


def test_the_beat_of_a_slow_polling_is_not_stated() -> None:
    # Every 20 s, 15.4 s look like 67 s.
    found = rhythms([bursts(15.4, [(0.0, 0.4)], 6, window_s=900, jitter=0.002)], poll_s=20.0)
    assert all("20 s" in one.hidden for one in found)


def test_ports_read_at_one_moment_are_doubted() -> None:
    (found,) = rhythms([bursts(6.0, [(0.1, 0.3)], 1)], phases_s=(0.1, 0.1))
    assert not found.spread
    assert not found.hidden
    (found,) = rhythms([bursts(6.0, [(0.1, 0.3)], 1)], poll_s=1.0, phases_s=(0.1, 0.1))
    assert "read at one moment" in found.hidden


def test_a_transfer_is_no_job() -> None:
    rng = np.random.default_rng(9)
    once = np.zeros(30_000)
    once[7_000:19_000] = RATE
    assert rhythms([once, rng.exponential(RATE / 10, 30_000)]) == []


def test_clients_of_a_server_are_no_job() -> None:
    assert rhythms([bursts(6.0, [(0.1, 0.3)], 1)], sends=0.01) == []


def test_one_host_alone_is_no_job() -> None:
    rates = read_rates(*fleet([bursts(6.0, [(0.1, 0.3)], 1)], hosts=1))
    assert rates is not None
    assert shared_rhythms(rates) == []
