"""What a rank finds when it starts: torchrun's variables, Argosy's, and the folders behind them."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.agent.messages import Start
from components.contracts.gang import GangSpec

_OURS_ALONE = ("ARGOSY_OUT", "ARGOSY_STOP_FILE", "ARGOSY_TERMINATION_LOG")
"""Of the stage that runs the agent, and nobody else's business."""

_TORCHRUN = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
)  # fmt: skip


@dataclass(frozen=True)
class AttemptPaths:
    """Folders of one attempt on one node."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def progress(self) -> Path:
        return self.folder / "progress"

    @property
    def stop_file(self) -> Path:
        return self.folder / "stop"

    def progress_file(self, process: int) -> Path:
        """Of the rank, or with `start: node` of the node's first rank; others append `.<rank>` to the name."""
        return self.progress / f"rank-{process}.jsonl"

    def create(self) -> None:
        for folder in (self.checkpoints, self.progress):
            folder.mkdir(parents=True, exist_ok=True)


def node_ranks(spec: GangSpec, node_rank: int) -> range:
    """The ranks of one node."""
    return range(node_rank * spec.nproc_per_node, (node_rank + 1) * spec.nproc_per_node)


def node_processes(spec: GangSpec, node_rank: int) -> list[int]:
    """The ranks the guard starts a process for: all of them, or the first when the program starts the others itself."""
    ranks = node_ranks(spec, node_rank)
    return list(ranks) if spec.start == "rank" else [ranks[0]]


def rank_environment(
    spec: GangSpec, start: Start, *, node_rank: int, process: int, paths: AttemptPaths, data: str, resume: str,
    inherited: Iterable[str], devices: Sequence[int] = (), num_cores: int = 0,
) -> dict[str, str | None]:  # fmt: skip
    """Variables to set for one process, over those it inherits; None removes one.

    `data` and `resume` are local paths, empty when there is none; `devices` are the GPUs this node can see. The run
    description's own `env` never replaces a variable of the contract.
    """
    environment: dict[str, str | None] = {name: None for name in inherited if name.startswith("PET_")}
    environment.update(dict.fromkeys((*_OURS_ALONE, *_TORCHRUN)))
    environment.update(_defaults(spec, frozenset(inherited), num_cores or len(os.sched_getaffinity(0))))
    environment.update(_own_devices(spec, node_rank, devices))
    environment.update(spec.env)
    environment.update(_meeting_point(spec, start, node_rank))
    if spec.start == "rank":
        environment.update(_torchrun_rank(spec, start, process))
    else:
        environment.update(_torchrun_node(spec, start, node_rank))
    checkpoint = spec.checkpoint
    environment.update(
        ARGOSY_RUN=spec.run, ARGOSY_EXPERIMENT=spec.experiment, ARGOSY_SEED=str(spec.seed), ARGOSY_DATA=data,
        ARGOSY_RESUME=resume, ARGOSY_STOP=str(paths.stop_file), ARGOSY_PROGRESS=str(paths.progress_file(process)),
        ARGOSY_CHECKPOINTS=str(paths.checkpoints) if checkpoint else None,
        ARGOSY_CHECKPOINT_EVERY_STEPS=str(checkpoint.every_steps) if checkpoint else None,
    )  # fmt: skip
    return environment


def _defaults(spec: GangSpec, inherited: Collection[str], num_cores: int) -> dict[str, str]:
    """What the program may choose otherwise: lines as they are written, and no more threads than cores."""
    wanted = {"PYTHONUNBUFFERED": "1"}
    here = spec.world_size if spec.coordinator_file else spec.nproc_per_node  # a local file: all nodes are this machine
    if here > 1:
        wanted["OMP_NUM_THREADS"] = str(max(1, num_cores // here))
    return {name: value for name, value in wanted.items() if name not in inherited}


def _own_devices(spec: GangSpec, node_rank: int, devices: Sequence[int]) -> dict[str, str]:
    """Nodes that share a machine share its GPUs out; otherwise each one's LOCAL_RANK 0 would take the same GPU."""
    if not spec.coordinator_file or spec.num_nodes == 1 or len(devices) < spec.world_size:
        return {}
    first = node_rank * spec.nproc_per_node
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(device) for device in devices[first : first + spec.nproc_per_node])}


def _meeting_point(spec: GangSpec, start: Start, node_rank: int) -> dict[str, str]:
    return {
        "MASTER_ADDR": start.master_addr, "MASTER_PORT": str(start.master_port),
        "NODE_RANK": str(node_rank), "GROUP_RANK": str(node_rank), "GROUP_WORLD_SIZE": str(spec.num_nodes),
    }  # fmt: skip


def _torchrun_rank(spec: GangSpec, start: Start, rank: int) -> dict[str, str]:
    world_size, local_size = str(spec.world_size), str(spec.nproc_per_node)
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank % spec.nproc_per_node),
        "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": local_size,
        "ROLE_NAME": "default", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": world_size,
        "TORCHELASTIC_RUN_ID": _rendezvous_id(spec, start), "TORCHELASTIC_RESTART_COUNT": str(start.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts), "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip


def _torchrun_node(spec: GangSpec, start: Start, node_rank: int) -> dict[str, str]:
    """What torchrun reads in place of its options; restarts are ours."""
    return {
        "PET_NNODES": str(spec.num_nodes), "PET_NPROC_PER_NODE": str(spec.nproc_per_node),
        "PET_NODE_RANK": str(node_rank), "PET_MASTER_ADDR": start.master_addr,
        "PET_MASTER_PORT": str(start.master_port), "PET_RDZV_BACKEND": "static", "PET_MAX_RESTARTS": "0",
        "PET_RDZV_ID": _rendezvous_id(spec, start),
    }  # fmt: skip


def _rendezvous_id(spec: GangSpec, start: Start) -> str:
    return f"{spec.run}-g{spec.generation}-{start.attempt}"
