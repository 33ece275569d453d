from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from api.cli import kernels
from tests.conftest import REPOSITORY

# Two packages of which the one calls a kernel of the other.
CALLED = "from numba import njit\n\n@njit(cache=True)\ndef called(n):\n    return n + {}\n"
CALLS = (
    "from numba import njit\nfrom collector.called import called\n\n"
    "@njit(cache=True)\ndef calls(n):\n    return called(n)\n"
)
MAIN = (
    "from api.cli.kernels import find_place\nfind_place()\n"
    "from reconstruct.calls import calls\nprint(calls(1))\n"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("collector", "reconstruct", "patterns", "api", "api/cli"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    shutil.copy(REPOSITORY / "api" / "cli" / "kernels.py", tmp_path / "api" / "cli")
    (tmp_path / "reconstruct" / "calls.py").write_text(CALLS)
    return tmp_path


def test_a_kernel_whose_callee_has_changed_is_compiled_anew(tree: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tree / "cache")}
    for added in (1, 2):
        (tree / "collector" / "called.py").write_text(CALLED.format(added))
        run = subprocess.run(
            [sys.executable, "-c", MAIN], cwd=tree, env=environment, capture_output=True, text=True
        )
        assert (run.stdout, run.stderr) == (f"{1 + added}\n", "")
    assert len(list((tree / "cache").iterdir())) == 2


def test_states_that_nobody_uses_any_more_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    long_ago = time.time() - 31 * 86_400
    for name, when in (("kernels-old", long_ago), ("kernels-new", time.time()), ("mine", long_ago)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (when, when))
    kernels.find_place()
    here = Path(os.environ["NUMBA_CACHE_DIR"])
    assert {path.name for path in tmp_path.iterdir()} == {"kernels-new", "mine", here.name}
    kernels.find_place()  # by a child, say
    assert Path(os.environ["NUMBA_CACHE_DIR"]) == here
