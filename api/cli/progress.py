"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    doing: str = "reading", then: str = "analysing"
) -> Generator[Callable[[int, int], None] | None]:
    """Show how much of the captures has been read.

    Parameters
    ----------
    doing, then
        What the bar says before and after the last byte was read.

    Yields
    ------
    callable or None
        To be called with (bytes read, bytes in all); None where nobody is watching.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(doing, total=None)

        def on_progress(done_bytes: int, total_bytes: int) -> None:
            finished = done_bytes >= total_bytes
            progress.update(
                task,
                completed=done_bytes,
                total=total_bytes,
                description=then if finished else doing,
            )

        yield on_progress
