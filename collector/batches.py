"""`Batch`: what all tables of named columns have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray


class Batch:
    """Rows as columns of one length.

    A subclass is a frozen dataclass with slots that has a field for each of its `KINDS`.
    """

    __slots__ = ()

    KINDS: ClassVar[Mapping[str, np.dtype[np.generic]]]

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.KINDS))))

    @classmethod
    def empty(cls, rows: int = 0) -> Self:
        """A batch of `rows` zeroed rows, to be filled in place."""
        return cls._of({name: np.zeros(rows, kind) for name, kind in cls.KINDS.items()})

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """Rows by index, mask or slice, in that order."""
        return self._of({name: getattr(self, name)[index] for name in self.KINDS})

    @classmethod
    def concat(cls, batches: list[Self]) -> Self:
        """One batch of all rows, in the order given."""
        if not batches:
            return cls.empty()
        return cls._of(
            {name: np.concatenate([getattr(b, name) for b in batches]) for name in cls.KINDS}
        )

    @classmethod
    def _of(cls, columns: Mapping[str, NDArray[Any]]) -> Self:
        made: Any = cls
        batch: Self = made(**columns)
        return batch
