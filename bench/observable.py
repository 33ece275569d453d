"""What a truth itself declares unobservable: no result is to be held to that."""

from __future__ import annotations

from collections.abc import Iterator

from bench.compare import Document


def undecidable(truth: Document) -> tuple[int, int]:
    """Fields of groups that the capture cannot show, and all fields of groups.

    The fields of a group are its order, its direction, its algorithm and, where it scatters and
    gathers, the moment between both.
    """
    fields = [
        decidable
        for job in truth.get("observable", {}).get("jobs", {}).values()
        for group in job.get("groups", {}).values()
        for decidable in _fields(group)
    ]
    return fields.count(False), len(fields)


def _fields(group: Document) -> Iterator[bool]:
    yield bool(group["order_decidable"])
    yield bool(group["direction_decidable"])
    yield not group["alternatives"]
    if "phases" in group:
        yield bool(group["phases"]["decidable"])
