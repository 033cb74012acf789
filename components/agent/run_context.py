"""What every part of one agent needs to know."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from components.agent.lineage import lineage_of
from components.agent.logs import LogStreams
from components.agent.pod import PodSide
from components.contracts.checkpoint import CheckpointReceipt, Lineage
from components.contracts.gang import GangSpec
from components.contracts.names import gang_name
from components.ledger.log import Ledger
from components.runtime.log import Log
from components.storage.base import ObjectStore


@dataclass(frozen=True)
class RunContext:
    """Fixed for the agent's life."""

    spec: GangSpec
    node_rank: int
    workdir: Path
    """This node's own folder."""
    store: ObjectStore
    log: Log
    streams: LogStreams
    node: str
    """Name of this node, for people."""
    pod: PodSide | None = None
    """None: the guard is our own child."""
    left_receipts: dict[tuple[int, int], CheckpointReceipt] = field(default_factory=dict)
    """Of this node, by (term, step), until the step is committed: agent 0 need not fetch what it has just written."""

    @property
    def code_folder(self) -> Path:
        """Where the code that travels with the run lies on this node, if any does."""
        return self.workdir / "code"

    @property
    def program_folder(self) -> str:
        """Where the ranks start; empty: wherever the guard is."""
        return os.path.normpath(self.code_folder / self.spec.workdir) if self.spec.code else self.spec.workdir

    @property
    def gang(self) -> str:
        return gang_name(self.spec.run, self.spec.generation)

    @cached_property
    def ledger(self) -> Ledger:
        """One for the agent's life, so that a commit reads only what was added to the log."""
        return Ledger(self.store, self.spec.experiment, self.spec.model_version)

    @cached_property
    def lineage(self) -> Lineage:
        """What goes into every checkpoint of this gang."""
        return lineage_of(self.spec, self.store)
