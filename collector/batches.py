"""`Batch`: what all tables of named columns have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray


class Batch:
    """Rows as columns of one length.

    A subclass is a frozen dataclass with slots that has a field for each of its `KINDS`, or says by
    `column` and `of` where they are.
    """

    __slots__ = ()

    KINDS: ClassVar[Mapping[str, np.dtype[np.generic]]]

    def __len__(self) -> int:
        return len(self.column(next(iter(self.KINDS))))

    def column(self, name: str) -> NDArray[Any]:
        """The column of this name, one of `KINDS`."""
        column: NDArray[Any] = getattr(self, name)
        return column

    @classmethod
    def empty(cls, rows: int = 0) -> Self:
        """A batch of `rows` zeroed rows, to be filled in place."""
        return cls.of({name: np.zeros(rows, kind) for name, kind in cls.KINDS.items()})

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """Rows by index, mask or slice, in that order."""
        return self.of({name: self.column(name)[index] for name in self.KINDS})

    def but(self, **columns: NDArray[Any]) -> Self:
        """The same rows, with other values in some columns."""
        return self.of({name: self.column(name) for name in self.KINDS} | columns)

    @classmethod
    def concat(cls, batches: list[Self]) -> Self:
        """One batch of all rows, in the order given."""
        if not batches:
            return cls.empty()
        return cls.of(
            {name: np.concatenate([b.column(name) for b in batches]) for name in cls.KINDS}
        )

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> Self:
        """A batch of these columns, one for each of `KINDS`."""
        made: Any = cls
        batch: Self = made(**columns)
        return batch
