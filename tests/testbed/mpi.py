"""Programs over OpenMPI, the algorithm of each collective forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.testbed.hosts import Host
from tests.testbed.shell import run

SOURCE = Path(__file__).parent / "programs" / "loop.c"

# Ranks meet over TCP on the port of the switch and nowhere else, and let each other run: there
# are more of them than cores.
OVER_THE_SWITCH = {
    "plm_rsh_no_tree_spawn": "1",
    "pml": "ob1",
    "btl": "tcp,self",
    "btl_tcp_if_include": "eth0",
    "oob_tcp_if_include": "eth0",
    "mpi_yield_when_idle": "1",
    "coll_tuned_use_dynamic_rules": "1",
}


def build(folder: Path) -> Path:
    """The compiled loop, see `programs/loop.c`."""
    program = folder / "loop"
    run(["mpicc", "-O2", "-o", str(program), str(SOURCE)])
    return program


def command(
    placed: Sequence[Host], forced: Mapping[str, int], words: Sequence[str], folder: Path
) -> list[str]:
    """What starts `words` as one rank per host, in their order: `mpirun`, on the first of them.

    Parameters
    ----------
    placed : the host of each rank.
    forced : values of OpenMPI's ``coll_tuned_`` parameters.
    words : the program and its arguments.
    folder : where to keep the script by which `mpirun` reaches other hosts.
    """
    reach = folder / "reach"
    # The first word is the host; the rest is one command for a shell.
    reach.write_text(
        "#!/bin/sh\nhost=$1; shift\n"
        'exec ip netns exec "$host" unshare --uts '
        'sh -c "echo $host > /proc/sys/kernel/hostname; $*"\n'
    )
    reach.chmod(0o755)
    settings = OVER_THE_SWITCH | {"plm_rsh_agent": str(reach)}
    settings |= {f"coll_tuned_{name}": str(value) for name, value in forced.items()}
    options = [word for name, value in settings.items() for word in ("--mca", name, value)]
    everywhere = ["--allow-run-as-root", "--bind-to", "none", "--map-by", "node"]
    hosts = ",".join(host.name for host in placed)
    return placed[0].command(["mpirun", *everywhere, *options, "--host", hosts, *words])
