"""What is compiled before the first datagram is all that it needs."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY

# The signatures that every kernel of the collector has been compiled for, before and after real
# datagrams have been received.
MAIN = """
import gc, socket, sys, time
from pathlib import Path
from numba.core.registry import CPUDispatcher
from collector.allow import AllowList
from collector.intake import Intake
from collector.store import Store
from collector.udp import UdpReceiver
from collector.warm import warm
from tests.collector import encode as e

def compiled():
    return {
        f"{k.__module__}.{k.__name__}": len(k.signatures)
        for k in gc.get_objects()
        if isinstance(k, CPUDispatcher) and k.__module__.startswith("collector")
    }

warm()
before = compiled()
receiver = UdpReceiver("127.0.0.1", 0)
receiver.start()
frame = e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64)
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sending.connect(("127.0.0.1", receiver.port))
with Store(Path(sys.argv[1])) as store:
    intake = Intake(receiver, AllowList(()), store, 5.0)
    for number in range(1, 4):
        samples = [
            e.flow_sample(e.timestamp(time.time_ns()), e.raw_header(frame), sequence=number)
        ]
        sending.send(e.datagram(*samples, sequence=number))
    rows = 0
    while rows < 3:
        rows += len(intake.take(1.0).flows)
    receiver.stop()
after = compiled()
print({name: n for name, n in after.items() if n != before.get(name, 0)})
"""


def test_nothing_is_compiled_once_datagrams_arrive(tmp_path: object) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MAIN, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("{}\n", "")
