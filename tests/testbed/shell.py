"""Commands run to their end, and commands left running, with what they said kept for errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0


class CommandFailed(Exception):
    """A command ended with something else than 0, or not in time."""


def run(words: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command that has to succeed.

    Raises
    ------
    CommandFailed
        With the command and what it said on standard error.
    """
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE_S, env=env, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(f"{' '.join(words)}: not done after {PATIENCE_S} s") from late
    if done.returncode:
        raise CommandFailed(f"{' '.join(words)}: {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def running(
    words: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs until the context ends; it is asked to stop, then made to."""
    with log.open("ab") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env=env)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
