"""What the preflight stage needs."""

from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.document import Document
from components.contracts.gang import AcceleratorRule, CheckpointRule, ResumeRule


class PreflightSpec(Document):
    """Static facts about the run that the checks compare with what they measure."""

    experiment: str
    model_version: str
    corpus: str
    num_nodes: PositiveInt
    nproc_per_node: PositiveInt
    command: tuple[str, ...]
    env: dict[str, str] = {}
    """What the program finds in its environment besides ours; its PATH decides which program it is."""
    workdir: str = ""
    """Folder the program starts in; relative to --workdir, which is also what empty means."""
    start: Literal["rank", "node"]
    backend: Literal["auto", "process", "jobset", "job"]
    checkpoint: CheckpointRule | None = None
    resume: ResumeRule
    memory_per_rank_bytes: NonNegativeInt
    min_free_bytes: NonNegativeInt
    """Space that must stay free on the storage beside the packed data."""
    accelerator: AcceleratorRule | None = None
    description: dict[str, Any]
    """The whole run description; preflight files it as the run's record."""
