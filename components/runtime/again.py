"""A resumed run goes through its Workflow again: what an earlier Workflow of the same run finished is not repeated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from components.contracts.document import DamagedDocument
from components.contracts.layout import stages_folder
from components.contracts.names import DURING_TRAINING
from components.contracts.records import StageRecord


class _Listed(Protocol):
    @property
    def key(self) -> str: ...


class _Store(Protocol):
    def read(self, key: str) -> bytes: ...
    def list(self, prefix: str) -> Iterable[_Listed]: ...
    def uri_of(self, key: str) -> str: ...


@dataclass(frozen=True)
class Earlier:
    """What earlier Workflows of this run left of one task."""

    first_attempt: int = 0
    """Number of this Workflow's first attempt: records of earlier ones are never overwritten."""
    outputs: Mapping[str, str] | None = None
    """What the task published when it succeeded; None when it did not."""


def earlier_of(store: _Store, *, run: str, workflow: str, task: str) -> Earlier:
    """Nothing for a run's first Workflow, which has the run's name, and for what agents do beside the tasks."""
    if not workflow or workflow == run or task.startswith(f"{DURING_TRAINING}-"):
        return Earlier()
    records = [record for record in _records(store, run, task) if record.workflow != workflow]
    finished = [record for record in records if record.exit_code == 0]
    newest = max(finished, key=lambda record: record.ended_at or "", default=None)
    return Earlier(
        first_attempt=max((record.attempt + 1 for record in records), default=0),
        outputs=newest.outputs if newest else None,
    )


def _records(store: _Store, run: str, task: str) -> Iterable[StageRecord]:
    for item in store.list(f"{stages_folder(run)}/{task}"):
        try:
            yield StageRecord.from_bytes(store.read(item.key), where=store.uri_of(item.key))
        except DamagedDocument:
            continue  # it cannot vouch for anything, and the task is simply done again
