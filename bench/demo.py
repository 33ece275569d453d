"""Make a labelled capture, or take it from the cache, and run `ringscope demo` on it.

    python -m bench.demo [SCENARIO] [--seed N] [--level rich|normal|starved] [OPTION...]

What it does not know itself is handed to the command, as ``--keep``. The exit code is the
command's: 0 where truth and result agree, 1 where they differ, 2 where nothing could be compared.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence

from bench.captures import ROOT, CaptureFailed, capture
from fixtures.scenarios import LEVELS, SCENARIOS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, once there is a capture; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenario", nargs="?", default="demo_fabric", choices=SCENARIOS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", choices=LEVELS, default="rich")
    chosen, others = parser.parse_known_args(argv)
    asked = f"{chosen.scenario}, seed {chosen.seed}, {chosen.level}"
    print(f"Making the capture {asked} ...", flush=True)
    try:
        made = capture(chosen.scenario, chosen.seed, chosen.level)
    except (CaptureFailed, OSError) as error:
        print(f"no capture: {error}", file=sys.stderr)
        return 2
    command = ["demo", str(made.folder), *others]
    print(f"$ ringscope {' '.join(command)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "api", *command], cwd=ROOT)
    # Ctrl-C is for the command to see to, which gets it too.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
