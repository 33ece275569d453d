"""The data formats of sFlow: which are read, and which are known but of no use here.

A format is one 32-bit tag, enterprise << 12 | format, and is compared as a whole: format 1 of
another enterprise has nothing to do with the standard's format 1. All formats here are those of
enterprise 0, sFlow.org.

Source: sFlow Version 5 (sflow.org, July 2004), section 5; sFlow Dropped Packet Notification
Structures; sFlow Transit Delay Structures; sFlow Tunnel Structures; sFlow LAG Counters Structure;
sFlow Host Structures; host-sflow (src/sflow/sflow.h) for 0:1041 to 0:1043.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from numba import njit

# Samples.
FLOW: Final = 1
COUNTERS: Final = 2
FLOW_EXPANDED: Final = 3
COUNTERS_EXPANDED: Final = 4
DISCARD: Final = 5

# Records of flow samples and of discarded packets.
RAW_HEADER: Final = 1
ETHERNET: Final = 2
IPV4: Final = 3
IPV6: Final = 4
SWITCH: Final = 1001
VLAN_TUNNEL: Final = 1012
VNI_EGRESS: Final = 1029
VNI_INGRESS: Final = 1030
EGRESS_QUEUE: Final = 1036
ACL: Final = 1037
FUNCTION: Final = 1038
TRANSIT_DELAY: Final = 1039
QUEUE_DEPTH: Final = 1040
HARDWARE_TRAP: Final = 1041
LINUX_REASON: Final = 1042
TIMESTAMP: Final = 1043

# Records of counter samples.
GENERIC_COUNTERS: Final = 1
ETHERNET_COUNTERS: Final = 2
LAG: Final = 7
PROCESSOR: Final = 1001
PORT_NAME: Final = 1005
HOST: Final = 2000
HOST_CPU: Final = 2003
HOST_MEMORY: Final = 2004


class Kind(IntEnum):
    """Where a tag stands."""

    SAMPLE = 0
    FLOW_RECORD = 1
    COUNTER_RECORD = 2


@njit(cache=True, nogil=True)
def known_flow_record(tag: int) -> bool:
    """Whether sFlow.org has given the tag a meaning, be it read here or skipped on purpose.

    Skipped are, among others: router, gateway, user, URL, MPLS, NAT (1002 to 1011), 802.11 (1013 to
    1016), addresses of tunnels (1021 to 1028), InfiniBand (1031 to 1033), sockets and applications.
    """
    return 1 <= tag <= 4 or 1001 <= tag <= 1043 or 2100 <= tag <= 2103 or 2200 <= tag <= 2210


@njit(cache=True, nogil=True)
def known_counter_record(tag: int) -> bool:
    """As `known_flow_record`, for the records of counter samples.

    Skipped are, among others: token ring, 100BaseVG, VLAN (3 to 5), InfiniBand (9), optics (10),
    OpenFlow (1004), adapters, disks, protocols of hosts, virtual machines, applications, sensors.
    """
    return (
        1 <= tag <= 10
        or 1001 <= tag <= 1005
        or 2000 <= tag <= 2010
        or 2100 <= tag <= 2106
        or 2200 <= tag <= 2207
        or 3000 <= tag <= 3003
    )
