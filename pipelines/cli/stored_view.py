"""The whole answer about a run from its storage alone, when that holds it: no cluster is asked for it."""

from components.contracts import layout
from components.contracts.clock import is_utc
from components.contracts.document import DamagedDocument
from components.contracts.lifecycle import RunState
from components.contracts.records import RunRecord
from components.contracts.run_view import EngineNode, EngineView, RunView, StageState
from components.contracts.stop import StopRequest
from components.report.report import RunReport
from components.report.run_view import read_run_view
from components.storage.base import ObjectNotFound, ObjectStore

_TASKS = ("shard-plan", "shard-task", "shard-merge", "preflight", "launch", "verify", "retain")


def stored_view(store: ObjectStore, run: str, record: RunRecord, *, is_gone: bool = False) -> RunView | None:
    """The view of a run that succeeded and whose exit handler wrote so; None for every other, which Argo knows better.

    `is_gone`: Argo has no Workflow of it any more, so the exit handler's word counts for every end. Otherwise Argo
    alone knows of pods that wait, of stages that vanished without a word, and of who stopped a run. Raises what the
    storage answers when it cannot be read at all.
    """
    key = layout.report_key(run, suffix="json")
    try:
        report = RunReport.from_bytes(store.read(key), where=store.uri_of(key))
    except (ObjectNotFound, DamagedDocument):
        return None
    if not (report.state.is_final if is_gone else report.state is RunState.SUCCEEDED):
        return None
    known = {stage.task for stage in report.stages}
    missing = [task for task in _TASKS if task not in known and f"{task}-0" not in known]
    nodes = tuple(EngineNode(task=task, phase="Omitted") for task in missing)
    engine = EngineView(
        phase="Succeeded" if report.state is RunState.SUCCEEDED else "Failed", alive=False, nodes=nodes,
        started_at=report.started_at, ended_at=report.ended_at, exit_code=report.exit_code,
        stop=_stop(report),
    )  # fmt: skip
    view = read_run_view(store, run, engine, record=record)
    finish = view.stage("finish")
    if finish is None or finish.state is not StageState.SUCCEEDED:
        return None
    # A resume after that report: stages began since.
    since = finish.started_at or ""
    if any(stage.task != "finish" and (stage.started_at or "") > since for stage in view.stages):
        return None
    return view


def _stop(report: RunReport) -> StopRequest | None:
    """Who asked for the end, as the exit handler was told."""
    if report.state is not RunState.STOPPED or report.diagnosis.reason != "StopRequested":
        return None
    said = next((fact.value for fact in report.diagnosis.evidence if fact.object == "stop request"), "somebody")
    by, _, at = said.partition(" at ")
    return StopRequest(by=by, at=at if is_utc(at) else report.ended_at)
