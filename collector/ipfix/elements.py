"""Information elements that are read, and which field of a record each one fills.

Source: IANA, "IP Flow Information Export (IPFIX) Entities"; RFC 3954, 8 (version 9 uses the same
numbers up to 127); RFC 5103 (the enterprise of reverse elements); RFC 5477 (sampling).
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final

VARIABLE: Final = 65_535
REVERSE_ENTERPRISE: Final = 29_305


class Field(IntEnum):
    """Fields of a record as they are read, 64 bits each."""

    SRC_HI = 0
    SRC_LO = auto()
    DST_HI = auto()
    DST_LO = auto()
    BYTES = auto()
    PACKETS = auto()
    POST_BYTES = auto()
    POST_PACKETS = auto()
    TOTAL_BYTES = auto()
    TOTAL_PACKETS = auto()
    REVERSE_BYTES = auto()
    REVERSE_PACKETS = auto()
    REVERSE_TCP_FLAGS = auto()
    PROTOCOL = auto()
    SRC_PORT = auto()
    DST_PORT = auto()
    TCP_FLAGS = auto()
    TOS = auto()
    DSCP = auto()
    INPUT = auto()
    OUTPUT = auto()
    PHYSICAL_INPUT = auto()
    PHYSICAL_OUTPUT = auto()
    DIRECTION = auto()
    VLAN = auto()
    SEGMENT = auto()
    END_REASON = auto()
    FLOW_ID = auto()
    SELECTOR = auto()
    INTERVAL = auto()
    RANDOM_INTERVAL = auto()
    CHOSEN_RUN = auto()
    SKIPPED_RUN = auto()
    CHOSEN_OF = auto()
    POPULATION = auto()
    PROBABILITY = auto()
    BOOT_MS = auto()
    START_S = auto()
    START_MS = auto()
    START_US = auto()
    START_NS = auto()
    START_AGO_US = auto()
    START_UPTIME = auto()
    END_S = auto()
    END_MS = auto()
    END_US = auto()
    END_NS = auto()
    END_AGO_US = auto()
    END_UPTIME = auto()
    DURATION_MS = auto()
    DURATION_US = auto()
    SEEN_S = auto()
    SEEN_MS = auto()
    SEEN_US = auto()
    SEEN_NS = auto()
    FRAME_AT = auto()  # of a sampled frame: where in the buffer
    FRAME_HELD = auto()  # how many bytes of it are there
    PACKET_AT = auto()  # of a sampled packet, which begins with its IP header
    PACKET_HELD = auto()
    FRAME_BYTES = auto()  # length on the wire
    HELD_BYTES = auto()  # bytes of a section that are no padding


class Kind(IntEnum):
    """How an element is read."""

    UNSIGNED = 0
    UNLESS_ZERO = 1  # a second name for a field: zero does not replace what stands there
    IPV4 = 2
    IPV6 = 3  # two fields
    SECTION = 4  # two fields: where, and how long


_U: Final = Kind.UNSIGNED
_Z: Final = Kind.UNLESS_ZERO

# By number, without enterprise.
ELEMENTS: Final[dict[int, tuple[Kind, Field]]] = {
    1: (_U, Field.BYTES),
    2: (_U, Field.PACKETS),
    4: (_U, Field.PROTOCOL),
    5: (_U, Field.TOS),
    6: (_U, Field.TCP_FLAGS),
    7: (_U, Field.SRC_PORT),
    8: (Kind.IPV4, Field.SRC_LO),
    10: (_U, Field.INPUT),
    11: (_U, Field.DST_PORT),
    12: (Kind.IPV4, Field.DST_LO),
    14: (_U, Field.OUTPUT),
    21: (_U, Field.END_UPTIME),
    22: (_U, Field.START_UPTIME),
    23: (_U, Field.POST_BYTES),
    24: (_U, Field.POST_PACKETS),
    27: (Kind.IPV6, Field.SRC_HI),
    28: (Kind.IPV6, Field.DST_HI),
    34: (_U, Field.INTERVAL),
    48: (_U, Field.SELECTOR),
    50: (_U, Field.RANDOM_INTERVAL),
    58: (_U, Field.VLAN),
    61: (_U, Field.DIRECTION),
    85: (_U, Field.TOTAL_BYTES),
    86: (_U, Field.TOTAL_PACKETS),
    104: (Kind.SECTION, Field.FRAME_AT),  # layer2packetSectionData, the older name of 315
    136: (_U, Field.END_REASON),
    148: (_U, Field.FLOW_ID),
    150: (_U, Field.START_S),
    151: (_U, Field.END_S),
    152: (_U, Field.START_MS),
    153: (_U, Field.END_MS),
    154: (_U, Field.START_US),
    155: (_U, Field.END_US),
    156: (_U, Field.START_NS),
    157: (_U, Field.END_NS),
    158: (_U, Field.START_AGO_US),
    159: (_U, Field.END_AGO_US),
    160: (_U, Field.BOOT_MS),
    161: (_U, Field.DURATION_MS),
    162: (_U, Field.DURATION_US),
    180: (_Z, Field.SRC_PORT),  # of UDP only
    181: (_Z, Field.DST_PORT),
    182: (_Z, Field.SRC_PORT),  # of TCP only
    183: (_Z, Field.DST_PORT),
    195: (_U, Field.DSCP),
    243: (_Z, Field.VLAN),
    252: (_U, Field.PHYSICAL_INPUT),
    253: (_U, Field.PHYSICAL_OUTPUT),
    302: (_Z, Field.SELECTOR),
    305: (_U, Field.CHOSEN_RUN),
    306: (_U, Field.SKIPPED_RUN),
    309: (_U, Field.CHOSEN_OF),
    310: (_U, Field.POPULATION),
    311: (_U, Field.PROBABILITY),
    312: (_U, Field.FRAME_BYTES),
    313: (Kind.SECTION, Field.PACKET_AT),
    315: (Kind.SECTION, Field.FRAME_AT),
    322: (_U, Field.SEEN_S),
    323: (_U, Field.SEEN_MS),
    324: (_U, Field.SEEN_US),
    325: (_U, Field.SEEN_NS),
    351: (_U, Field.SEGMENT),
    410: (_U, Field.HELD_BYTES),
}
REVERSE_ELEMENTS: Final[dict[int, tuple[Kind, Field]]] = {
    1: (_U, Field.REVERSE_BYTES),
    2: (_U, Field.REVERSE_PACKETS),
    6: (_U, Field.REVERSE_TCP_FLAGS),
}


def element(enterprise: int, number: int) -> tuple[Kind, Field] | None:
    """How an element is read and what it fills; None = it is skipped."""
    if enterprise == 0:
        return ELEMENTS.get(number)
    if enterprise == REVERSE_ENTERPRISE:
        return REVERSE_ELEMENTS.get(number)
    return None
