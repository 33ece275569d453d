"""`analyse_window`: from one window's telemetry to all that is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.inventory import Inventory
from collector.schema import Telemetry
from patterns.counted import analyse_counters
from patterns.job import study_job
from patterns.result import Analysis, JobResult, Unassigned
from patterns.rhythm import only_told_steps
from patterns.untimed import study_untimed
from reconstruct.bins import Progress
from reconstruct.jobs import Candidate, discover
from reconstruct.progress import follow
from reconstruct.traffic import Traffic, classify
from reconstruct.untimed import find_untimed, hides_turns, is_recorded
from reconstruct.volumes import Volumes, window_volumes


def analyse_window(telemetry: Telemetry, inventory: Inventory) -> Analysis:
    """Jobs, groups, iterations and findings of one window.

    Parameters
    ----------
    telemetry : Telemetry
        As `collector.ingest` read it. Interface counters alone are read where there is nothing
        else.
    inventory : Inventory
        May be empty; then each endpoint counts as a host of its own.
    """
    if not len(telemetry.flows) and not len(telemetry.records):
        return analyse_counters(telemetry, inventory)
    return analyse_progress(follow(telemetry, inventory.message_lengths), inventory)


def analyse_progress(progress: Progress, inventory: Inventory) -> Analysis:
    """Jobs, groups, iterations and findings of one window's progress.

    Parameters
    ----------
    progress : Progress
        Of sampled packets, of flow records (`reconstruct.records`), or of both.
    inventory : Inventory
        As for `analyse_window`.
    """
    progress = replace(progress, message_lengths=inventory.message_lengths)
    host_of = known_hosts(progress, inventory)
    traffic = classify(progress, inventory.storage)
    volumes = window_volumes(progress)
    jobs: list[JobResult] = []
    timed: list[Candidate] = []
    untold: list[Candidate] = []
    for candidate in discover(progress, traffic, host_of):
        study = None
        if not hides_turns(progress, candidate):
            study = study_job(progress, volumes, candidate, host_of, f"job-{len(jobs)}")
        if study is not None:
            jobs.append(only_told_steps(study.result, candidate.period, candidate.known_ns))
        # Records that hide in which order things happen may yet show who talks with whom.
        hidden = study is None and is_recorded(progress, candidate)
        (untold if hidden else timed).append(candidate)
    for untimed in find_untimed(progress, traffic, volumes, host_of, timed, untold):
        result = study_untimed(progress, volumes, untimed, host_of, f"job-{len(jobs)}")
        if result is not None:
            jobs.append(result)
    return Analysis(
        window_start_ns=progress.window_start_ns,
        window_end_ns=progress.window_end_ns,
        jobs=tuple(jobs),
        unassigned=unassigned(progress, volumes, traffic, jobs),
    )


def known_hosts(progress: Progress, inventory: Inventory) -> dict[int, str]:
    """Host name of each endpoint id that the inventory knows, in the inventory's order of NICs."""
    number = {name: i for i, name in enumerate(progress.endpoints.names)}
    nics = ((nic, host.name) for host in inventory.hosts for nic in host.nics)
    return {number[nic]: name for nic, name in nics if nic in number}


def unassigned(
    progress: Progress, volumes: Volumes, traffic: NDArray[np.uint8], jobs: Sequence[JobResult]
) -> Unassigned:
    """Bytes of the connections that no job holds, by class."""
    job_of = {name: i for i, job in enumerate(jobs) for name in job.endpoints}
    names = progress.endpoints.names
    member = np.array([job_of.get(name, -1) for name in names], np.int64)
    connections = progress.connections
    plain = (traffic == Traffic.CANDIDATE) | (traffic == Traffic.CONTROL)
    source, target = member[connections.src], member[connections.dst]
    held = plain & (source >= 0) & (source == target)
    volume = volumes.bytes
    label = np.where(
        traffic == Traffic.STORAGE,
        "storage",
        np.where(traffic == Traffic.MANAGEMENT, "management", "unknown"),
    )
    by_class = {
        name: float(volume[(label == name) & ~held].sum())
        for name in ("storage", "management", "unknown")
    }
    outside = sorted(
        {names[e] for e in np.unique(connections.src[~held])}
        | {names[e] for e in np.unique(connections.dst[~held])}
    )
    return Unassigned(
        bytes=float(volume[~held].sum()),
        endpoints=tuple(n for n in outside if n not in job_of),
        by_class={name: value for name, value in by_class.items() if value > 0},
    )
