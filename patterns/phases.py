"""When in an iteration a set of connections is active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.edges import PHASES, Flows


def active(profile: NDArray[np.float64], part: float = 0.9) -> NDArray[np.bool_]:
    """The fewest phases that hold `part` of the samples of a profile, all where it has none.

    Parameters
    ----------
    profile : float64[PHASES]
    part : float
        0 to 1.

    Returns
    -------
    bool[PHASES]
    """
    if profile.sum() <= 0:
        return np.ones(len(profile), np.bool_)
    order = np.argsort(-profile, kind="stable")
    enough = int(np.searchsorted(np.cumsum(profile[order]), part * profile.sum())) + 1
    out = np.zeros(len(profile), np.bool_)
    out[order[:enough]] = True
    return out


def active_share(flows: Flows, rows: NDArray[np.intp], part: float = 0.9) -> float:
    """Smallest share of the turn, in any phases, that holds `part` of the samples; 0 to 1."""
    profile = np.sort(flows.phases[rows].sum(axis=0))[::-1]
    total = profile.sum()
    if total <= 0:
        return 1.0
    return float(np.searchsorted(np.cumsum(profile), part * total) + 1) / PHASES


def arc(profile: NDArray[np.float64], part: float = 0.9) -> float:
    """Shortest share of the turn, in one piece, that holds `part` of the samples; 0 to 1.

    A piece may lie across the turn's end. It is 1 where a profile has no samples.
    """
    if profile.sum() <= 0:
        return 1.0
    gone = np.concatenate([[0.0], np.cumsum(np.tile(profile, 2))])
    wanted = part * profile.sum() * (1 - 1e-9)  # sums in another order end in other digits
    ends = np.searchsorted(gone, gone[:PHASES] + wanted)
    return float((ends - np.arange(PHASES)).min() / PHASES)


def opened(profile: NDArray[np.float64]) -> int:
    """Slot at which to begin to read a profile.

    It is 0, but where a burst lies across the turn's end the middle of the longest pause.
    """
    quiet = ~active(profile, UNBROKEN)
    if profile.sum() < FEWEST_OF_A_SET or quiet[0] or quiet[-1] or not quiet.any():
        return 0
    edges = np.flatnonzero(np.diff(quiet.astype(np.int8)))
    first, last = edges[::2] + 1, edges[1::2] + 1
    longest = int(np.argmax(last - first))
    return int(first[longest] + last[longest]) // 2


def overlap(flows: Flows, one: NDArray[np.intp], other: NDArray[np.intp]) -> float | None:
    """Share of their samples that two sets of connections have in common phases, 0 to 1.

    Parameters
    ----------
    flows : Flows
    one, other : intp[k]
        Rows of each set.

    Returns
    -------
    float or None
        None where either has too few samples: by chance alone they would miss each other.
    """
    profiles = [flows.phases[rows].sum(axis=0) for rows in (one, other)]
    if min(profile.sum() for profile in profiles) < FEWEST_OF_A_SET:
        return None
    return float(np.minimum(*(profile / profile.sum() for profile in profiles)).sum())


@dataclass(frozen=True, slots=True)
class Common:
    """How much of their time in the turn two sets of connections have in common.

    Parameters
    ----------
    share : float
        0 where they take turns, 1 where they send at the same times.
    error : float
        Its standard deviation where they do the latter, by chance alone.
    samples : int
        Of the set that has fewer.
    """

    share: float
    error: float
    samples: int


def in_common(flows: Flows, one: NDArray[np.intp], other: NDArray[np.intp]) -> Common | None:
    """The overlap of two sets, over that of two random parts of all their samples.

    Few samples miss each other by chance: so do these parts. None where there are hardly any.
    """
    profiles = [np.rint(flows.phases[rows].sum(axis=0)).astype(np.int64) for rows in (one, other)]
    counts = [int(profile.sum()) for profile in profiles]
    if min(counts) < FEWEST_IN_COMMON:
        return None
    both = profiles[0] + profiles[1]
    drawn = np.random.default_rng(0).multivariate_hypergeometric(both, counts[0], DRAWS)
    of_parts = np.minimum(drawn / counts[0], (both - drawn) / counts[1]).sum(axis=1)
    own = float(np.minimum(profiles[0] / counts[0], profiles[1] / counts[1]).sum())
    usual = float(of_parts.mean())
    return Common(own / usual, float(of_parts.std()) / usual, min(counts))


@dataclass(frozen=True, slots=True)
class Lead:
    """By how much one direction of a link runs before the other.

    Parameters
    ----------
    share : float
        Difference of the mean phases, as a share of the turn; positive where the first leads.
    error : float
        Its standard error; inf where a direction has too few samples.
    """

    share: float
    error: float


UNTOLD: Final = Lead(0.0, float("inf"))
LEAST_SPREAD: Final = 0.15  # of a turn: a pipeline's traffic fills most of it, however few are seen
FEWEST_OF_A_SET: Final = 4 * PHASES  # samples before a profile shows where it is empty
FEWEST_IN_COMMON: Final = 20  # of a set, before anything is said of what it has in common
DRAWS: Final = 100
UNBROKEN: Final = 0.98  # of the samples: where none of these lie is a pause
FEWEST: Final = 2  # samples of a direction before its mean phase means anything


def lead(flows: Flows, rows: NDArray[np.intp], u: int, v: int) -> Lead:
    """The lead of u -> v over v -> u.

    A stage answers each micro-batch some time after it was sent, so the whole backward traffic of
    a pipeline's link lags its forward traffic; members of a collective send at once.
    """
    begin = opened(flows.phases[rows].sum(axis=0))
    phases = np.roll(flows.phases[rows], -begin, axis=1)
    ahead = phases[(flows.src[rows] == u) & (flows.dst[rows] == v)].sum(axis=0)
    back = phases[(flows.src[rows] == v) & (flows.dst[rows] == u)].sum(axis=0)
    if min(ahead.sum(), back.sum()) < FEWEST:
        return UNTOLD
    (first, first_spread), (second, second_spread) = _moments(ahead), _moments(back)
    error = np.sqrt(first_spread**2 / ahead.sum() + second_spread**2 / back.sum())
    return Lead(second - first, float(error))


def _moments(profile: NDArray[np.float64]) -> tuple[float, float]:
    """Mean phase of a profile and its standard deviation, not below what few samples hide."""
    middle = (np.arange(PHASES) + 0.5) / PHASES
    mean = float(np.average(middle, weights=profile))
    spread = float(np.sqrt(np.average((middle - mean) ** 2, weights=profile)))
    return mean, max(spread, LEAST_SPREAD)
