"""What acknowledgements tell: how long a connection's messages are.

An acknowledgement carries the PSN that it answers and the number of messages completed (InfiniBand
Architecture Specification 1.2.1, 9.7.5); two of them give the mean message between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import ABSENT_U32, FlowBatch, Transport
from reconstruct.bins import Connections
from reconstruct.hashing import mix
from reconstruct.slices import Acks
from reconstruct.unwrap import unwrap

PSN_BITS: Final = 24  # also the width of the MSN

_ACKNOWLEDGE: Final = 0x11


@dataclass(frozen=True, slots=True)
class Curve:
    """Unwrapped positions of all connections, sorted by connection, then time."""

    connection: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    position: NDArray[np.int64]

    def at(self, connection: NDArray[np.int32], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Position of connections at moments, linear between samples; int64[n]."""
        start = int(self.time_ns.min())
        span = int(max(self.time_ns.max(), time_ns.max())) - start + 2
        late = np.maximum(time_ns - start, 0)
        key = self.connection.astype(np.int64) * span + (self.time_ns - start)
        right = np.searchsorted(key, connection.astype(np.int64) * span + late)
        first = np.searchsorted(self.connection, connection)
        last = np.searchsorted(self.connection, connection, "right") - 1
        left, right = np.clip(right - 1, first, last), np.clip(right, first, last)
        length = np.maximum(self.time_ns[right] - self.time_ns[left], 1)
        share = np.clip((time_ns - self.time_ns[left]) / length, 0, 1)
        step = (self.position[right] - self.position[left]) * share
        return np.asarray(self.position[left] + step.astype(np.int64))


def find_acks(flows: FlowBatch, src: NDArray[np.int32], dst: NDArray[np.int32]) -> Acks:
    """The acknowledgements among sampled packets.

    Parameters
    ----------
    flows : FlowBatch
    src, dst : int32[n]
        Endpoint ids of its rows.
    """
    is_ack = (flows.transport == Transport.ROCEV2) & (flows.opcode == _ACKNOWLEDGE)
    is_ack &= (flows.msn != ABSENT_U32) & (flows.seq != ABSENT_U32)
    rows = np.flatnonzero(is_ack & ((flows.syndrome & 0x60) == 0))
    return Acks(
        src=src[rows],
        dst=dst[rows],
        src_port=flows.src_port[rows],
        time_ns=flows.time_ns[rows],
        psn=flows.seq[rows],
        msn=flows.msn[rows],
    )


def mean_messages(acks: Acks, connections: Connections, curve: Curve) -> NDArray[np.float64]:
    """Mean message of each connection by its acknowledgements: MTU x dPSN / dMSN.

    Parameters
    ----------
    acks : Acks
        With the endpoint ids of `connections`.
    connections : Connections
    curve : Curve

    Returns
    -------
    float64[c]
        Bytes; nan where fewer than two acknowledgements tell.

    Notes
    -----
    An acknowledgement runs against the data and shares its UDP source port. Its PSN repeats that
    of a data packet just received, so the data's own curve says which turn of the counter it is
    in; messages are too few to wrap.
    """
    out = np.full(len(connections), np.nan)
    if not len(acks) or not len(connections):
        return out
    forward = mix(
        connections.src.astype(np.uint64), connections.dst.astype(np.uint64), connections.src_port
    )
    backward = mix(acks.dst.astype(np.uint64), acks.src.astype(np.uint64), acks.src_port)
    keys, first, count = np.unique(forward, return_index=True, return_counts=True)
    at = np.minimum(np.searchsorted(keys, backward), len(keys) - 1)
    known = np.flatnonzero((keys[at] == backward) & (count[at] == 1))
    if not len(known):
        return out
    owner = first[at[known]].astype(np.int32)
    order = np.lexsort((acks.time_ns[known], owner))
    acks, owner = acks.take(known[order]), owner[order]
    near = curve.at(owner, acks.time_ns)
    psn = near + _signed(acks.psn.astype(np.int64) - near)
    msn = unwrap(owner, acks.msn, np.full(len(acks), PSN_BITS, np.uint8))
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    tails = np.append(heads[1:], len(owner)) - 1
    messages = msn[tails] - msn[heads]
    packets = psn[tails] - psn[heads]
    told = (messages > 0) & (packets > 0)
    where = owner[heads[told]]
    out[where] = connections.unit_bytes[where] * packets[told] / messages[told]
    return out


def _signed(difference: NDArray[np.int64]) -> NDArray[np.int64]:
    """A difference of PSNs as the nearest signed one."""
    half = 1 << (PSN_BITS - 1)
    return np.asarray((difference + half) % (1 << PSN_BITS) - half)
