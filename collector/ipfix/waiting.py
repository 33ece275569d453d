"""Sets that came before their template: kept for a while, within bounds."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final, NamedTuple

MOST_BYTES: Final = 8 << 20
MOST_BYTES_OF_A_STREAM: Final = 1 << 20
_OVERHEAD_BYTES: Final = 200  # what an entry takes beside its content


class Held(NamedTuple):
    """A set that waits, and what is known of its message."""

    arrival_ns: int
    export_ns: int
    uptime_ms: int
    exporter: int
    stream: int
    content: bytes


class Waiting:
    """Sets by stream and template id; when there are too many, the oldest go."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, OrderedDict[int, deque[Held]]] = OrderedDict()
        self._of_stream: dict[int, int] = {}
        self.bytes = 0
        self.sets = 0
        self.dropped = 0  # sets whose template did not come in time

    def add(self, stream: int, number: int, held: Held) -> list[int]:
        """Keep a set until its template comes; returns the exporters of sets that it displaced."""
        size = len(held.content) + _OVERHEAD_BYTES
        if size > MOST_BYTES_OF_A_STREAM:
            self.dropped += 1
            return [held.exporter]
        gone = []
        while self._of_stream.get(stream, 0) + size > MOST_BYTES_OF_A_STREAM:
            gone.append(self._drop(stream))
        while self.bytes + size > MOST_BYTES:
            gone.append(self._drop(next(iter(self._held))))
        queues = self._held.setdefault(stream, OrderedDict())
        queues.setdefault(number, deque()).append(held)
        self._account(stream, size, 1)
        return gone

    def by_exporter(self) -> Counter[int]:
        """How many sets of each exporter wait."""
        return Counter(
            held.exporter
            for queues in self._held.values()
            for queue in queues.values()
            for held in queue
        )

    def take(self, stream: int, number: int) -> list[Held]:
        """All that waits for a template, in order; it waits no longer."""
        queues = self._held.get(stream)
        if queues is None or number not in queues:
            return []
        found = list(queues.pop(number))
        if not queues:
            del self._held[stream]
        for held in found:
            self._account(stream, -len(held.content) - _OVERHEAD_BYTES, -1)
        return found

    def _drop(self, stream: int) -> int:
        """Give up the set that waits first for the template that is missed longest."""
        queues = self._held[stream]
        number, queue = next(iter(queues.items()))
        held = queue.popleft()
        if not queue:
            del queues[number]
        if not queues:
            del self._held[stream]
        self._account(stream, -len(held.content) - _OVERHEAD_BYTES, -1)
        self.dropped += 1
        return held.exporter

    def _account(self, stream: int, size: int, sets: int) -> None:
        self.bytes += size
        self.sets += sets
        left = self._of_stream.get(stream, 0) + size
        if left:
            self._of_stream[stream] = left
        else:
            self._of_stream.pop(stream, None)
