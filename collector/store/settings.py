"""How a store keeps its files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of the writer; a reader needs none.

    Attributes
    ----------
    slice_s
        Rows of one slice of event time share files; a file never holds two slices, but for what
        is whole by itself (reports, tables of other kinds): that goes where its last row does.
    hold_s
        Rows are held in memory for at most so long: what a killed writer loses.
    keep_age_s
        Files whose newest row is older than this, counted from the newest row of the store, are
        removed; None keeps all.
    keep_bytes
        The oldest files are removed until all are no larger than this; None sets no limit.

    Raises
    ------
    ValueError
        A value is out of range; the message starts with its name.
    """

    slice_s: int = 60
    hold_s: float = 10.0
    keep_age_s: float | None = 86_400.0
    keep_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.slice_s < 1:
            raise ValueError("slice_s: must be at least 1")
        if not self.hold_s >= 0:
            raise ValueError("hold_s: must be at least 0")
        if self.keep_age_s is not None and not self.keep_age_s > 0:
            raise ValueError("keep_age_s: must be above 0")
        if self.keep_bytes is not None and self.keep_bytes < 1:
            raise ValueError("keep_bytes: must be at least 1")
