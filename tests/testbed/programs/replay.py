"""Sends the frames of one turn after the other: ``replay.py FIRST_NS TURN_MS CAPTURE...``.

tcpreplay alone falls behind, each sender by something else, and a job whose ranks drift apart is
none.
"""

from __future__ import annotations

import subprocess
import sys
import time

SEND = ("tcpreplay", "--intf1=eth0", "--timer=nano", "--quiet")


def main() -> None:
    first_ns, turn_ms, captures = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    for turn, capture in enumerate(captures):
        due_ns = first_ns + turn * turn_ms * 1_000_000
        time.sleep(max(0, due_ns - time.time_ns()) / 1e9)
        subprocess.run([*SEND, capture], check=True, capture_output=True)


if __name__ == "__main__":
    main()
