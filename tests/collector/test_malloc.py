from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest

from collector.malloc import keep_freed

# Each round frees all that it took, as the decoding of a batch does.
ROUNDS = """
import resource, sys
import numpy as np
from collector.malloc import keep_freed
if sys.argv[1] == "keep":
    assert keep_freed()
def work():
    for _ in range(40):
        columns = [np.ones(1 << 18) for _ in range(20)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Pages that 40 batches of 40 MB had to ask the system for."""
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, how], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_what_was_freed_is_not_asked_for_again() -> None:
    assert 50 * faults("keep") < faults("leave")


def test_a_c_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    assert not keep_freed()
