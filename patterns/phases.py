"""When in an iteration a set of connections is active."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reconstruct.edges import PHASES, Flows


def active_share(flows: Flows, rows: NDArray[np.intp], part: float = 0.9) -> float:
    """Smallest share of the turn, in any phases, that holds `part` of the samples; 0 to 1."""
    profile = np.sort(flows.phases[rows].sum(axis=0))[::-1]
    total = profile.sum()
    if total <= 0:
        return 1.0
    return float(np.searchsorted(np.cumsum(profile), part * total) + 1) / PHASES


def onset(profile: NDArray[np.float64], quantile: float = 0.05) -> float | None:
    """Phase by which `quantile` of the samples of a profile have passed; None without samples.

    Parameters
    ----------
    profile : float64[PHASES]
        Samples by phase, phase 0 at the iteration's start.
    """
    total = profile.sum()
    if total <= 0:
        return None
    gone = np.concatenate([[0.0], np.cumsum(profile) / total])
    return float(np.interp(quantile, gone, np.linspace(0, 1, len(gone))))


def lead(flows: Flows, rows: NDArray[np.intp], u: int, v: int) -> float | None:
    """By which share of a turn u -> v sets in before v -> u; negative where it comes after."""
    ahead = rows[(flows.src[rows] == u) & (flows.dst[rows] == v)]
    back = rows[(flows.src[rows] == v) & (flows.dst[rows] == u)]
    first = onset(flows.phases[ahead].sum(axis=0))
    second = onset(flows.phases[back].sum(axis=0))
    return None if first is None or second is None else second - first
