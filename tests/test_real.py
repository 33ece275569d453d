"""`analyze` on captures of a real switch: what `bench/real.py` prints, asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.real import CAPTURES, compare


@pytest.mark.parametrize("name", CAPTURES)
def test_real_capture(real: Path, name: str) -> None:
    missed = [finding for finding in compare(real / name) if not finding.right]
    assert missed == []
