"""What the launch stage needs."""

from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from components.contracts.document import Document
from components.contracts.gang import AcceleratorRule, CheckpointRule, GangLimits, ResumeRule
from components.contracts.pods import PodOptions


class LaunchSpec(Document):
    """The gang and its limits. Input: data_version."""

    experiment: str
    model_version: str
    num_nodes: PositiveInt
    nproc_per_node: PositiveInt
    command: tuple[str, ...]
    start: Literal["rank", "node"]
    backend: Literal["auto", "process", "jobset", "job"]
    env: dict[str, str]
    workdir: str = ""
    """Folder the program starts in; relative to --workdir, which is also what empty means."""
    ships_code: bool | None = None
    """Whether code travels with the run. Its SHA-256 is the input code."""
    seed: int
    limits: GangLimits
    max_restarts: NonNegativeInt
    checkpoint: CheckpointRule | None = None
    resume: ResumeRule
    memory_per_rank_bytes: NonNegativeInt
    accelerator: AcceleratorRule | None = None
    timeout_seconds: PositiveFloat
    """The stage's own deadline, so that a SIGTERM at that time is known for what it is."""
    pods: PodOptions | None = None
    """Worker pods of the backends jobset and job; None: as small as they can be."""
