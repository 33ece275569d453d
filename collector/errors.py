"""What `collector` raises.

    CollectorError
    ├── CaptureError        one file cannot be opened as a capture
    ├── NothingReadError    none of the captures given could be read at all
    ├── InventoryError      the inventory file says something impossible
    ├── StoreError          the directory of a store cannot be read or written
    ├── UnsupportedSystem   the system lacks a call that is needed
    ├── ListenError         a socket cannot be bound, or failed later
    └── ReplayRefused       captures cannot be sent as asked

Anything less than that is counted, not raised: see `schema.DecodeError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collector.schema import DecodeError


class CollectorError(Exception):
    """Base of all errors of this package."""


class CaptureError(CollectorError):
    """A file that is no capture, or that the system will not let us read."""

    def __init__(self, file: Path, offset: int, reason: str) -> None:
        super().__init__(f"{file}: offset {offset}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason


class NothingReadError(CollectorError):
    """No capture of the window could be read; `errors` says why, one by one."""

    def __init__(self, errors: Sequence[DecodeError]) -> None:
        lines = [f"{e.file}: offset {e.offset or 0}: {e.reason}" for e in errors]
        super().__init__("; ".join(lines) or "no capture given")
        self.errors = tuple(errors)


class InventoryError(CollectorError):
    """An inventory that contradicts itself or has the wrong shape, at `key` of `file`."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}" if key else f"{file}: {reason}")
        self.file = file
        self.key = key
        self.reason = reason


class StoreError(CollectorError):
    """A directory that cannot be used as a store."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(f"{directory}: {reason}")
        self.directory = directory
        self.reason = reason


class UnsupportedSystem(CollectorError):
    """What is asked for needs a system call that is not there."""


class ListenError(CollectorError):
    """Nothing can be received at `address`, as in "udp [::]:6343"."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class ReplayRefused(CollectorError):
    """Sending these captures as asked would give wrong times."""
