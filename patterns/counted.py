"""Jobs by interface counters alone: hosts that share a rhythm, and nothing about roles."""

from __future__ import annotations

from typing import Final

import numpy as np

from collector.inventory import Inventory
from collector.schema import Telemetry
from patterns.claim import claim
from patterns.result import Analysis, Claim, JobResult, Parallelism, Unassigned
from reconstruct.counters import Rates, read_rates
from reconstruct.shared_rhythm import Rhythm, shared_rhythms

TOGETHER: Final = 0.9  # confidence that hosts of one rhythm are one job: counters show no pairs
FIRM: Final = 0.8  # likeness of hosts from which on that holds
HIDDEN: Final = 0.7  # at most that, where the rhythm may be another
PERIOD: Final = 0.95
NEAR: Final = 6.0  # refreshes: a shorter period is with less certainty no beat,
BEAT: Final = 0.85  # and is worth this
ONE_MOMENT: Final = 0.7  # the same where no port is read at another moment of the refresh
TURNS: Final = 4.0  # turns by which most of that is reached
UNTOLD: Final = "counters tell how much a port passed, not to whom"


def analyse_counters(telemetry: Telemetry, inventory: Inventory) -> Analysis:
    """Jobs of a window without sampled packets or flow records.

    Parameters
    ----------
    telemetry : Telemetry
    inventory : Inventory
        Says which port leads to which host; without that there is no job.
    """
    counters = telemetry.counters
    empty = not len(counters)
    start = 0 if empty else int(counters.time_ns.min())
    end = 0 if empty else int(counters.time_ns.max())
    nics = {host.name: host.nics for host in inventory.hosts}
    ports = {
        (switch.agent, port.ifindex): (port.host, port.nic)
        for switch in inventory.switches
        for port in switch.ports
        if port.host is not None
        and port.nic is not None
        and port.nic < len(nics.get(port.host, ()))
    }
    rates = read_rates(counters, [exporter.agent for exporter in telemetry.exporters], ports)
    if rates is None:
        return Analysis(start, end, (), Unassigned(0.0, ()))
    jobs: list[JobResult] = []
    inside = np.zeros(len(rates), np.bool_)
    for rhythm in shared_rhythms(rates):
        inside[rhythm.ports] = True
        addresses = tuple(
            nics[rates.host[port]][int(rates.nic[port])] for port in rhythm.ports.tolist()
        )
        jobs.append(_job(rates, rhythm, addresses, f"job-{len(jobs)}"))
    passed = rates.received + rates.sent
    others = np.flatnonzero(~inside & (passed > 0)).tolist()
    volume = float(rates.received[others].sum())
    return Analysis(
        start,
        end,
        tuple(jobs),
        Unassigned(
            volume,
            tuple(sorted(nics[rates.host[port]][int(rates.nic[port])] for port in others)),
            {"unknown": volume} if volume > 0 else {},
        ),
    )


def _job(rates: Rates, rhythm: Rhythm, addresses: tuple[str, ...], name: str) -> JobResult:
    together = claim(
        min(TOGETHER - max(0.0, FIRM - rhythm.alike), HIDDEN if rhythm.hidden else 1.0),
        rhythm.turns,
        TURNS,
        f"{len(rhythm.hosts)} hosts whose ports pause and burst together, likeness "
        f"{rhythm.alike:.2f} or more",
    )
    return JobResult(
        id=name,
        hosts=rhythm.hosts,
        endpoints=addresses,
        confidence=together.confidence,
        evidence={"endpoints": together, "period": _period(rates, rhythm)},
        parallelism=Parallelism(
            dp=None,
            tp=None,
            pp=None,
            cp=None,
            ep=None,
            candidates=(),
            basis=dict.fromkeys(("dp", "tp", "pp", "cp", "ep"), UNTOLD),
            confidence=0.5,
        ),
        period_s=None if rhythm.hidden else rhythm.period_s,
        period_ci_s=None if rhythm.hidden else rhythm.interval_s,
    )


def _period(rates: Rates, rhythm: Rhythm) -> Claim:
    if rhythm.hidden:
        return claim(0.5, 0, 1.0, f"unknown, poll faster: {rhythm.hidden}")
    basis = (
        f"{rhythm.turns} turns, alike by {rhythm.similarity:.2f}; counters change every "
        f"{rates.refresh_ns / 1e9:.2g} s"
    )
    if not rhythm.spread:
        basis += " and are read at one moment"
    near = rhythm.period_s < NEAR * rates.refresh_ns / 1e9
    ceiling = (BEAT if near else PERIOD) if rhythm.spread else ONE_MOMENT
    said = claim(min(ceiling, rhythm.similarity), rhythm.turns, TURNS, basis)
    return Claim(said.confidence, said.basis, rhythm.turns * len(rhythm.ports))
