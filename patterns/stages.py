"""Stages: which way a pipeline runs.

Activations go down a pipeline and gradients come back a while later, so the direction that leads
is the forward one. One chain has few samples; chains that join the same data-parallel groups in
the same sequence are replicas of one pipeline and are read together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from patterns import phases
from patterns.phases import Lead
from patterns.result import Claim
from patterns.shape import Shape
from reconstruct.edges import Flows

LIKE_VOLUME: Final = 1.2  # chains whose bytes differ by less are of one kind
NOT_TOLD: Final = 0.5  # confidence of an order that is a toss-up


@dataclass(frozen=True, slots=True)
class Lag:
    """How far apart the two directions of like chains run, whichever leads.

    Parameters
    ----------
    share : float
        Median over the chains, as a share of the turn.
    sigmas : float
        How far that lies above what equal directions would show.
    """

    share: float
    sigmas: float


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain, its bytes per iteration, and the lead of its members' order over its reverse."""

    shape: Shape
    bytes: float
    lead: Lead


def read_chain(flows: Flows, rows: NDArray[np.intp], shape: Shape) -> Chain:
    """The lead along a chain: the weighted mean over its links."""
    leads = [phases.lead(flows, rows, u, v) for u, v in pairwise(shape.members)]
    volume = float(np.nansum(flows.bytes_per_turn[rows]))
    return Chain(shape, volume, _together(leads))


def lags(chains: Sequence[Chain]) -> list[Lag]:
    """Lag of each chain, read together with the chains of like length and volume."""
    out = []
    for chain in chains:
        like = [
            other.lead
            for other in chains
            if len(other.shape.members) == len(chain.shape.members)
            and max(other.bytes, chain.bytes) <= LIKE_VOLUME * min(other.bytes, chain.bytes)
            and np.isfinite(other.lead.error)
        ]
        if not like:
            out.append(Lag(0.0, 0.0))
            continue
        sigmas = np.array([one.share / one.error for one in like])
        excess = float(np.sqrt(max(0.0, np.sum(sigmas**2) - len(sigmas))))
        out.append(Lag(float(np.median([abs(one.share) for one in like])), excess))
    return out


def orient(chains: Sequence[Chain], group_of: Mapping[int, int]) -> list[tuple[Shape, Claim]]:
    """Each chain turned so that its stages are in order, and how sure that is.

    Parameters
    ----------
    chains : sequence of Chain
    group_of : mapping
        Data-parallel group of an endpoint, where it has one.
    """
    keys = [_sequence(chain.shape, group_of) for chain in chains]
    pooled: dict[tuple[int, ...], list[Lead]] = {}
    for chain, (key, turned) in zip(chains, keys, strict=True):
        share = -chain.lead.share if turned else chain.lead.share
        pooled.setdefault(key, []).append(Lead(share, chain.lead.error))
    out = []
    for chain, (key, turned) in zip(chains, keys, strict=True):
        lead = _together(pooled[key])
        sigmas = lead.share / lead.error if np.isfinite(lead.error) else 0.0
        against = (sigmas < 0) != turned
        shape = backwards(chain.shape) if against else chain.shape
        confidence = max(NOT_TOLD, min(0.98, float(norm.cdf(abs(sigmas)))))
        basis = (
            f"forward direction leads by {abs(lead.share):.0%} of a turn, {abs(sigmas):.1f} sigma "
            f"over {len(pooled[key])} chain(s)"
        )
        out.append((shape, Claim(round(confidence, 4), basis, len(pooled[key]))))
    return out


def _sequence(shape: Shape, group_of: Mapping[int, int]) -> tuple[tuple[int, ...], bool]:
    """What names a pipeline whichever way it is read, and whether this chain reads it backwards.

    That is the sequence of data-parallel groups; where a member has none, the chain itself.
    """
    named = tuple(group_of.get(v, -1) for v in shape.members)
    if -1 in named or named == named[::-1]:
        named = tuple(-2 - v for v in shape.members)
    key = min(named, named[::-1])
    return key, key != named


def _together(leads: Sequence[Lead]) -> Lead:
    """Inverse-variance mean of leads."""
    told = [one for one in leads if np.isfinite(one.error)]
    if not told:
        return phases.UNTOLD
    weight = np.array([one.error**-2.0 for one in told])
    share = float(np.average([one.share for one in told], weights=weight))
    return Lead(share, float(weight.sum() ** -0.5))


def backwards(shape: Shape) -> Shape:
    """A chain from its other end."""
    order = shape.members[::-1]
    return replace(shape, members=order, channels=(replace(shape.channels[0], order=order),))
