from __future__ import annotations

import math

import pytest

from collector.store import StoreSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slice_s", 0),
        ("hold_s", -1.0),
        ("hold_s", math.nan),
        ("keep_age_s", 0.0),
        ("keep_age_s", math.nan),
        ("keep_bytes", 0),
    ],
)
def test_values_out_of_range_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        StoreSettings(**{name: value})  # type: ignore[arg-type]
