"""Templates: what exporters announced of the layout of their records.

Source: RFC 7011, 3.4 (templates and options templates), 8 (their life); RFC 3954, 5.2 and 6.1.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from collector.ipfix.elements import VARIABLE
from collector.ipfix.messages import FIRST_DATA, NETFLOW_9, OPTIONS_TEMPLATES
from collector.ipfix.plans import Plan, Template, plan_of

# A switch has a few dozen templates of a few dozen fields; telemetry of counters has thousands in
# one. A forged exporter could announce templates for ever.
MOST_FIELDS: Final = 1 << 16  # of one stream's templates together
MOST_FIELDS_OF_ALL: Final = 1 << 20  # of all streams', some 200 MB
_TEMPLATE_FIELDS: Final = 8  # what a template takes beside its fields, in fields
_MOST_REMEMBERED: Final = 64
_SCOPE_INTERFACE: Final = 2  # RFC 3954, 6.1
_INPUT: Final = 10  # ingressInterface


@dataclass(slots=True)
class _Stream:
    """The templates of one stream."""

    plans: dict[int, tuple[Template, Plan]] = field(default_factory=dict)
    fields: int = 0
    announced: set[bytes] = field(default_factory=set)  # digests of sets that are in force


class Templates:
    """The plans of all streams, by stream and template id."""

    def __init__(self) -> None:
        self._streams: defaultdict[int, _Stream] = defaultdict(_Stream)
        self._fields = 0
        self.damaged = 0  # announcements that could not be read to their end
        self.refused = 0  # beyond what is remembered

    def plan(self, stream: int, number: int) -> Plan | None:
        """The plan in force."""
        held = self._streams.get(stream)
        found = held.plans.get(number) if held is not None else None
        return None if found is None else found[1]

    def forget(self, stream: int) -> list[int]:
        """The exporter began anew: its templates are void; returns their ids."""
        held = self._streams.pop(stream, None)
        if held is None:
            return []
        self._fields -= held.fields
        return list(held.plans)

    def announce(
        self, stream: int, version: int, kind: int, data: bytes
    ) -> list[tuple[int, Plan | None]]:
        """Take in a set of templates, or of options templates.

        Returns
        -------
        list
            What changed, in order: an id and its new plan, None where it was withdrawn.

        Notes
        -----
        A new definition replaces the former at once, also over UDP and also with another meaning
        (an id that was a template's may become an options template's).
        """
        held = self._streams[stream]
        digest = blake2b(data, digest_size=16, salt=bytes([kind])).digest()
        if digest in held.announced:
            return []
        changed: list[tuple[int, Plan | None]] = []
        for number, template in self._parse(version, kind, data, held):
            if template is None:
                if number in held.plans:
                    self._drop(held, number)
                    changed.append((number, None))
                continue
            former = held.plans.get(number)
            if former is not None and former[0] == template:
                continue
            if former is not None:
                self._drop(held, number)
                changed.append((number, None))
            plan = plan_of(template)
            if not plan.least_bytes:  # its records would be without number
                self.damaged += 1
            elif not self._room(held, template):
                self.refused += 1
            else:
                held.plans[number] = (template, plan)
                changed.append((number, plan))
        if changed:
            held.announced.clear()
        elif len(held.announced) < _MOST_REMEMBERED:
            held.announced.add(digest)
        return changed

    def _room(self, held: _Stream, template: Template) -> bool:
        """Whether there is room for one more; if so, it is taken."""
        size = len(template.fields) + _TEMPLATE_FIELDS
        if held.fields + size > MOST_FIELDS or self._fields + size > MOST_FIELDS_OF_ALL:
            return False
        held.fields += size
        self._fields += size
        return True

    def _drop(self, held: _Stream, number: int) -> None:
        size = len(held.plans.pop(number)[0].fields) + _TEMPLATE_FIELDS
        held.fields -= size
        self._fields -= size

    def _parse(
        self, version: int, kind: int, data: bytes, held: _Stream
    ) -> list[tuple[int, Template | None]]:
        """Definitions in order; None withdraws."""
        found: list[tuple[int, Template | None]] = []
        options = kind == OPTIONS_TEMPLATES
        at = 0
        while len(data) - at >= 4:
            number = int.from_bytes(data[at : at + 2])
            count = int.from_bytes(data[at + 2 : at + 4])
            at += 4
            if number == 0 and count == 0:  # padding
                break
            if count == 0 and version != NETFLOW_9:
                gone = [number]
                if number == kind:  # all of that kind (RFC 7011, 8.1)
                    gone = [n for n, (each, _) in held.plans.items() if each.options == options]
                found.extend((each, None) for each in gone)
                continue
            if number < FIRST_DATA:
                self.damaged += 1
                break
            if options:
                if len(data) - at < 2:
                    self.damaged += 1
                    break
                second = int.from_bytes(data[at : at + 2])
                at += 2
            scopes = 0
            if options and version == NETFLOW_9:  # lengths in bytes: of scopes, then of options
                scopes, count = count // 4, count // 4 + second // 4
            fields, at = _fields(version, data, at, count)
            if fields is None:
                self.damaged += 1
                break
            if options and version == NETFLOW_9:
                fields = _scoped(fields, scopes)
            found.append((number, Template(version, options, fields)))
        return found


def _scoped(
    fields: tuple[tuple[int, int, int], ...], scopes: int
) -> tuple[tuple[int, int, int], ...]:
    """Scopes of version 9 have numbers of their own; the interface is the one that is read."""
    named = (
        (0, _INPUT if number == _SCOPE_INTERFACE else 0, w) for _, number, w in fields[:scopes]
    )
    return (*named, *fields[scopes:])


def _fields(
    version: int, data: bytes, at: int, count: int
) -> tuple[tuple[tuple[int, int, int], ...] | None, int]:
    """Field specifiers, and where they end; None = they are cut."""
    fields = []
    for _ in range(count):
        if len(data) - at < 4:
            return None, at
        number = int.from_bytes(data[at : at + 2])
        width = int.from_bytes(data[at + 2 : at + 4])
        at += 4
        enterprise = 0
        if number & 0x8000 and version != NETFLOW_9:
            if len(data) - at < 4:
                return None, at
            enterprise = int.from_bytes(data[at : at + 4])
            number &= 0x7FFF
            at += 4
        fields.append((enterprise, number, min(width, VARIABLE)))
    return tuple(fields), at
