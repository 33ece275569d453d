"""Programs over torch with Gloo, see `programs/train.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.testbed.hosts import Host
from tests.testbed.rooms import PROJECT

PROGRAM = Path(__file__).parent / "programs" / "train.py"
PYTHON = PROJECT / ".venv" / "testbed" / "bin" / "python"  # made by `make testbed`


def command(placed: Sequence[Host], rank: int, port: int, words: Sequence[str]) -> list[str]:
    """What starts one rank on its host.

    Parameters
    ----------
    placed : the host of each rank.
    rank : which of them.
    port : where rank 0 meets the others.
    words : arguments of the program.
    """
    settings = {
        "GLOO_SOCKET_IFNAME": "eth0",
        "MASTER_ADDR": placed[0].address,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(len(placed)),
        "OMP_NUM_THREADS": "1",
        "HOME": os.environ.get("HOME", "/"),
    }
    env = [f"{name}={value}" for name, value in settings.items()]
    return placed[rank].command(["env", *env, str(PYTHON), str(PROGRAM), *words])
