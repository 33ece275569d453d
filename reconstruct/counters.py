"""Rates of host ports, from interface counters alone.

Counters say how many bytes a port has passed since it came up, every now and then. What lies
between two of them is spread evenly. How often a switch refreshes what it answers with is read off
the counters themselves: polling more often shows nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64, CounterBatch

F64 = NDArray[np.float64]

UNKNOWN: Final = 0xFFFF_FFFF_FFFF_FFFF  # a counter that the driver does not keep
SLOWER: Final = 1.5  # polls: counters that change less often are read again before they change
FASTEST: Final = 2.0  # of the port's speed: more cannot have passed, even if read a little late
STEPS: Final = 5  # of a refresh: ports are polled at different moments, together they show more
MOST_BINS: Final = 20_000
FEWEST_POLLS: Final = 8  # of a port


class Polls(NamedTuple):
    """Bytes that one port passed both ways since its first poll, at each poll that told news."""

    time_ns: I64
    passed: F64


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes of each host port by bins of time.

    Parameters
    ----------
    host : tuple of str
        Of each port.
    nic : int64[p]
    received, sent : float64[p]
        Bytes that the port received from its host, and sent to it.
    passed : float64[p, bins]
        Both together, by time.
    polls : tuple of Polls
        What `passed` was read from.
    start_ns, width_ns : int
        Where the bins begin, and their width.
    refresh_ns : int
        How often counters are seen to change while traffic passes.
    late_ns : int
        By how much a change may be read after it was made, now later and now sooner.
    """

    host: tuple[str, ...]
    nic: I64
    received: F64
    sent: F64
    passed: F64
    polls: tuple[Polls, ...]
    start_ns: int
    width_ns: int
    refresh_ns: int
    late_ns: int

    def __len__(self) -> int:
        return len(self.host)

    @property
    def edges_ns(self) -> I64:
        """Where bins begin, and where the last one ends."""
        return self.start_ns + self.width_ns * np.arange(self.passed.shape[1] + 1)


def read_rates(
    counters: CounterBatch,
    agents: Sequence[str],
    ports: Mapping[tuple[str, int], tuple[str, int]],
) -> Rates | None:
    """Rates of the ports that lead to hosts.

    Parameters
    ----------
    counters : CounterBatch
        Rows in any order.
    agents : sequence of str
        Address of each exporter that `counters.exporter` points to.
    ports : mapping
        Host and NIC by address of the agent and ifIndex.

    Returns
    -------
    Rates or None
        None where no such port was polled often enough.
    """
    order = np.lexsort((counters.time_ns, counters.ifindex, counters.exporter))
    order = order[(counters.in_octets[order] != UNKNOWN) & (counters.out_octets[order] != UNKNOWN)]
    heads = _heads(counters, order)
    polled = np.diff(heads, append=len(order))
    told = [
        ports.get((agents[exporter], ifindex))
        for exporter, ifindex in zip(
            counters.exporter[order[heads]].tolist(),
            counters.ifindex[order[heads]].tolist(),
            strict=True,
        )
    ]
    chosen = (polled >= FEWEST_POLLS) & np.array([one is not None for one in told], np.bool_)
    known = [one for one, use in zip(told, chosen.tolist(), strict=True) if one is not None and use]
    if not known:
        return None
    order = order[np.repeat(chosen, polled)]
    polled = polled[chosen]
    heads = np.cumsum(polled) - polled
    time_ns = counters.time_ns[order]
    steps = [_steps(octets[order], heads) for octets in (counters.in_octets, counters.out_octets)]
    news = steps[0] + steps[1] > 0
    news[heads] = True
    apart_ns = _apart(time_ns, news, heads)
    speed = counters.speed_bps[order].astype(np.float64) / 8e9
    most = np.where(speed > 0, FASTEST * speed * apart_ns, np.inf)
    received, sent = (_gone_by(np.where(one <= most, one, 0), heads) for one in steps)
    last = heads + polled - 1
    passed = received + sent
    poll_ns = int(np.median(np.delete(np.diff(time_ns, prepend=0), heads)))
    refresh_ns = _refresh(apart_ns, np.diff(passed, prepend=0), news) or poll_ns
    if refresh_ns >= SLOWER * poll_ns:
        kept = news | (apart_ns >= refresh_ns + poll_ns // 2)
        late_ns = poll_ns
    else:
        kept = np.ones(len(news), np.bool_)
        late_ns = 0
    polls = tuple(
        Polls(time_ns[rows], passed[rows].astype(np.float64))
        for rows in np.split(np.flatnonzero(kept), np.cumsum(np.add.reduceat(kept, heads))[:-1])
    )
    start, end = int(time_ns.min()), int(time_ns.max())
    width = max(refresh_ns // STEPS, (end - start) // MOST_BINS, 1)
    edges = start + width * np.arange((end - start) // width + 1)
    return Rates(
        host=tuple(host for host, _ in known),
        nic=np.array([nic for _, nic in known]),
        received=received[last].astype(np.float64),
        sent=sent[last].astype(np.float64),
        passed=np.array([np.diff(np.interp(edges, one.time_ns, one.passed)) for one in polls]),
        polls=polls,
        start_ns=start,
        width_ns=width,
        refresh_ns=refresh_ns,
        late_ns=late_ns,
    )


def _heads(counters: CounterBatch, order: NDArray[np.intp]) -> I64:
    """Where among the rows in order, which are sorted by port, the rows of each port begin."""
    exporter, ifindex = counters.exporter[order], counters.ifindex[order]
    other = (np.diff(exporter) != 0) | (np.diff(ifindex) != 0)
    return np.flatnonzero(np.append(np.ones(min(len(order), 1), np.bool_), other))


def _steps(octets: NDArray[np.uint64], heads: I64) -> I64:
    """Bytes since the poll before; none where a counter starts anew."""
    steps = np.diff(octets, prepend=octets[:1]).astype(np.int64)  # right also where 64 bits wrap
    steps[heads] = 0
    return np.maximum(steps, 0)


def _gone_by(steps: I64, heads: I64) -> I64:
    """Bytes since the first poll of each port."""
    gone = np.cumsum(steps)
    return gone - np.repeat(gone[heads], np.diff(heads, append=len(gone)))


def _apart(time_ns: I64, news: NDArray[np.bool_], heads: I64) -> I64:
    """Time since the newest change before each poll; 0 at the first poll of a port."""
    rows = np.arange(len(news))
    newest = np.maximum.accumulate(np.where(news, rows, 0))
    before = np.append(0, newest[:-1])
    before[heads] = heads
    return np.asarray(time_ns - time_ns[before])


def _refresh(apart_ns: I64, moved: I64, news: NDArray[np.bool_]) -> int:
    """How long counters stay as they are while traffic passes: the median over the bytes, ns.

    0 where they never change.
    """
    changed = np.flatnonzero(news & (apart_ns > 0) & (moved > 0))
    if not len(changed):
        return 0
    order = changed[np.argsort(apart_ns[changed], kind="stable")]
    gone = np.cumsum(moved[order])
    return int(apart_ns[order[np.searchsorted(gone, gone[-1] / 2)]])
