"""The switch: Open vSwitch in userspace with its own database, sFlow and counters by address pair.

Daemons of Open vSwitch keep everything in one folder here, so that they meet no other.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.hosts import Host
from tests.testbed.shell import run, running

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
BRIDGE = "br0"
AGENT = "127.0.0.1"
COUNTERS_LAG_S = 1.2  # a datapath flow's counters reach the OpenFlow ones about once a second
PATIENCE_S = 20.0
HEADER_BYTES = 128
POLLING_S = 1
CACHED_FLOWS = 65_536


@dataclass(frozen=True, slots=True)
class Switch:
    """A running switch; made by `switch`."""

    folder: Path
    hosts: Sequence[Host]

    def vsctl(self, *words: str) -> str:
        return run(["ovs-vsctl", f"--db=unix:{self.folder}/db.sock", *words], env=self._env)

    def ofctl(self, *words: str) -> str:
        return run(["ovs-ofctl", *words], env=self._env)

    @property
    def _env(self) -> dict[str, str]:
        return environment(self.folder)

    def sample(self, rate: int, targets: Sequence[str]) -> None:
        """Start the sFlow agent anew: one packet in `rate`, to all of `targets` (address:port)."""
        quoted = ",".join(f'"{target}"' for target in targets)
        create = ["--id=@s", "create", "sflow", "agent=lo", f"target=[{quoted}]"]
        values = [f"sampling={rate}", f"polling={POLLING_S}", f"header={HEADER_BYTES}"]
        self.vsctl("--", *create, *values, "--", "set", "bridge", BRIDGE, "sflow=@s")

    def resample(self, rate: int) -> None:
        """Change the running agent's sampling rate."""
        agent = self.vsctl("get", "bridge", BRIDGE, "sflow").strip()
        self.vsctl("set", "sflow", agent, f"sampling={rate}")

    def silence(self) -> None:
        """Stop the sFlow agent."""
        self.vsctl("clear", "bridge", BRIDGE, "sflow")

    def record(self, rate: int, active_s: int, target: str) -> None:
        """Start exporting flow records: one packet in `rate`, as it enters and as it leaves."""
        create = ["--id=@i", "create", "IPFIX", f'targets="{target}"', "obs_domain_id=1"]
        values = ["obs_point_id=1", f"sampling={rate}", f"cache_active_timeout={active_s}"]
        values += [f"cache_max_flows={CACHED_FLOWS}"]
        self.vsctl("--", *create, *values, "--", "set", "bridge", BRIDGE, "ipfix=@i")

    def forget_records(self) -> None:
        """Stop exporting flow records, with all that the cache still holds told."""
        self.vsctl("clear", "bridge", BRIDGE, "ipfix")

    def count(self) -> None:
        """Count frames and bytes by source and destination address from now on."""
        pairs = itertools.permutations((host.address for host in self.hosts), 2)
        flows = [f"priority=10,ip,nw_src={src},nw_dst={dst},actions=NORMAL" for src, dst in pairs]
        listed = self.folder / "flows.txt"
        listed.write_text("\n".join(["priority=0,actions=NORMAL", *flows]) + "\n")
        self.ofctl("replace-flows", BRIDGE, str(listed))

    def matrix(self) -> dict[str, int]:
        """Frame bytes so far by "source>destination", those of silent pairs left out."""
        time.sleep(COUNTERS_LAG_S)
        counted = re.findall(
            r"n_bytes=(\d+),.*nw_src=([\d.]+),nw_dst=([\d.]+)", self.ofctl("dump-flows", BRIDGE)
        )
        return {f"{src}>{dst}": int(count) for count, src, dst in counted if int(count)}

    def interface_numbers(self) -> dict[str, int]:
        """ifIndex by port name, which is how sFlow names ports."""
        links = json.loads(run(["ip", "-j", "link"]))
        ports = {host.port for host in self.hosts}
        return {link["ifname"]: link["ifindex"] for link in links if link["ifname"] in ports}


def environment(folder: Path) -> dict[str, str]:
    """The environment in which Open vSwitch's programs stay inside `folder`."""
    names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
    return os.environ | {name: str(folder) for name in names}


@contextmanager
def switch(folder: Path, hosts: Sequence[Host], mtu: int) -> Iterator[Switch]:
    """A switch with a port for each host, which has to be built before."""
    folder.mkdir(parents=True)
    env, log = environment(folder), folder / "daemons.log"
    run(["ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA], env=env)
    database = ["ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock"]
    daemon = ["ovs-vswitchd", f"unix:{folder}/db.sock"]
    with ExitStack() as stack:
        stack.enter_context(running([*database, "-vconsole:warn"], log, env=env))
        await_file(folder / "db.sock")
        built = Switch(folder, hosts)
        built.vsctl("--no-wait", "init")
        stack.enter_context(running([*daemon, "-vconsole:warn"], log, env=env))
        bridge = ["--", "set", "bridge", BRIDGE, "datapath_type=netdev"]
        built.vsctl("add-br", BRIDGE, *bridge)
        for host in hosts:
            port = ["--", "set", "interface", host.port, f"mtu_request={mtu}"]
            built.vsctl("add-port", BRIDGE, host.port, *port)
        built.count()
        yield built


def await_file(path: Path) -> None:
    """Wait until there is such a file.

    Raises
    ------
    TimeoutError
    """
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"no {path} after {PATIENCE_S} s")
        time.sleep(0.02)
