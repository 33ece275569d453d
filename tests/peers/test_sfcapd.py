"""The same datagrams to ringscope and to sfcapd (nfdump 1.7), by UDP."""

from __future__ import annotations

import csv
import subprocess
from collections import Counter
from pathlib import Path

from tests.peers.programs import deliver, free_port, installed, listening
from tests.peers.traffic import Flow, Volume, mixed, received, volume

PROTOCOLS = {"TCP": 6, "UDP": 17}


def nfdump(folder: Path) -> Volume:
    """Every flow record that sfcapd wrote."""
    command = ["nfdump", "-N", "-R", str(folder), "-o", "csv"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = Volume(Counter(), Counter())
    lines = done.stdout.splitlines()
    for row in csv.DictReader(lines[: lines.index("Summary")]):
        flow = Flow(row["sa"], row["da"], int(row["sp"]), int(row["dp"]), PROTOCOLS[row["pr"]])
        found.packets[flow] += int(row["ipkt"])
        found.frame_bytes[flow] += int(row["ibyt"])
    return found


def test_flows_and_volumes_are_those_of_sfcapd(tmp_path: Path) -> None:
    installed("sfcapd", "nfdump")
    traffic, port, folder = mixed(), free_port(), tmp_path / "flows"
    folder.mkdir()
    command = ["sfcapd", "-4", "-b", "127.0.0.1", "-p", str(port), "-w", str(folder), "-t", "3600"]
    with listening(command, port, tmp_path / "sfcapd.log"):
        deliver(traffic.payloads, port)
    theirs = nfdump(folder)
    flows, ingest = received(traffic.payloads)
    ours = volume(flows)
    assert len(flows) == traffic.samples
    assert ours == traffic.truth
    assert theirs == ours, (tmp_path / "sfcapd.log").read_text()
    told = ingest.telemetry([])
    assert (told.lost_datagrams, [x.lost_samples for x in told.exporters]) == (0, [0, 0, 0])
    assert "Sequence Errors: 0" in (tmp_path / "sfcapd.log").read_text()
