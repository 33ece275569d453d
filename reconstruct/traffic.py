"""What kind of traffic a connection carries, before anything is known of jobs.

Only what the headers say is used here: addresses, ports, verbs and sizes, and who gives and takes
by which verb. Whether the rest trains something, its shape and rhythm decide later.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import Transport
from reconstruct.bins import Connections, Endpoints, Progress, Verb

CONTROL_PAYLOAD: Final = 256  # clear-to-send writes are 32 to 512 B; a data packet fills its MTU

# IANA service names; Lustre's acceptor and Ceph's range are from their manuals.
STORAGE_PORTS: Final = (111, 988, 2049, 3260, 3300, 4420, *range(6789, 6811), 8009, 20049)
MANAGEMENT_PORTS: Final = (
    *(22, 53, 80, 123, 161, 179, 389, 443, 514, 623, 873, 2379, 2380, 4317, 4318, 5044),
    *(6343, 6443, 6817, 6818, 6819, 8080, 8428, 9090, 9091, 9093, 9100, 9400, 9428, 10250, 30865),
)


class Traffic(IntEnum):
    """The class of a connection."""

    CANDIDATE = 0  # may belong to a job
    CONTROL = 1  # small messages that steer others: clear-to-send, barriers
    STORAGE = 2
    MANAGEMENT = 3


def classify(progress: Progress, storage: Sequence[IPv4Network | IPv6Network]) -> NDArray[np.uint8]:
    """`Traffic` of each connection.

    Parameters
    ----------
    progress : Progress
    storage : networks
        Subnets that hold storage servers, from the inventory; may be empty.

    Returns
    -------
    uint8[c]
    """
    connections = progress.connections
    out = np.zeros(len(connections), np.uint8)
    tcp = connections.transport == Transport.TCP
    out[connections.mean_payload < CONTROL_PAYLOAD] = Traffic.CONTROL
    out[tcp & _port_in(connections, MANAGEMENT_PORTS)] = Traffic.MANAGEMENT
    out[tcp & _port_in(connections, STORAGE_PORTS)] = Traffic.STORAGE
    # NCCL writes and never reads or sends; storage over RDMA does (read, send) on its queue pairs.
    out[(connections.verbs & (Verb.SEND | Verb.READ)) != 0] = Traffic.STORAGE
    out[_among_peers(connections, len(progress.endpoints))] = Traffic.CANDIDATE
    server = _inside(progress.endpoints, storage)
    out[server[connections.src] | server[connections.dst]] = Traffic.STORAGE
    return out


def written(connections: Connections) -> NDArray[np.bool_]:
    """Whether RDMA writes carry a connection and nothing else does, as NCCL's; bool[c]."""
    roce = connections.transport == Transport.ROCEV2
    return np.asarray(roce & ((connections.verbs & (Verb.SEND | Verb.READ)) == 0))


def _among_peers(connections: Connections, endpoints: int) -> NDArray[np.bool_]:
    """Data that is sent (or read) between endpoints that both give and take data by that verb.

    Members of a collective do; of a storage client and its server each gives by one verb and takes
    by another, or is on one side only.
    """
    out = np.zeros(len(connections), np.bool_)
    for verb in (Verb.SEND, Verb.READ):
        alone = (connections.verbs == verb) & (connections.mean_payload >= CONTROL_PAYLOAD)
        gives, takes = np.zeros((2, endpoints), np.bool_)
        gives[connections.src[alone]] = True
        takes[connections.dst[alone]] = True
        peer = gives & takes
        out |= alone & peer[connections.src] & peer[connections.dst]
    return out


def _port_in(connections: Connections, ports: Sequence[int]) -> NDArray[np.bool_]:
    return np.asarray(np.isin(connections.src_port, ports) | np.isin(connections.dst_port, ports))


def _inside(
    endpoints: Endpoints, networks: Sequence[IPv4Network | IPv6Network]
) -> NDArray[np.bool_]:
    """Endpoints whose address lies in one of the networks; bool[endpoints]."""
    out = np.zeros(len(endpoints), np.bool_)
    if not networks:
        return out
    for i, name in enumerate(endpoints.names):
        address = ip_address(name.split("%")[0])
        out[i] = any(address in network for network in networks)
    return out
