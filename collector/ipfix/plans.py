"""Plans: what a template says, as steps for a kernel.

Source: RFC 7011, 6.2 (reduced-size encoding), 7 (variable length).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from collector.ipfix import elements, hft
from collector.ipfix.elements import VARIABLE, Field, Kind
from collector.ipfix.messages import NETFLOW_5
from collector.schema import I64

SKIP: Final = -1
LEAST_SECTION_BYTES: Final = 20  # less holds no network header
_MOST_SHARED: Final = 256  # fields; longer ones are of one switch only


class Template(NamedTuple):
    """A template as it came: (enterprise, element, width) of its fields in order."""

    version: int
    options: bool
    fields: tuple[tuple[int, int, int], ...]


class Use(IntEnum):
    """What a template's records are good for."""

    NOTHING = 0  # counted
    FLOWS = 1
    PACKETS = 2  # they carry headers of sampled packets
    OPTIONS = 3
    COUNTERS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Steps through a record.

    Attributes
    ----------
    use
        What its records are good for.
    least_bytes
        The shortest record.
    fixed
        Whether all records are so long.
    steps : int64, shape (steps, 4)
        Bytes to skip, then the width (`VARIABLE`: a length stands before it), the field (`SKIP`:
        none) and the `Kind` of what is read.
    counters
        Of `Use.COUNTERS` only.
    """

    use: Use
    least_bytes: int
    fixed: bool
    steps: I64
    counters: hft.Layout | None = None


def plan_of(template: Template) -> Plan:
    """The plan of a template; exporters of one make share it."""
    return _shared(template) if len(template.fields) <= _MOST_SHARED else compile_plan(template)


@lru_cache(maxsize=512)
def _shared(template: Template) -> Plan:
    return compile_plan(template)


def compile_plan(template: Template) -> Plan:
    """Work out the plan of a template."""
    steps: list[tuple[int, int, int, int]] = []
    fields: set[int] = set()
    skip = 0
    for enterprise, number, width in template.fields:
        found = _read(enterprise, number, width)
        if found is None and width != VARIABLE:
            skip += width
            continue
        kind, field = found if found is not None else (Kind.UNSIGNED, SKIP)
        fields.add(int(field))
        steps.append((skip, width, int(field), int(kind)))
        skip = 0
    if skip:
        steps.append((skip, 0, SKIP, int(Kind.UNSIGNED)))
    widths = [width for _, _, width in template.fields]
    counters = hft.layout(template.fields) if not template.options else None
    return Plan(
        use=_use(template, fields, counters),
        least_bytes=sum(1 if width == VARIABLE else width for width in widths),
        fixed=VARIABLE not in widths,
        steps=np.array(steps, np.int64).reshape(len(steps), 4),
        counters=counters,
    )


def _read(enterprise: int, number: int, width: int) -> tuple[Kind, Field] | None:
    found = elements.element(enterprise, number)
    if found is None:
        return None
    kind = found[0]
    if kind == Kind.IPV4:
        readable = width == 4
    elif kind == Kind.IPV6:
        readable = width == 16
    elif kind == Kind.SECTION:
        readable = width >= LEAST_SECTION_BYTES
    else:
        readable = 1 <= width <= 8
    return found if readable else None


def _use(template: Template, fields: set[int], counters: hft.Layout | None) -> Use:
    """A flow has two ends: without both addresses a record says nothing of who talks to whom."""
    if template.options:
        return Use.OPTIONS
    if counters is not None:
        return Use.COUNTERS
    if Field.FRAME_AT in fields or Field.PACKET_AT in fields:
        return Use.PACKETS
    if fields & {Field.SRC_LO, Field.SRC_HI} and fields & {Field.DST_LO, Field.DST_HI}:
        return Use.FLOWS
    return Use.NOTHING


# Records of version 5 are all alike. Source: Cisco, "NetFlow Export Datagram Format", table B-4.
VERSION_5: Final = compile_plan(
    Template(
        NETFLOW_5,
        False,
        tuple(
            (0, number, width)
            for number, width in (
                (8, 4),
                (12, 4),
                (15, 4),  # next hop
                (10, 2),
                (14, 2),
                (2, 4),
                (1, 4),
                (22, 4),
                (21, 4),
                (7, 2),
                (11, 2),
                (210, 1),  # padding
                (6, 1),
                (4, 1),
                (5, 1),
                (16, 2),  # autonomous systems
                (17, 2),
                (9, 1),  # masks
                (13, 1),
                (210, 2),
            )
        ),
    )
)
