"""The packets in samples: their headers, and what the switch says where a header does not."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from collector import headers
from collector.headers import ROCEV2_PORT
from collector.schema import (
    ABSENT_U16,
    ABSENT_U32,
    U8,
    U16,
    U32,
    FlowBatch,
    HeaderState,
    Transport,
)
from collector.sflow.sampled import Sampled, Told


class _Columns(NamedTuple):
    """The columns of `FlowBatch` that are completed, or read for it."""

    vlan: U16
    inner_vlan: U16
    vni: U32
    protocol: U8
    dst_port: U16
    transport: U8
    header_state: U8


@njit(cache=True, nogil=True)
def _complete(sampled: Sampled, out: _Columns) -> None:
    for row in range(len(out.vlan)):
        vlan = sampled.vlan[row]
        if vlan != ABSENT_U16:
            if sampled.stripped[row]:
                out.inner_vlan[row] = out.vlan[row]
                out.vlan[row] = vlan
            elif out.vlan[row] == ABSENT_U16:
                out.vlan[row] = vlan
        if out.vni[row] == ABSENT_U32:
            out.vni[row] = sampled.vni[row]
        if sampled.told[row] == Told.NOT_IP:
            out.header_state[row] = HeaderState.NOT_IP
        elif sampled.told[row] == Told.IP:
            out.header_state[row] = HeaderState.COMPLETE
            if out.protocol[row] == 6:
                out.transport[row] = Transport.TCP
                out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
            elif out.protocol[row] == 17:
                out.transport[row] = Transport.UDP
                if out.dst_port[row] == ROCEV2_PORT:
                    out.transport[row] = Transport.ROCEV2
                    out.header_state[row] = HeaderState.TRUNCATED_BTH


def parse(buffer: U8, flows: FlowBatch, sampled: Sampled) -> U8:
    """Read the sampled headers into `flows`, in place, and complete them from other records.

    Parameters
    ----------
    buffer : uint8, shape (m,)
    flows, sampled
        As `decode` gives them.

    Returns
    -------
    uint8, shape (n,)
        1 where the exporter's frame length was impossible (see `headers.parse`).

    Notes
    -----
    A VLAN or VNI of the switch counts only where the header has none, but a tag that the switch
    took off before it sampled is the outermost. A packet told by its fields (0:3, 0:4) has no
    sequence number, so TCP and RoCE end early; its frame is the IP packet with an Ethernet header
    and check sequence.
    """
    repaired = headers.parse(
        buffer, sampled.header_at, sampled.header_bytes, sampled.header_protocol, flows
    )
    _complete(sampled, _Columns(*(getattr(flows, name) for name in _Columns._fields)))
    return repaired
