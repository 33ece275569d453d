"""How a command ends: its exit code, and what it says on standard error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from api.errors import ApiError
from collector.errors import CollectorError

if TYPE_CHECKING:
    from collector.schema import DecodeError

DONE: Final = 0
NOT_ALL_READ: Final = 1
NOTHING_DONE: Final = 2

TRACEBACK: Final = "RINGSCOPE_TRACEBACK"  # if it is set, an internal error shows all of itself
_ERRORS_SHOWN: Final = 10  # a broken file must not flood a terminal


def exit_code_of(work: Callable[[], int]) -> int:
    """Do the work of a command; whatever stops it is said in one line.

    Returns
    -------
    int
        What `work` returned, or NOTHING_DONE where it raised.
    """
    try:
        return work()
    except (ApiError, CollectorError) as error:
        say(str(error))
    except KeyboardInterrupt:
        say("interrupted")
    except MemoryError as error:
        say(f"not enough memory for these captures: {error or 'the system has no more'}")
    except Exception as error:  # our own fault; an uncaught one would exit with 1: "done, but ..."
        if TRACEBACK in os.environ:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        say(
            f"internal error: {type(error).__name__}: {error}"
            f" ({Path(place.filename).name}:{place.lineno});"
            f" please report it with what {TRACEBACK}=1 shows"
        )
    return NOTHING_DONE


def say_errors(errors: Sequence[DecodeError], rest: str) -> None:
    """Say what could not be read; `rest` tells of the kinds of error left out here."""
    for error in errors[:_ERRORS_SHOWN]:
        where = [
            error.file,
            None if error.offset is None else f"offset {error.offset}",
            error.exporter and f"exporter {error.exporter}",
        ]
        times = f" ({error.count} times)" if error.count > 1 else ""
        say(": ".join([*filter(None, where), error.reason]) + times)
    if len(errors) > _ERRORS_SHOWN:
        say(f"{len(errors) - _ERRORS_SHOWN} more kinds of error {rest}")


def say(message: str) -> None:
    """One line on standard error."""
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    print(f"ringscope: {message}", file=sys.stderr)  # noqa: T201
