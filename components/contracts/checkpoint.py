"""Documents of a checkpoint: a receipt from each agent, then the manifest that agent 0 writes last.

Readers: agent 0 reads receipts; verify, retain, the agents (to resume) and the command line read the manifest.
"""

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.dataset import StoredFile
from components.contracts.document import Document

VerifyLevel = Literal["files", "digests", "tensors", "load"]
"""files: names and sizes; digests: every byte's SHA-256 as well; tensors: format, dtypes, NaN and Inf as well; load:
torch loads it in a process of its own as well."""

Writers = Literal["rank0", "all"]
"""Whose READY marks a step needs before it is published."""


class Lineage(Document):
    """What made a checkpoint, besides its data and its parent; None where nobody knows."""

    config_digest: str | None = None
    """Hex SHA-256 of the run description as compiled, canonical JSON."""
    image: str | None = None
    """The image the ranks ran in, with its digest when it was given one."""
    code: str | None = None
    """What identifies the program's source, for example `git:<commit>`."""


class CheckpointReceipt(Document):
    """The files one agent published for one step. Paths are relative to the checkpoint folder."""

    kind: Literal["checkpoint-receipt"] = "checkpoint-receipt"
    version: Literal[1] = 1
    term: PositiveInt
    step: NonNegativeInt
    node_rank: NonNegativeInt
    files: tuple[StoredFile, ...]


class CheckpointManifest(Document):
    """What a checkpoint consists of. Paths are relative to the folder of this document."""

    kind: Literal["checkpoint-manifest"] = "checkpoint-manifest"
    version: Literal[1] = 1
    checkpoint: str
    """`step-<step>-term-<term>`."""
    experiment: str
    model_version: str
    data_version: str
    run: str
    term: PositiveInt
    step: NonNegativeInt
    world_size: PositiveInt
    parent: str | None = None
    """The checkpoint this one was resumed from; None for a fresh start."""
    metrics: dict[str, float]
    """What rank 0 last reported at or before this step; for example loss."""
    lineage: Lineage | None = None
    files: tuple[StoredFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)
