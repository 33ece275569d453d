"""Equality: whether connections carry as much as each other."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.edges import Flows

ERROR_FLOOR: Final = 0.002  # of a slope: what the clock's own unevenness leaves
TELLING: Final = 0.3  # relative error up to which a connection's own volume counts
EQUAL: Final = 4.0  # reduced chi-square up to which volumes count as equal


def equal_volume(flows: Flows, rows: NDArray[np.intp]) -> float | None:
    """Weighted mean of connections' bytes per iteration; None where they are not all equal.

    Parameters
    ----------
    flows : Flows
    rows : intp[k]
        The connections to hold against each other.
    """
    volume, error = flows.bytes_per_turn[rows], np.maximum(flows.error[rows], ERROR_FLOOR)
    told = np.isfinite(volume) & (error <= TELLING)
    if not told.any():
        return None
    volume, error = volume[told], error[told]
    weight = 1 / (error * volume) ** 2
    mean = float(np.average(volume, weights=weight))
    away = float(np.sum(weight * (volume - mean) ** 2)) / max(1, len(volume) - 1)
    return mean if away <= EQUAL else None
