"""Which hosts share a rhythm, and its period, from the rates of their ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.distance import squareform

from collector.schema import I64
from reconstruct.counted_turns import Turns, find_turns
from reconstruct.counters import F64, STEPS, Rates
from reconstruct.pooled import pool, read_apart_ns

SAME: Final = 0.75  # mean correlation of hosts of one job; those of others mostly stay below 0.4,
POOLED: Final = 0.76  # and of the parts of a job that are polled at moments of their own
SMOOTHING: Final = 2.0  # bins: parts of a job are no more exactly in step, nor known any better
QUIET: Final = 1e-3  # of the busiest port's bytes: a port below this is idle
TWO_WAY: Final = 1 / 3  # in a job every host sends and takes; less of one than this is a client
IN_USE: Final = 0.1  # of the median port's bytes, and
IN_STEP: Final = 0.25  # so much like all others: a NIC that the job uses
GUARD: Final = 3.0  # refreshes: a shorter period may be the beat of a still shorter one
CLEAR: Final = 0.8  # likeness of turns from which on a period is stated
# A beat is no longer where other moments of the refresh are read, and hardly pauses. So much must
# ports correlate with all of them, and bytes by refresh deviate beside their mean; more where a
# turn spans this many refreshes, as then nothing but a beat hides its pauses.
SPANNED: Final = 6.0
AGREE: Final = (0.75, 0.85)
PAUSES: Final = (0.2, 0.4)
# Where all ports are read at nearly one moment, none of that tells. Beats are of periods about as
# short as the refresh, and steps are rarely shorter than a second.
ONE_MOMENT: Final = 0.5  # of a refresh
RARE_S: Final = 0.7


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Hosts whose ports pause and burst together.

    Parameters
    ----------
    ports : int64[k]
        Rows of the `Rates` that take part: the NICs in use.
    hosts : tuple of str
    alike : float
        Lowest correlation of a host with the others, median over them.
    period_s : float
        Median time from turn to turn.
    interval_s : (float, float)
        Of that median, 95 %.
    turns : int
    similarity : float
        Of successive turns, 0 to 1.
    spread : bool
        Whether ports are read at different moments of the refresh: they would show a beat.
    hidden : str
        Why this period may not be the true one; empty where it is.
    """

    ports: I64
    hosts: tuple[str, ...]
    alike: float
    period_s: float
    interval_s: tuple[float, float]
    turns: int
    similarity: float
    spread: bool
    hidden: str


def shared_rhythms(rates: Rates) -> list[Rhythm]:
    """Sets of hosts that keep one rhythm of at least `CYCLES` turns, by name of the first host.

    Notes
    -----
    Hosts are clustered by the correlation of their bytes by refresh, with average linkage: two
    jobs of one period differ in when and how much they send, and drift apart. Where turns last a
    few refreshes only, hosts look alike whose ports are polled at the same moments. Pooled, each
    such part shows what they hid, and parts that are alike are one job.
    """
    busy = np.flatnonzero(rates.passed.sum(axis=1) > QUIET * rates.passed.sum(axis=1).max())
    names = sorted({rates.host[port] for port in busy.tolist()})
    if len(names) < 2:
        return []
    number = {name: i for i, name in enumerate(names)}
    owner = np.array([number[rates.host[port]] for port in busy.tolist()])
    each = _by_refresh(rates.passed[busy])
    signal = np.zeros((len(names), each.shape[1]))
    np.add.at(signal, owner, each)
    like = _correlation(signal)
    part = _clusters(like, SAME)
    if part.max() > 1:
        pooled = [
            gaussian_filter1d(pool(rates, busy[part[owner] == one]), SMOOTHING)
            for one in range(1, part.max() + 1)
        ]
        part = _clusters(_correlation(np.array(pooled)), POOLED)[part - 1]
    found = []
    for one in np.unique(part).tolist():
        hosts = np.flatnonzero(part == one)
        rhythm = _rhythm(rates, busy[part[owner] == one], like[np.ix_(hosts, hosts)])
        if rhythm is not None:
            found.append(rhythm)
    return sorted(found, key=lambda one: one.hosts[0])


def _clusters(like: F64, least: float) -> NDArray[np.int32]:
    """Number of each one's cluster, from 1, by average linkage of their correlations."""
    tree = linkage(squareform(1 - like, checks=False), "average")
    return np.asarray(fcluster(tree, 1 - least, "distance"))


def _rhythm(rates: Rates, ports: I64, like: F64) -> Rhythm | None:
    """The rhythm of some hosts' busy ports; None where they are no job."""
    if len(like) < 2:
        return None
    ports = _in_use(rates, ports)
    hosts = tuple(sorted({rates.host[port] for port in ports.tolist()}))
    received, sent = rates.received[ports], rates.sent[ports]
    both_ways = np.minimum(received, sent) >= TWO_WAY * np.maximum(received, sent)
    if len(hosts) < 2 or both_ways.mean() < 0.5:
        return None
    turns = find_turns(pool(rates, ports), rates.width_ns / 1e9)
    if turns is None:
        return None
    lengths = np.sort(np.diff(turns.ends_s))
    n, reach = len(lengths), 1.96 * np.sqrt(len(lengths)) / 2
    low = float(lengths[max(0, int(np.floor(n / 2 - reach)))])
    high = float(lengths[min(n - 1, int(np.ceil(n / 2 + reach)))])
    rest = like.copy()
    np.fill_diagonal(rest, np.nan)
    spread = read_apart_ns(rates, ports) <= ONE_MOMENT * rates.refresh_ns
    return Rhythm(
        ports=ports,
        hosts=hosts,
        alike=float(np.nanmedian(rest, axis=1).min()),
        period_s=float(np.median(lengths)),
        interval_s=(low, high),
        turns=n,
        similarity=turns.similarity,
        spread=spread,
        hidden=_hidden(rates, ports, turns, spread=spread),
    )


def _in_use(rates: Rates, ports: I64) -> I64:
    """The ports that carry about as much as the others, and in step with them."""
    volume = rates.received[ports] + rates.sent[ports]
    step = _with_all(rates.passed[ports])
    return ports[(volume >= IN_USE * np.median(volume)) & (step >= IN_STEP)]


def _hidden(rates: Rates, ports: I64, turns: Turns, *, spread: bool) -> str:
    """Why the period of these turns may not be the true one; empty where it is."""
    refresh_s = rates.refresh_ns / 1e9
    guard_s = GUARD * (rates.refresh_ns + 2 * rates.late_ns) / 1e9
    told_s = float(np.median(np.diff(turns.ends_s)))
    period_s = min(told_s, turns.beat_s)
    passed = _by_refresh(rates.passed[ports])
    together = passed.sum(axis=0)
    spans = int(told_s >= SPANNED * refresh_s)
    every = f"counters change every {refresh_s:.2g} s"
    may_be = f"may be {_aliases(period_s, refresh_s)}"
    if period_s < guard_s:
        return f"{every}, and a period under {guard_s:.2g} s {may_be}"
    if not spread and refresh_s > RARE_S:
        return f"{every}, ports are read at one moment, and what looks like a period {may_be}"
    if np.median(_with_all(passed)) < AGREE[spans] or (
        together.std() < PAUSES[spans] * together.mean()
    ):
        return f"{every}, which shows no pauses, and what looks like a period {may_be}"
    if turns.similarity < CLEAR:
        return f"{every}, and turns of {period_s:.3g} s are alike by {turns.similarity:.2f} only"
    return ""


def _aliases(period_s: float, refresh_s: float) -> str:
    """A period and the longest two shorter ones that look the same when read once a refresh."""
    rates = (abs(k / refresh_s + sign / period_s) for k in (1, 2) for sign in (-1, 1))
    shorter = sorted((1 / rate for rate in rates if rate * period_s > 1), reverse=True)[:2]
    return f"{period_s:.3g} s or {' or '.join(f'{one:.3g} s' for one in shorter)}"


def _by_refresh(passed: F64) -> F64:
    """Bytes by refresh, from bytes by bin."""
    whole = passed.shape[1] // STEPS * STEPS
    return np.asarray(passed[:, :whole].reshape(len(passed), -1, STEPS).sum(axis=2))


def _with_all(signal: F64) -> F64:
    """Correlation of each row with the sum of all."""
    return _correlation(np.concatenate([signal, [signal.sum(axis=0)]]))[-1, :-1]


def _correlation(signal: F64) -> F64:
    centred = signal - signal.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    like = np.clip(unit @ unit.T, -1, 1)
    np.fill_diagonal(like, 1.0)
    return np.asarray((like + like.T) / 2)
