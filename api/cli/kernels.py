"""Where compiled kernels are kept between runs, if anywhere.

numba writes beside the sources or below the user's cache folder, and refuses to import where it
can write to neither: a read-only installation run by a service without a home.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_COMPILED: Final = ("collector", "reconstruct")  # the packages that hold kernels


def find_place() -> None:
    """Make sure that numba has a folder; to be called before anything compiled is imported.

    Where there is none, a private one is made for this run, and taken away after it.
    """
    if _has_place():
        return
    folder = tempfile.mkdtemp(prefix="ringscope-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_VARIABLE] = folder
    if sys.stderr is not None:
        print(  # noqa: T201
            f"ringscope: no folder to keep compiled code in (set {_VARIABLE}): compiling anew",
            file=sys.stderr,
        )


def _has_place() -> bool:
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        return _writable(Path(chosen))
    packages = Path(__file__).resolve().parents[2]
    if all(_writable(packages / name / "__pycache__") for name in _COMPILED):
        return True
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return _writable(Path(caches) / "numba")


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
