"""A ring of RDMA writes without RDMA: made frames, sent by tcpreplay from each rank's own host.

The bytes are those that `fixtures` writes into samples; here a real switch takes the samples.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fixtures.packets import (
    FCS_BYTES,
    PACKET,
    ROCE_PORT,
    SAMPLED_BYTES,
    UDP,
    Opcode,
    frame_bytes,
    headers,
)
from fixtures.pcap import FILE_HEADER, RECORD_BYTES
from tests.testbed.flushing import frames
from tests.testbed.hosts import Host
from tests.testbed.shell import run

PATH_MTU = 4096
MESSAGE_PACKETS = 32
MESSAGES = 4  # of each turn
BURST = 0.4  # of a turn
FIRST_QP = 0x100
REPLAY = Path(__file__).parent / "programs" / "replay.py"


def write(placed: Sequence[Host], turns: int, turn_ms: int, folder: Path) -> list[list[Path]]:
    """All that each rank sends, a capture per turn; hosts become deaf and dumb otherwise.

    Parameters
    ----------
    placed : the host of each rank; each sends to the next one's.
    turns, turn_ms : how many turns of the loop, and how long each.
    """
    macs = [_mac(host) for host in placed]
    for host in placed:
        # Nobody listens; without an address, no kernel complains of that to the sender.
        run(["ip", "netns", "exec", host.name, "ip", "address", "flush", "dev", "eth0"])
    out: list[list[Path]] = []
    for rank in range(len(placed)):
        after, before = (rank + 1) % len(placed), rank - 1
        data, data_ns = _writes(turns, turn_ms)
        acks, acks_ns = _acknowledgements(turns, turn_ms)
        for packets, to in ((data, after), (acks, before)):
            packets["src"] = int(IPv4Address(placed[rank].address))
            packets["dst"] = int(IPv4Address(placed[to].address))
            packets["src_mac"], packets["dst_mac"] = macs[rank], macs[to]
            packets["dest_qp"] = FIRST_QP + to
        packets = np.concatenate([data, acks])
        due_ns = np.concatenate([data_ns, acks_ns])
        turn = due_ns // (turn_ms * 1_000_000)
        out.append([folder / f"frames-{rank}-{k}.pcap" for k in range(turns)])
        for k, path in enumerate(out[-1]):
            _save(path, packets[turn == k], due_ns[turn == k], seed=rank)
    return out


def command(host: Host, frames: Sequence[Path], first_ns: int, turn_ms: int) -> list[str]:
    """What sends a host's frames, each turn's when it is due: the first one's at `first_ns`."""
    when = [str(first_ns), str(turn_ms)]
    return host.command([sys.executable, str(REPLAY), *when, *map(str, frames)])


def write_clocks(ports: Sequence[Path], turns: int, folder: Path) -> None:
    """What programs' clocks would say: when each rank's frames really came by.

    Parameters
    ----------
    ports : of each rank, a capture of what its host sent.
    turns : how many were due.
    folder : where clocks are kept.
    """
    for rank, port in enumerate(ports):
        seen = [(key[2], at) for key, at in frames(port) if key[0] != Opcode.ACKNOWLEDGE]
        number, at = np.array(seen, np.int64).T
        turn = number // (MESSAGES * MESSAGE_PACKETS)
        rows = [at[turn == k] for k in range(turns)]
        lines = [f"{row.min()} {row.min()} {row.max()}\n" for row in rows]
        (folder / f"clock-{rank}").write_text("".join(lines))


def _mac(host: Host) -> int:
    links = run(["ip", "netns", "exec", host.name, "ip", "-j", "link", "show", "dev", "eth0"])
    return int(json.loads(links)[0]["address"].replace(":", ""), 16)


def _writes(turns: int, turn_ms: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Packets of one rank's writes, and when each is due."""
    each = MESSAGES * MESSAGE_PACKETS
    number = np.arange(turns * each)
    packets = _blank(len(number))
    place = number % MESSAGE_PACKETS
    packets["opcode"] = Opcode.WRITE_MIDDLE
    packets["opcode"][place == 0] = Opcode.WRITE_FIRST
    packets["opcode"][place == MESSAGE_PACKETS - 1] = Opcode.WRITE_LAST_IMM
    packets["ack_request"] = place == MESSAGE_PACKETS - 1
    packets["payload"] = PATH_MTU
    packets["dma_bytes"] = MESSAGE_PACKETS * PATH_MTU
    packets["seq"] = number
    due = number // each + BURST * (number % each) / each
    return packets, (due * turn_ms * 1e6).astype(np.int64)


def _acknowledgements(turns: int, turn_ms: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """One of each message that the rank before sent."""
    message = np.arange(turns * MESSAGES)
    packets = _blank(len(message))
    packets["opcode"] = Opcode.ACKNOWLEDGE
    packets["seq"] = (message + 1) * MESSAGE_PACKETS - 1
    packets["msn"] = message + 1
    due = message // MESSAGES + BURST * (message % MESSAGES + 1) / MESSAGES
    return packets, (due * turn_ms * 1e6).astype(np.int64)


def _blank(count: int) -> NDArray[np.void]:
    packets = np.zeros(count, PACKET)
    packets["protocol"], packets["ttl"], packets["ecn"] = UDP, 64, 2
    packets["src_port"], packets["dst_port"] = 49_152, ROCE_PORT
    return packets


def _save(path: Path, packets: NDArray[np.void], due_ns: NDArray[np.int64], seed: int) -> None:
    """Whole frames by the time they are due; what no sample holds of them is zero."""
    order = np.argsort(due_ns, kind="stable")
    packets, due_ns = packets[order], due_ns[order]
    rows, _ = headers(packets, np.random.default_rng(seed))
    length = frame_bytes(packets) - FCS_BYTES
    seconds, nanoseconds = np.divmod(due_ns, 1_000_000_000)
    record = np.stack([seconds, nanoseconds, length, length], axis=1).astype("<u4")
    heads = record.view(np.uint8).reshape(-1, RECORD_BYTES)
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for head, row, size in zip(heads, rows, length.tolist(), strict=True):
            file.write(head.tobytes())
            file.write(row[: min(size, SAMPLED_BYTES)].tobytes())
            file.write(bytes(max(0, size - SAMPLED_BYTES)))
