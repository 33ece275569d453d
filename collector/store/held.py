"""What a writer holds in memory until it is worth a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Held(Generic[T]):
    """Batches in the order they came, and since when.

    Parameters
    ----------
    hold_s
        They are overdue when the first has been here for so long.
    clock
        Seconds that pass.
    """

    def __init__(self, hold_s: float, clock: Callable[[], float]) -> None:
        self._hold_s = hold_s
        self._clock = clock
        self._since_s = 0.0
        self._batches: list[T] = []
        self.rows = 0

    def add(self, batch: T, rows: int) -> None:
        """Take in a batch of so many rows."""
        if not self._batches:
            self._since_s = self._clock()
        self._batches.append(batch)
        self.rows += rows

    def overdue(self) -> bool:
        """Whether any has been held for long enough."""
        return bool(self._batches) and self._clock() - self._since_s >= self._hold_s

    def take(self) -> list[T]:
        """All batches; none is held after."""
        batches, self._batches, self.rows = self._batches, [], 0
        return batches
