"""Output that is whole or absent."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from io import TextIOWrapper
from pathlib import Path

from api.errors import OutputFailed


def write_whole(text: str, output: Path) -> None:
    """Write a text to a file, or to standard output if `output` is "-".

    A file appears under its name only when it is complete; an older file of that name stays as it
    is until then. A link is followed. What is no file, as a device or a pipe, is written to.

    Raises
    ------
    OutputFailed
        Nothing was written, or a pipe or a device took only a part.

    Notes
    -----
    Always UTF-8, but on a terminal, which gets "?" for what it cannot show.
    """
    if output == Path("-"):
        _write_stdout(text)
        return
    try:
        if output.exists() and not stat.S_ISREG(output.stat().st_mode):
            output.write_text(text, encoding="utf-8")  # a folder fails here, as it should
        else:
            _replace(text, Path(os.path.realpath(output)))
    except OSError as error:
        raise OutputFailed(f"{output}: {error.strerror}") from error


def _write_stdout(text: str) -> None:
    stream = sys.stdout
    if stream is None:
        raise OutputFailed("standard output is closed")
    if isinstance(stream, TextIOWrapper):
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader has seen enough, as `head` does. Nothing may be left to flush at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise OutputFailed(f"standard output: {error.strerror}") from error


def _replace(text: str, target: Path) -> None:
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".ringscope-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes private files; a result gets the mode any new file would get.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise
