"""Where compiled kernels are kept between runs, if anywhere.

numba knows what it has compiled by the file that a kernel stands in, but kernels call others of
other files: code of before a change there would go on being used. So each state of the sources that
hold kernels has a folder of its own. And numba refuses to import where it can write nowhere: a
read-only installation run by a service without a home.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_COMPILED: Final = ("collector", "reconstruct", "patterns")  # the packages that hold kernels
_PREFIX: Final = "kernels-"
_KEPT_S: Final = 30 * 86_400  # of other states of the sources


def find_place() -> None:
    """Make sure that numba has a folder; to be called before anything compiled is imported.

    Below the folder that the environment names, else in the user's cache. Where there is none, a
    private one is made for this run, and taken away after it.
    """
    chosen = os.environ.get(_VARIABLE)
    if chosen and Path(chosen).name.startswith(_PREFIX):  # by a parent process
        return
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    base = Path(chosen) if chosen else Path(caches) / "ringscope"
    folder = base / (_PREFIX + _state())
    if _writable(folder):
        _forget_others(folder)
        os.environ[_VARIABLE] = str(folder)
        return
    private = tempfile.mkdtemp(prefix="ringscope-" + _PREFIX)
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    os.environ[_VARIABLE] = private
    if sys.stderr is not None:
        print(  # noqa: T201
            f"ringscope: no folder to keep compiled code in (set {_VARIABLE}): compiling anew",
            file=sys.stderr,
        )


def _state() -> str:
    """Of the sources that hold kernels."""
    packages = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for name in _COMPILED:
        for source in sorted((packages / name).rglob("*.py")):
            text = source.read_bytes()
            if b"numba" in text:
                digest.update(str(source.relative_to(packages)).encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:12]


def _forget_others(folder: Path) -> None:
    """Remove folders of other states that no run has used for long."""
    os.utime(folder)
    for other in folder.parent.glob(_PREFIX + "*"):
        try:
            if time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:  # gone meanwhile
            continue


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
