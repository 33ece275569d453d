"""Analyse captures in one go: files in, one window's analysis out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors import NothingToAnalyze
from collector.inventory import Inventory, read_inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from collector.schema import Telemetry
    from patterns.result import Analysis


def analyze(
    captures: Sequence[Path],
    inventory: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Analysis, Telemetry]:
    """Read captures that make one window, and analyse it.

    Parameters
    ----------
    captures
        pcap or pcapng files, also gzip, in any order.
    inventory
        TOML file that names hosts, NICs and switches; without it hosts are inferred.
    on_progress
        Called now and then with (bytes read, bytes in all).

    Raises
    ------
    NothingToAnalyze
        If the captures hold no datagram at all.
    collector.errors.CollectorError
        If no capture, or the inventory, can be read.
    """
    from collector.ingest import ingest
    from patterns.analyse import analyse_window

    known = Inventory() if inventory is None else read_inventory(inventory)
    telemetry = ingest(captures, on_progress)
    if telemetry.datagrams == 0:
        names = ", ".join(str(path) for path in captures)
        reasons = "".join(f"; {error.reason}" for error in telemetry.errors)
        raise NothingToAnalyze(f"{names}: no telemetry datagrams found{reasons}")
    return analyse_window(telemetry, known), telemetry
