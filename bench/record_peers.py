"""What other decoders of IPFIX take for a record, where they are installed.

Those of PyPI live in a folder of their own, as nothing else needs them:

    .venv/bin/pip install --target .venv/decoders netflow==0.12.2 netflume==0.6.0 ipfix==0.9.7
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench.peers import Cost, processor_time, write_capture

FOLDER: Final = Path(__file__).resolve().parent.parent / ".venv" / "decoders"
# Each reads all `messages` and says how many records they held.
DECODERS: Final[dict[str, str]] = {
    "netflow 0.12.2": """
import netflow
templates = {"netflow": {}, "ipfix": {}}
def read():
    return sum(len(netflow.parse_packet(message, templates).flows) for message in messages)
""",
    "netflume 0.6.0": """
import netflume
store = netflume.TemplateStore()
def read():
    return sum(len(netflume.parse_message(m, "192.0.2.1", store)[1]) for m in messages)
""",
    "ipfix 0.9.7": """
import ipfix
import ipfix.ie, ipfix.message
ipfix.ie.use_iana_default()
def read():
    buffer = ipfix.message.MessageBuffer()
    count = 0
    for message in messages:
        buffer.from_bytes(message)
        for record in buffer.namedict_iterator():
            count += 1
    return count
""",
}
_FRAME: Final = """
import pickle, sys, time
sys.path.insert(0, sys.argv[1])
messages = pickle.load(open(sys.argv[2], "rb"))
{code}
began = time.process_time()
count = read()
print(count, time.process_time() - began)
"""
_SHORT, _LONG = 5_000, 25_000  # datagrams of a capture


def decoder(name: str, messages: Sequence[bytes], records: int) -> Cost | None:
    """A decoder of PyPI, in a process of its own.

    Parameters
    ----------
    name
        One of `DECODERS`.
    messages
        In order; they hold so many `records`, and all must be read.

    Returns
    -------
    Cost or None
        None: it is not installed, or cannot read them.
    """
    if not (FOLDER / name.split(" ")[0]).is_dir():
        return None
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump(list(messages), file)
        file.flush()
        program = _FRAME.format(code=DECODERS[name])
        command = [sys.executable, "-W", "ignore", "-c", program, str(FOLDER), file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} fails: {done.stderr.strip().splitlines()[-1]}")
    count, took_s = done.stdout.split()[-2:]
    if int(count) != records:
        raise SystemExit(f"{name} reads {count} records of {records}")
    return Cost(float(took_s) / records, None)


def nfacctd(folder: Path, encode: Callable[[int], bytes], records: int) -> Cost | None:
    """Pmacct's daemon, adding up by addresses, ports and protocol, from captures.

    Parameters
    ----------
    encode
        Makes the message of a number; each holds so many `records`.
    """
    took = []
    for datagrams in (_SHORT, _LONG):
        capture = folder / f"{datagrams}.pcap"
        write_capture(capture, [encode(number) for number in range(datagrams)])
        keys = "src_host,dst_host,src_port,dst_port,proto"
        table = ["-P", "print", "-c", keys, "-O", "csv", "-o", str(folder / "table.csv")]
        spent = processor_time(["nfacctd", "-I", str(capture), *table])
        if spent is None:
            return None
        took.append(spent)
    whole, user = np.subtract(took[1], took[0]) / ((_LONG - _SHORT) * records)
    return Cost(float(whole), float(user))
