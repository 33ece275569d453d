"""What runs on the testbed, and what it draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.testbed import disturbances, shapes
from tests.testbed.disturbances import Play
from tests.testbed.recorders import RECORDERS, Recorder
from tests.testbed.shapes import Drawn


@dataclass(frozen=True, slots=True)
class Program:
    """A training-like loop on some hosts.

    Parameters
    ----------
    drawn : its groups over ranks; none for a program that is no job.
    over : what carries it: OpenMPI, torch's Gloo, or made RoCEv2 frames.
    words : the collectives of one turn, or how the model is spread (`programs/`).
    turns : how often.
    turn_ms : how long a turn takes, if its communication takes less than a quarter of that (Gloo:
        four fifths). Else what this machine happens to do makes steps longer and shorter.
    floats : size of the collectives, of MPI only.
    forced : OpenMPI's ``coll_tuned_`` settings.
    sizes : the true parallel dimensions.
    ends : whether an iteration ends with a gradient-reducing transfer; else it begins with its
        first transfer.
    ranks : how many.
    """

    drawn: tuple[Drawn, ...]
    over: Literal["mpi", "gloo", "roce"]
    words: str
    turns: int = 40
    turn_ms: int = 800
    floats: int = 1 << 18
    forced: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    ends: bool = True
    ranks: int = 8


@dataclass(frozen=True, slots=True)
class Case:
    """What runs at once.

    Parameters
    ----------
    name : of the case.
    programs : each on hosts of its own.
    sampling : the switch takes one packet in so many.
    bulk : whether a plain bulk transfer runs as well, for as long as nothing else does.
    live : whether a service listens, too.
    watched : whether frames are captured at the switch's ports, too.
    probed : whether pmacctd's sfprobe samples every port, too.
    recorder : what tells of flows, in place of the switch's samples.
    disturb : what goes wrong; for a case of one program over OpenMPI.
    mtu : of every link.
    hosts : on the switch.
    """

    name: str
    programs: tuple[Program, ...]
    sampling: int = 10
    bulk: bool = False
    live: bool = False
    probed: bool = False
    watched: bool = False
    recorder: Recorder | None = None
    disturb: Callable[[Play], None] | None = None
    mtu: int = 9000
    hosts: int = 8


ALL = tuple(range(8))
DOWN = ALL[::-1]
DP = {"dp": 8, "pp": 1}


def _mpi(words: str, *drawn: Drawn, ends: bool = True, **forced: int) -> Program:
    return Program(drawn, "mpi", words, forced=forced, ends=ends)


RING = _mpi("allreduce", shapes.ring(ALL), allreduce_algorithm=4)

DP_PP = Program(
    (
        shapes.ring((3, 2, 1, 0)),
        shapes.ring((7, 6, 5, 4)),
        *(shapes.chain((rank, rank + 4)) for rank in range(4)),
    ),
    "gloo",
    "dp_pp",
    turn_ms=1500,
    sizes={"dp": 4, "pp": 2},
)

SERVER = _mpi("server")

ROCE = Program((shapes.ring(ALL),), "roce", "")

CASES = (
    Case("mpi-ring", (RING,)),
    Case(
        "mpi-segmented-ring",
        (
            _mpi(
                "allreduce",
                shapes.ring(ALL),
                allreduce_algorithm=5,
                allreduce_algorithm_segmentsize=65536,
            ),
        ),
    ),
    Case(
        "mpi-recursive-doubling",
        (_mpi("allreduce", shapes.hypercube(8, "recursive_doubling"), allreduce_algorithm=3),),
    ),
    Case(
        "mpi-rabenseifner",
        (_mpi("allreduce", shapes.hypercube(8, "rabenseifner"), allreduce_algorithm=6),),
    ),
    Case(
        "mpi-zero",
        (
            _mpi(
                "reduce_scatter,allgather",
                shapes.ring(ALL, "reduce_scatter+all_gather"),
                reduce_scatter_algorithm=3,
                allgather_algorithm=4,
                ends=False,
            ),
        ),
    ),
    Case(
        "mpi-reduce-scatter",
        (_mpi("reduce_scatter", shapes.ring(ALL, "reduce_scatter"), reduce_scatter_algorithm=3),),
    ),
    Case(
        "mpi-allgather-ring",
        (
            _mpi(
                "allgather",
                shapes.ring(ALL, "all_gather", "unknown", told=False),
                allgather_algorithm=4,
                ends=False,
            ),
        ),
    ),
    Case(
        "mpi-allgather-bruck",
        (_mpi("allgather", shapes.leaps(8, "all_gather"), allgather_algorithm=2, ends=False),),
    ),
    Case(
        "mpi-bcast-binomial",
        (
            _mpi(
                "bcast",
                shapes.broadcast(shapes.binomial(8), "binomial"),
                bcast_algorithm=6,
                ends=False,
            ),
        ),
    ),
    Case(
        "mpi-bcast-chain",
        (
            _mpi(
                "bcast",
                shapes.broadcast(shapes.fan_of_chains(8, 4), "chain"),
                bcast_algorithm=2,
                ends=False,
            ),
        ),
    ),
    Case(
        "mpi-bcast-pipeline",
        (_mpi("bcast", shapes.forwarding(ALL), bcast_algorithm=3, ends=False),),
    ),
    Case(
        "mpi-pipeline",
        (
            _mpi(
                "reduce,bcast",
                shapes.chain(ALL, "all_reduce", "dp"),
                reduce_algorithm=3,
                bcast_algorithm=3,
            ),
        ),
    ),
    Case(
        "mpi-alltoall-pairwise",
        (_mpi("alltoall", shapes.everyone(ALL), alltoall_algorithm=2, ends=False),),
    ),
    Case(
        "mpi-alltoall-bruck",
        (_mpi("alltoall", shapes.leaps(8, "all_to_all"), alltoall_algorithm=3, ends=False),),
    ),
    Case("mpi-double-tree", (_mpi("double_tree", shapes.double_tree(8)),)),
    Case("gloo-ddp", (Program((shapes.ring(DOWN),), "gloo", "ddp", sizes=DP),)),
    Case(
        "gloo-fsdp",
        (
            Program(
                (shapes.ring_both_ways(DOWN, "reduce_scatter+all_gather"),),
                "gloo",
                "fsdp",
                turn_ms=1200,
                sizes=DP,
            ),
        ),
    ),
    Case(
        "gloo-pp",
        (
            Program(
                (shapes.chain(ALL),),
                "gloo",
                "pp",
                turn_ms=2500,
                sizes={"dp": 1, "pp": 8},
                ends=False,
            ),
        ),
    ),
    Case("gloo-dp-pp", (DP_PP,)),
    Case(
        "gloo-tp-dp",
        (
            Program(
                (
                    shapes.ring((6, 4, 2, 0)),
                    shapes.ring((7, 5, 3, 1)),
                    *(
                        shapes.ring((rank, rank + 1), kind="tp", told=False)
                        for rank in (0, 2, 4, 6)
                    ),
                ),
                "gloo",
                "tp_dp",
                turn_ms=1000,
                sizes={"dp": 4, "tp": 2, "pp": 1},
            ),
        ),
    ),
    Case(
        "gloo-ep-dp",
        (
            Program(
                (shapes.ring(DOWN), shapes.everyone(ALL, "ep")),
                "gloo",
                "ep_dp",
                sizes={"dp": 8, "ep": 8, "pp": 1},
            ),
        ),
    ),
    Case(
        "two-jobs",
        (
            Program(
                (shapes.ring((0, 1, 2, 3)),),
                "mpi",
                "allreduce",
                forced={"allreduce_algorithm": 4},
                ranks=4,
            ),
            Program(
                (shapes.ring((0, 1, 2, 3)),),
                "mpi",
                "allreduce",
                forced={"allreduce_algorithm": 4},
                ranks=4,
                turn_ms=1000,
                turns=30,
            ),
        ),
    ),
    Case("roce-ring", (ROCE,), watched=True),
    Case("roce-ring-thin", (ROCE,), sampling=100, watched=True),
    Case("two-agents", (RING,), probed=True),
    Case("iperf", (), bulk=True, sampling=200),
    Case("halo", (_mpi("halo"),)),
    Case("parameter-server", (SERVER,)),
    *(
        Case(f"records-{recorder}-{name}", (program,), recorder=recorder)
        for recorder in RECORDERS
        for name, program in (("ring", RING), ("dp-pp", DP_PP), ("server", SERVER))
    ),
    # Its pauses are longer than the switch's records.
    Case("records-switch-slow", (replace(RING, turns=20, turn_ms=3000),), recorder="switch"),
    *(
        Case(
            name,
            (replace(RING, turns=turns, turn_ms=600),),
            live=True,
            disturb=disturb,
        )
        for name, turns, disturb in (
            ("undisturbed", 90, None),
            ("shaped-port", 90, disturbances.shaped_port),
            ("stopped-rank", 90, disturbances.stopped_rank),
            ("hung-rank", 90, disturbances.hung_rank),
            ("restarted-job", 50, disturbances.restarted_job),
            ("restarted-exporter", 90, disturbances.restarted_exporter),
            ("coarser-sampling", 90, disturbances.coarser_sampling),
        )
    ),
)
BY_NAME = {case.name: case for case in CASES}
