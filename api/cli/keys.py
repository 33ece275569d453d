"""Single keys from the terminal, while something else is on its screen."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

END: Final = ""  # what is read where the terminal has gone


@contextmanager
def keys() -> Generator[Callable[[float], str | None]]:
    """Read keys without their echo until the end of the block; Ctrl-C interrupts as ever.

    Yields
    ------
    callable
        Waits for so many seconds; gives what was typed, None where nothing was, END where nothing
        can come any more. Without a terminal on standard input it only waits.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield time.sleep
        return
    terminal = sys.stdin.fileno()

    def typed(timeout_s: float) -> str | None:
        ready, _, _ = select.select([terminal], [], [], timeout_s)
        return os.read(terminal, 64).decode(errors="replace") if ready else None

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield typed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
