"""``python -m tests.testbed CASE SEED FOLDER``, inside a room: run a case, see `rooms.inside`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.testbed.cases import BY_NAME
from tests.testbed.scene import play

if __name__ == "__main__":
    name, seed, folder = sys.argv[1:]
    play(BY_NAME[name], int(seed), Path(folder))
