"""Jobs by interface counters alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collector.inventory import Host, Inventory, Port, Switch
from collector.schema import CounterBatch, ExporterHealth, FlowBatch, Telemetry, TimeBasis
from patterns.analyse import analyse_window
from patterns.result import Unassigned
from tests.reconstruct.polled import F64, RATE, START_NS, bursts, fleet

STEP = bursts(6.0, [(0.1, 0.3)], 1)


def told(jobs: list[F64]) -> tuple[Telemetry, Inventory]:
    """Counters of jobs on four hosts each, with the inventory that names them."""
    counters, agents, ports = fleet(jobs)
    exporters = tuple(
        ExporterHealth(
            agent=agent,
            sub_agent=0,
            protocol="sflow5",
            datagrams=1,
            flow_samples=0,
            counter_samples=1,
            lost_datagrams=0,
            decode_errors=0,
            sampling_rates=(),
            time_basis=TimeBasis.ARRIVAL,
            state="counters_only",
        )
        for agent in agents
    )
    hosts = sorted({host for host, _ in ports.values()})
    switches = tuple(
        Switch(
            name=agent,
            agent=agent,
            role="leaf",
            ports=tuple(
                Port(ifindex=ifindex, name=f"Ethernet{ifindex}", speed_gbps=400, host=host, nic=nic)
                for (of, ifindex), (host, nic) in ports.items()
                if of == agent
            ),
        )
        for agent in agents
    )
    telemetry = Telemetry(
        flows=FlowBatch.empty(),
        counters=counters,
        exporters=exporters,
        errors=(),
        datagrams=2,
        flow_samples=0,
        counter_samples=len(counters),
        lost_datagrams=0,
        decode_errors=0,
    )
    known = tuple(Host(name, (f"{name}.0", f"{name}.1")) for name in hosts)
    return telemetry, Inventory(known, switches)


def test_hosts_of_one_rhythm_are_a_job() -> None:
    telemetry, inventory = told([STEP, bursts(9.0, [(0.2, 0.2)], 2)])
    analysis = analyse_window(telemetry, inventory)
    first, second = analysis.jobs
    assert (first.id, second.id) == ("job-0", "job-1")
    assert first.hosts == tuple(f"job0-{n}" for n in range(4))
    assert first.endpoints == tuple(f"job0-{n}.{nic}" for nic in range(2) for n in range(4))
    assert [first.period_s, second.period_s] == pytest.approx([6.0, 9.0], rel=0.005)
    assert first.period_ci_s is not None
    assert first.period_ci_s[0] <= 6.0 <= first.period_ci_s[1]
    # Nothing about roles, and no certainty.
    assert (first.groups, first.iterations, first.parallelism.dp) == ((), (), None)
    assert "not to whom" in first.parallelism.basis["dp"]
    assert 0.8 < first.confidence <= 0.9
    assert 0.8 < first.evidence["period"].confidence <= 0.95
    assert analysis.unassigned == Unassigned(0.0, ())
    assert analysis.window_start_ns == telemetry.counters.time_ns.min()
    assert analysis.window_end_ns == telemetry.counters.time_ns.max()


def test_a_period_that_counters_hide_is_unknown_with_its_aliases() -> None:
    analysis = analyse_window(*told([bursts(1.3, [(0.0, 0.4)], 6)]))
    (job,) = analysis.jobs
    assert (job.period_s, job.period_ci_s) == (None, None)
    period = job.evidence["period"]
    assert period.basis.startswith("unknown, poll faster: counters change every 0.5")
    assert "or 0.8" in period.basis
    assert period.confidence == 0.5
    assert job.confidence <= 0.7


def test_what_is_no_job_is_told_by_its_bytes() -> None:
    rng = np.random.default_rng(9)
    analysis = analyse_window(*told([rng.exponential(RATE / 10, 30_000)]))
    assert analysis.jobs == ()
    assert len(analysis.unassigned.endpoints) == 8
    assert analysis.unassigned.bytes == pytest.approx(8 * 30_000 * RATE / 10, rel=0.05)
    assert analysis.unassigned.by_class == {"unknown": analysis.unassigned.bytes}


def test_without_an_inventory_there_is_no_job() -> None:
    telemetry, _ = told([STEP])
    assert analyse_window(telemetry, Inventory()).jobs == ()


def test_a_window_of_nothing() -> None:
    telemetry, inventory = told([STEP])
    nothing = replace(telemetry, counters=CounterBatch.empty())
    analysis = analyse_window(nothing, inventory)
    assert (analysis.window_start_ns, analysis.window_end_ns, analysis.jobs) == (0, 0, ())


def test_a_port_of_a_nic_that_the_host_has_not_is_left_out() -> None:
    telemetry, inventory = told([STEP])
    fewer = tuple(Host(host.name, host.nics[:1]) for host in inventory.hosts)
    (job,) = analyse_window(telemetry, replace(inventory, hosts=fewer)).jobs
    assert job.endpoints == tuple(f"job0-{n}.0" for n in range(4))


def test_times_are_those_of_the_counters() -> None:
    telemetry, inventory = told([STEP])
    assert analyse_window(telemetry, inventory).window_start_ns >= START_NS
