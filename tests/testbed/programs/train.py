"""A training-like loop over torch and Gloo, as one rank: ``train.py WAY TURNS TURN_MS FOLDER``.

It runs alone in an environment with torch, one process per host; rank, world size and meeting point
come from torch's own variables. Each rank appends one line per turn to ``FOLDER/clock-RANK``: when
the turn began, when communication began and when it had ended here, in nanoseconds since the epoch.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH = 1024
TENSOR_PARALLEL = 2
STAGES = 2  # of a pipeline beside data parallelism
MICRO_BATCHES = 8
FORWARD_S, BACKWARD_S = 0.03, 0.06  # of one micro-batch in one stage
SAMPLE_ROWS = 256  # of an activation between stages
TENSOR_FLOATS = 1 << 18  # of an activation that tensor parallelism reduces
LAYERS = 4
JITTER = 0.01  # of a turn, equal on all ranks
LEAST_SHARE = 0.2  # of a turn: no step follows the one before at once

Turn = Callable[[], None]


def stack(layers: int) -> nn.Sequential:
    """A model of `layers` square layers."""
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)])


def steps(model: nn.Module) -> Turn:
    """Forward, backward and optimiser of one small batch; wrappers of `model` communicate."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)

    def turn() -> None:
        model(torch.ones(1, WIDTH)).sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    return turn


def group_of(groups: list[list[int]]) -> dist.ProcessGroup:
    """This rank's own among `groups`, all of which every rank has to make."""
    made = [(ranks, dist.new_group(ranks)) for ranks in groups]
    return next(group for ranks, group in made if dist.get_rank() in ranks)


def data_parallel() -> Turn:
    return steps(DistributedDataParallel(stack(2)))


def sharded() -> Turn:
    model = stack(2)
    for layer in model:
        fully_shard(layer)
    return steps(fully_shard(model))


def pipeline(ranks: list[int]) -> Turn:
    """One forward, one backward over the stages `ranks` (Narayanan et al. 2019, PipeDream)."""
    stage, stages = ranks.index(dist.get_rank()), len(ranks)
    before = ranks[stage - 1] if stage else None
    after = ranks[stage + 1] if stage + 1 < stages else None
    layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def turn() -> None:
        sent: list[tuple[dist.Work, torch.Tensor]] = []
        held: list[tuple[torch.Tensor, torch.Tensor]] = []

        def send(tensor: torch.Tensor, to: int | None) -> None:
            # Neighbours that both wait for their own sends to be taken would wait for ever.
            if to is not None:
                sent.append((dist.isend(tensor.detach().contiguous(), to), tensor))

        def forward() -> None:
            given = torch.ones(SAMPLE_ROWS, WIDTH)
            if before is not None:
                dist.recv(given, before)
            given.requires_grad_()
            time.sleep(FORWARD_S)
            made = layer(given[:1]).expand(SAMPLE_ROWS, WIDTH)
            held.append((given, made))
            send(made, after)

        def backward() -> None:
            given, made = held.pop(0)
            gradient = torch.ones(SAMPLE_ROWS, WIDTH)
            if after is not None:
                dist.recv(gradient, after)
            made.backward(gradient)
            time.sleep(BACKWARD_S)
            assert given.grad is not None
            send(given.grad, before)

        ahead = min(stages - 1 - stage, MICRO_BATCHES)
        for _ in range(ahead):
            forward()
        for _ in range(MICRO_BATCHES - ahead):
            forward()
            backward()
        for _ in range(ahead):
            backward()
        for work, _ in sent:
            work.wait()

    return turn


def pipeline_alone() -> Turn:
    return pipeline(list(range(dist.get_world_size())))


def data_and_pipeline() -> Turn:
    """Ranks of one stage stand together: stage 0 first."""
    world = dist.get_world_size()
    replicas = world // STAGES
    group = group_of([list(range(s * replicas, (s + 1) * replicas)) for s in range(STAGES)])
    replica = dist.get_rank() % replicas
    pipe = pipeline([s * replicas + replica for s in range(STAGES)])
    reduce = steps(DistributedDataParallel(stack(1), process_group=group))

    def turn() -> None:
        pipe()
        reduce()

    return turn


def data_and_tensor() -> Turn:
    """Ranks of one tensor-parallel group stand together."""
    world, width = dist.get_world_size(), TENSOR_PARALLEL
    tensor = group_of([list(range(i, i + width)) for i in range(0, world, width)])
    replicas = group_of([list(range(i, world, width)) for i in range(width)])
    reduce = steps(DistributedDataParallel(stack(2), process_group=replicas))
    activation = torch.ones(TENSOR_FLOATS)

    def turn() -> None:
        for _ in range(LAYERS):
            time.sleep(0.01)
            dist.all_reduce(activation.fill_(1.0), group=tensor)
        reduce()

    return turn


def data_and_experts() -> Turn:
    """All-to-all of tokens to experts and back on all ranks, then gradients of what all share."""
    world = dist.get_world_size()
    experts = group_of([list(range(world))])
    reduce = steps(DistributedDataParallel(stack(1)))
    given, taken = torch.ones(TENSOR_FLOATS), torch.empty(TENSOR_FLOATS)

    def turn() -> None:
        for _ in range(LAYERS):
            time.sleep(0.01)
            dist.all_to_all_single(taken, given, group=experts)
        reduce()

    return turn


def accelerator(turn_s: float) -> Iterator[None]:
    """Waits until the next turn's computing is done.

    Accelerators take as long for every step; what else runs on this machine must not make steps
    longer, and so a late turn is made up for, if only little by little.
    """
    jitter = random.Random(1)
    due = 0.0
    while True:
        due += turn_s * jitter.uniform(1 - JITTER, 1 + JITTER)
        due = max(due, time.time() + turn_s * LEAST_SHARE)
        time.sleep(due - time.time())
        yield


WAYS: dict[str, Callable[[], Turn]] = {
    "ddp": data_parallel,
    "fsdp": sharded,
    "pp": pipeline_alone,
    "dp_pp": data_and_pipeline,
    "tp_dp": data_and_tensor,
    "ep_dp": data_and_experts,
}


def main() -> None:
    way, turns, turn_ms, folder = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    turn = WAYS[way]()
    computed = accelerator(int(turn_ms) / 1000)
    with (Path(folder) / f"clock-{os.environ['RANK']}").open("a", buffering=1) as clock:
        for _ in range(int(turns)):
            began = time.time_ns()
            next(computed)
            ready = time.time_ns()
            turn()
            clock.write(f"{began} {ready} {time.time_ns()}\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
