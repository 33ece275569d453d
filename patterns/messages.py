"""Message classes: what the length of one network send says about who sent it.

A sample shows a length only at the ends of a message (1 in 128 for 1 MiB and a 4 KiB MTU), so
connections of equal volume are pooled. The table of lengths is `collector.messages`, or the site's;
it comes from source and logs, so no claim may rest on it alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.messages import CLASS_NAMES
from patterns import phases
from reconstruct.edges import Flows

UNKNOWN: Final = -1
MEAN_LOW: Final = 0.94  # tails of a collective draw the mean message below the canonical one
MEAN_HIGH: Final = 1.01
TELLING_APART: Final = 0.6  # of their samples that two sorts may have in common phases
UNSEEN: Final = 0.5  # of a sample: what a phase without any may hold by chance


def pooled_class(flows: Flows, pool: NDArray[np.intp]) -> int:
    """Message class of a pool of like connections, an index into CLASS_NAMES, or UNKNOWN.

    The length read most often wins; where none was read, the mean message by acknowledgements.
    """
    counts = flows.classes[pool].sum(axis=0)
    if counts.any():
        return int(counts.argmax())
    means = flows.mean_message_bytes[pool]
    if not np.isfinite(means).any():
        return UNKNOWN
    lengths = np.array(flows.message_lengths, np.float64)
    ratio = float(np.nanmedian(means)) / np.where(lengths > 0, lengths, np.nan)
    fits = np.flatnonzero((ratio >= MEAN_LOW) & (ratio <= MEAN_HIGH))
    return int(fits[0]) if len(fits) else UNKNOWN


def classes_by_connection(flows: Flows) -> NDArray[np.int64]:
    """Message class of each connection on its own; int64[f], UNKNOWN where none was read."""
    read = flows.classes.max(axis=1, initial=0) > 0
    return np.where(read, flows.classes.argmax(axis=1), UNKNOWN)


def sent_by_each(flows: Flows, pool: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which connections of a pool of equal volume are of send and receive; bool[k].

    A connection's own length decides where one was read. Sorts that happen to carry as much as each
    other are told apart by when they do: the others are of the sort in whose phases they are seen.
    Where the lengths are of one sort only, or phases alike, they are what most of the pool are.
    """
    own = classes_by_connection(flows)[pool]
    sent = np.array([is_point_to_point(c) for c in own.tolist()], np.bool_)
    open_ = own == UNKNOWN
    out = sent.copy()
    out[open_] = is_point_to_point(pooled_class(flows, pool))
    sorts = pool[sent], pool[~sent & ~open_]
    if min(map(len, sorts)):
        common = phases.overlap(flows, *sorts)
        if common is not None and common <= TELLING_APART:
            seen = [flows.phases[rows].sum(axis=0) + UNSEEN for rows in sorts]
            likelier = np.log(seen[0] / seen[0].sum()) - np.log(seen[1] / seen[1].sum())
            out[open_] = flows.phases[pool[open_]] @ likelier > 0
    return out


def is_point_to_point(message_class: int) -> bool:
    """Whether a class is one of NCCL's send/recv chunks."""
    return message_class != UNKNOWN and CLASS_NAMES[message_class].startswith("p2p")
