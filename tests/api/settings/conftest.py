from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ:
        if variable.upper().startswith("RINGSCOPE_"):
            monkeypatch.delenv(variable)
