"""Reads what a storage holds about a run and folds it into a `RunView`. Nothing here writes."""

from collections.abc import Iterator
from typing import TypeVar

from components.contracts import layout
from components.contracts.checks import CheckReport
from components.contracts.document import Document
from components.contracts.gang import GangState, LaunchState
from components.contracts.records import RunRecord, StageRecord
from components.contracts.retention import RetentionPlan
from components.contracts.run_view import CheckpointRow, ClaimView, EngineView, RunView
from components.errors import ArgosyError
from components.ledger.ledger import Ledger
from components.report.fold import RunDocuments, fold_run_view
from components.storage.base import ObjectNotFound, ObjectStore

__all__ = ["RunView", "read_checkpoints", "read_run_view"]

_Read = TypeVar("_Read", bound=Document)


def read_run_view(
    store: ObjectStore,
    run: str,
    engine_state: EngineView | None = None,
    *,
    record: RunRecord | None = None,
    ledger: Ledger | None = None,
) -> RunView:
    """Everything known about `run` now.

    `record` says what was submitted when the storage does not yet (the first stages have not run); `ledger` is one
    kept from an earlier look, which then reads only what was added. A document that exists but cannot be read is named
    in `unreadable`; the rest is still told.
    """
    reader = _Reader(store)
    record = reader.read(layout.run_record_key(run), RunRecord) or record
    checkpoints: tuple[CheckpointRow, ...] = ()
    claim: ClaimView | None = None
    if record is not None and record.experiment and record.model_version:  # else nobody's: a Workflow not of ours
        try:
            checkpoints, claim = read_checkpoints(ledger or Ledger(store, record.experiment, record.model_version))
        except ArgosyError as error:
            reader.unreadable.append(str(error))
    launch = reader.read(layout.launch_state_key(run), LaunchState)
    gangs = tuple(_gangs(reader, run, launch))
    preflight = reader.read(layout.preflight_report_key(run), CheckReport)
    checks = [preflight] if preflight else []
    if gangs:
        folder = f"{layout.gang_folder(run, generation=gangs[-1].generation)}/checks"
        checks += reader.read_all(folder, CheckReport)
    report = layout.report_key(run, suffix="html")
    return fold_run_view(
        RunDocuments(
            run=run,
            record=record,
            storage=store.uri,
            engine=engine_state,
            stages=tuple(reader.read_all(layout.stages_folder(run), StageRecord)),
            checks=tuple(checks),
            launch=launch,
            gangs=gangs,
            retention=reader.read(layout.retention_plan_key(run), RetentionPlan),
            checkpoints=checkpoints,
            claim=claim,
            report=store.uri_of(report) if reader.exists(report) else None,
            unreadable=tuple(reader.unreadable),
        )
    )


def read_checkpoints(ledger: Ledger) -> tuple[tuple[CheckpointRow, ...], ClaimView | None]:
    """The ledger's checkpoints, newest first, and who may train now. Raises LedgerDamaged."""
    state, store = ledger.state(), ledger.store
    rows = [
        CheckpointRow(
            checkpoint=entry.checkpoint, step=entry.step, term=entry.term, run=entry.run,
            data_version=entry.data_version, status=entry.status, level=entry.level, reason=entry.reason,
            retired_by=entry.retired_by, metrics=dict(entry.metrics), pinned=entry.pinned, size_bytes=entry.size_bytes,
            committed_at=entry.committed_at, uri=store.uri_of(entry.folder),
        )
        for entry in state.newest_first()
    ]  # fmt: skip
    claim = state.claim
    return tuple(rows), ClaimView(run=claim.run, owner=str(claim.owner), since=claim.since) if claim else None


class _Reader:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.unreadable: list[str] = []

    def read(self, key: str, kind: type[_Read]) -> _Read | None:
        try:
            return kind.from_bytes(self._store.read(key), where=self._store.uri_of(key))
        except ObjectNotFound:
            return None
        except ArgosyError as error:
            self.unreadable.append(str(error))
            return None

    def exists(self, key: str) -> bool:
        try:
            return self._store.find(key) is not None
        except ArgosyError as error:
            self.unreadable.append(str(error))
            return False

    def read_all(self, folder: str, kind: type[_Read]) -> Iterator[_Read]:
        try:
            keys = [item.key for item in self._store.list(folder)]
        except ArgosyError as error:
            self.unreadable.append(str(error))
            return
        for key in keys:
            document = self.read(key, kind)
            if document is not None:
                yield document


def _gangs(reader: _Reader, run: str, launch: LaunchState | None) -> Iterator[GangState]:
    # Probed one by one, because listing the gang's folder would walk every log chunk.
    newest = max((item.generation for item in launch.generations), default=-1) if launch else -1
    generation = 0
    while True:
        gang = reader.read(layout.gang_state_key(run, generation=generation), GangState)
        if gang is not None:
            yield gang
        elif generation > newest:
            return
        generation += 1
