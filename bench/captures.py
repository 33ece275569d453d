"""Labelled captures of `python -m fixtures`, made once and kept.

A capture is kept under its arguments and a fingerprint of the fixtures' sources, so that a changed
generator never answers with an old capture.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench.thin import thin

ROOT: Final = Path(__file__).resolve().parent.parent
# Captures of older sources go after this long without use: a rich one holds some 200 MB.
_KEEP_S: Final = 6 * 3600


@dataclass(frozen=True, slots=True)
class Capture:
    """One labelled capture, its inventory, truth and full flow records in `folder`."""

    scenario: str
    seed: int
    level: str
    folder: Path

    @property
    def pcap(self) -> Path:
        return self.folder / "capture.pcap"

    def records(self, cache: str) -> Path:
        """What a flow cache exported."""
        return self.folder / f"records-{cache}.pcap"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.toml"

    @property
    def truth(self) -> Path:
        return self.folder / "truth.json"

    @property
    def flows(self) -> Path:
        return self.folder / "flows.parquet"


class CaptureFailed(Exception):
    """The generator did not make a capture; the text holds its arguments and what it said."""


def cache_folder() -> Path:
    """Where captures are kept: ``$RINGSCOPE_CACHE``, else a folder in the temporary one."""
    chosen = os.environ.get("RINGSCOPE_CACHE")
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"ringscope-{os.getuid()}"


def fingerprint(sources: Path = ROOT / "fixtures") -> str:
    """16 hex digits of every source file below `sources` and of NumPy's version.

    NumPy's random streams may change between versions.
    """
    digest = hashlib.sha256(np.__version__.encode())
    for path in sorted(sources.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def capture(
    scenario: str, seed: int, level: str, thinned: int = 1, caches: Sequence[str] = ()
) -> Capture:
    """The labelled capture of these arguments, from the cache or made now.

    Parameters
    ----------
    scenario, seed, level : as `python -m fixtures` takes them.
    thinned : keep one flow sample in `thinned` of it (`bench.thin`).
    caches : flow caches of the generator (`fixtures.flow_cache`), for a capture of each beside.

    Raises
    ------
    CaptureFailed
        The generator exited with an error.

    Notes
    -----
    Several processes may ask for the same capture at once: each makes it in a folder of its own
    and the first to finish moves it into place.
    """
    home = cache_folder() / fingerprint()
    name = f"{scenario}-{level}-{seed}" + (f"-thin{thinned}" if thinned > 1 else "")
    name += "-records" if caches else ""
    folder = home / name
    if not folder.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        drop_old(cache_folder(), home)
        with tempfile.TemporaryDirectory(dir=home, prefix=f".{name}-") as scratch:
            made = Path(scratch) / name
            if thinned > 1:
                _thin(capture(scenario, seed, level), made, thinned)
            else:
                _generate(scenario, seed, level, made, caches)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    home.touch()
    return Capture(scenario, seed, level, folder)


def drop_old(cache: Path, current: Path) -> None:
    """Remove captures of other fingerprints that nobody asked for in the last six hours."""
    for other in cache.iterdir():
        if other != current and other.is_dir() and time.time() - other.stat().st_mtime > _KEEP_S:
            shutil.rmtree(other, ignore_errors=True)


def _generate(scenario: str, seed: int, level: str, folder: Path, caches: Sequence[str]) -> None:
    command = [sys.executable, "-m", "fixtures", scenario, str(folder)]
    command += ["--seed", str(seed), "--level", level, "--flow-records"]
    command += ["--ipfix", *caches] if caches else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-5:]
        raise CaptureFailed(f"{scenario} --seed {seed} --level {level}: " + "\n".join(said))


def _thin(whole: Capture, folder: Path, keep_one_in: int) -> None:
    folder.mkdir()
    for path in (whole.inventory, whole.truth, whole.flows):
        shutil.copy(path, folder)
    thin(whole.pcap, folder / "capture.pcap", keep_one_in, seed=whole.seed)
