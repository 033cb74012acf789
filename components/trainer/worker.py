"""Who this process is in the gang, and what the gang gave it: torchrun's variables and Argosy's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.trainer.endings import Unusable


@dataclass(frozen=True)
class Worker:
    """One rank's place and paths. Without Argosy's variables nothing is checkpointed, reported or resumed."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    seed: int
    data: Path
    resume: Path | None
    checkpoints: Path | None
    checkpoint_every: int | None
    progress: Path | None
    stop: Path | None

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def worker_from(env: Mapping[str, str] = os.environ) -> Worker:
    """This process's Worker. Raises Unusable with every variable that is missing or wrong."""
    faults: list[str] = []
    world_size, rank = _number(env, "WORLD_SIZE", 1, faults), _number(env, "RANK", 0, faults)
    local_world_size = _number(env, "LOCAL_WORLD_SIZE", world_size, faults)
    local_rank = _number(env, "LOCAL_RANK", rank % max(1, local_world_size), faults)
    every, seed = _number(env, "ARGOSY_CHECKPOINT_EVERY_STEPS", 0, faults), _number(env, "ARGOSY_SEED", 0, faults)
    if not rank < world_size:
        faults.append(f"RANK={rank} is not below WORLD_SIZE={world_size}")
    data = _path(env, "ARGOSY_DATA")
    if data is None:
        faults.append("ARGOSY_DATA is not set: it must name the manifest of a packed data set")
    elif not data.is_file():
        faults.append(f"ARGOSY_DATA={data} does not exist")
    resume = _path(env, "ARGOSY_RESUME")
    if resume is not None and not resume.is_dir():
        faults.append(f"ARGOSY_RESUME={resume} is not a folder")
    if faults or data is None:
        raise Unusable("the environment cannot be used:\n  " + "\n  ".join(faults))
    progress = _path(env, "ARGOSY_PROGRESS")
    if progress is not None and local_rank > 0 and env.get("PET_NNODES"):
        # Started once a node, all its ranks inherit one path; a suffix keeps their lines apart.
        progress = progress.with_name(f"{progress.name}.{rank}")
    return Worker(
        rank=rank, local_rank=local_rank, world_size=world_size, local_world_size=local_world_size, seed=seed,
        data=data, resume=resume, checkpoints=_path(env, "ARGOSY_CHECKPOINTS"), checkpoint_every=every or None,
        progress=progress, stop=_path(env, "ARGOSY_STOP"),
    )  # fmt: skip


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _number(env: Mapping[str, str], name: str, default: int, faults: list[str]) -> int:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        faults.append(f"{name}={text} is not a count")
        return default
    return value
