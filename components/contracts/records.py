"""What a stage leaves behind about itself, and what a run is. Read by status, why, the report."""

from typing import Any, Literal

from pydantic import NonNegativeInt

from components.contracts.clock import UtcText
from components.contracts.document import Document


class StageRecord(Document):
    """One attempt of one task, written by `components.runtime` at its start and replaced at its end."""

    kind: Literal["stage-record"] = "stage-record"
    version: Literal[1] = 1
    task: str
    """The DAG task, for example `shard-task-2`, `preflight`."""
    attempt: NonNegativeInt
    workflow: str = ""
    """Name of the Workflow; a resumed run has several, one after the other."""
    node: str
    started_at: UtcText
    ended_at: UtcText | None = None
    exit_code: int | None = None
    message: str = ""
    reason: str = ""
    fix: str = ""
    outputs: dict[str, str] = {}


class RunRecord(Document):
    """What was submitted. Written once, by the first stage that gets to it."""

    kind: Literal["run-record"] = "run-record"
    version: Literal[1] = 1
    run: str
    experiment: str
    model_version: str
    target: str
    workflow: str
    created_at: UtcText
    description: dict[str, Any]
    """The run description as compiled, defaults filled in."""
