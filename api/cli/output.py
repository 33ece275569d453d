"""Output that is whole or absent."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from api.errors import OutputFailed


def write_whole(text: str, output: Path) -> None:
    """Write a text to a file, or to standard output if `output` is "-".

    The file appears under its name only when it is complete; an older file of that name stays as
    it is until then.

    Raises
    ------
    OutputFailed
        Nothing was written.
    """
    if output == Path("-"):
        sys.stdout.write(text)
        return
    try:
        handle, partial = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise OutputFailed(f"{output}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes private files; a result gets the mode any new file would get.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, output)
    except OSError as error:
        os.unlink(partial)
        raise OutputFailed(f"{output}: {error.strerror}") from error
