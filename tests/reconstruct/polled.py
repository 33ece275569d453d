"""Interface counters of made jobs: ports that burst together, polled at moments of their switch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collector.schema import CounterBatch

START_NS = 1_767_225_600 * 10**9
FINE_S = 0.01
SPEED_BPS = 400 * 10**9
RATE = 0.5 * SPEED_BPS / 8 * FINE_S  # bytes of a bin while a job sends

F64 = NDArray[np.float64]


def polls(
    time_s: F64,
    octets: F64,
    ifindex: int = 1,
    exporter: int = 0,
    sent: F64 | None = None,
) -> CounterBatch:
    """Rows of one port that received `octets` until each moment, and sent as much or `sent`."""
    rows = CounterBatch.empty(len(time_s))
    rows.time_ns[:] = START_NS + np.rint(time_s * 1e9).astype(np.int64)
    rows.exporter.fill(exporter)
    rows.ifindex.fill(ifindex)
    rows.speed_bps.fill(SPEED_BPS)
    rows.in_octets[:] = octets.astype(np.uint64)
    rows.out_octets[:] = (octets if sent is None else sent).astype(np.uint64)
    return rows


def bursts(
    period_s: float,
    lasting: Sequence[tuple[float, float]],
    seed: int,
    window_s: float = 300.0,
    jitter: float = 0.01,
) -> F64:
    """Bytes by `FINE_S` of a job with bursts at these shares of its period, each so long a share.

    Steps differ by `jitter` of the period; they wait where they end.
    """
    rng = np.random.default_rng(seed)
    fine = np.zeros(int(window_s / FINE_S))
    at = rng.uniform(-period_s, 0)
    while at < window_s:
        for begin, length in lasting:
            low, high = (int((at + x * period_s) / FINE_S) for x in (begin, begin + length))
            fine[max(low, 0) : max(high, 0)] += RATE
        at += period_s * (1 + jitter * rng.standard_normal())
    return fine


def fleet(
    jobs: Sequence[F64],
    hosts: int = 4,
    poll_s: float = 0.5,
    phases_s: Sequence[float] = (0.03, 0.29),
    sends: float = 1.0,
) -> tuple[CounterBatch, list[str], dict[tuple[str, int], tuple[str, int]]]:
    """Counters, agents and ports of jobs on hosts of their own.

    NIC i of every host hangs on switch i, which is polled at its phase. Ports send `sends` times
    what they receive, and all of them pass a little of something else.
    """
    rng = np.random.default_rng(1)
    rows, ports = [], {}
    for number, job in enumerate(jobs):
        for host in range(hosts):
            for nic, phase_s in enumerate(phases_s):
                ifindex = 1 + number * hosts + host
                ports[f"sw{nic}", ifindex] = (f"job{number}-{host}", nic)
                bytes_ = job + rng.exponential(RATE / 1000, len(job))
                gone = np.append(0.0, np.cumsum(bytes_))
                window_s = len(job) * FINE_S
                time_s = np.arange(phase_s, window_s, poll_s)
                time_s = np.clip(time_s + rng.normal(0, 0.01, len(time_s)), 0, window_s)
                octets = 10**12 + np.interp(time_s, np.arange(len(gone)) * FINE_S, gone)
                rows.append(polls(time_s, octets, ifindex, nic, 10**12 + sends * (octets - 10**12)))
    return CounterBatch.concat(rows), [f"sw{nic}" for nic in range(len(phases_s))], ports
