"""Analyse one window in one go: captures, or a store, in; its analysis out."""

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
        pcap, pcapng or IPFIX files, also gzip, or tables of transfers, in any order.
    inventory
        TOML file that names hosts, NICs and switches; without it hosts are inferred.
    on_progress
        Called now and then with (bytes read, bytes in all).

    Raises
    ------
    NothingToAnalyze
        If the captures hold no datagram and no transfer at all.
    collector.errors.CollectorError
        If no capture, or the inventory, can be read.
    """
    from collector.ingest import ingest
    from patterns.analyse import analyse_window

    known = Inventory() if inventory is None else read_inventory(inventory)
    telemetry = ingest(captures, on_progress)
    if telemetry.datagrams == 0 and not len(telemetry.records):
        names = ", ".join(str(path) for path in captures)
        reasons = "".join(f"; {error.reason}" for error in telemetry.errors)
        raise NothingToAnalyze(f"{names}: no telemetry datagrams found{reasons}")
    return analyse_window(telemetry, known), telemetry


def analyze_stored(
    directory: Path,
    start_ns: int | None = None,
    end_ns: int | None = None,
    inventory: Path | None = None,
) -> tuple[Analysis, Telemetry]:
    """Analyse a window of a store.

    Parameters
    ----------
    directory
        A store; it may be written meanwhile.
    start_ns, end_ns
        The window in ns since the epoch, without its end; None leaves a side open.
    inventory
        As for `analyze`.

    Raises
    ------
    NothingToAnalyze
        If the store holds no sample of that time.
    collector.errors.CollectorError
        If the directory is no store, or the inventory cannot be read.
    """
    from collector.store import read
    from patterns.analyse import analyse_window

    known = Inventory() if inventory is None else read_inventory(inventory)
    telemetry = read(directory, start_ns, end_ns)
    if not any(map(len, (telemetry.flows, telemetry.counters, telemetry.records))):
        reasons = "".join(f"; {error.file}: {error.reason}" for error in telemetry.errors)
        raise NothingToAnalyze(f"{directory}: no samples of that time{reasons}")
    return analyse_window(telemetry, known), telemetry
