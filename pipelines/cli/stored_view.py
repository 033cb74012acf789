"""The whole answer about a run from its storage alone, when that holds it: no cluster is asked for it."""

from components.contracts import layout
from components.contracts.document import DamagedDocument
from components.contracts.lifecycle import RunState
from components.contracts.records import RunRecord
from components.contracts.run_view import EngineNode, EngineView, RunView, StageState
from components.report.report import RunReport
from components.report.run_view import read_run_view
from components.storage.base import ObjectNotFound, ObjectStore

_TASKS = ("shard-plan", "shard-task", "shard-merge", "preflight", "launch", "verify", "retain")


def stored_view(store: ObjectStore, run: str, record: RunRecord) -> RunView | None:
    """The view of a run that succeeded and whose exit handler wrote so; None for every other, which Argo knows better.

    Argo alone knows of pods that wait, of stages that vanished without a word, and of who stopped a run. Raises what
    the storage answers when it cannot be read at all.
    """
    key = layout.report_key(run, suffix="json")
    try:
        report = RunReport.from_bytes(store.read(key), where=store.uri_of(key))
    except (ObjectNotFound, DamagedDocument):
        return None
    if report.state is not RunState.SUCCEEDED:
        return None
    known = {stage.task for stage in report.stages}
    missing = [task for task in _TASKS if task not in known and f"{task}-0" not in known]
    nodes = tuple(EngineNode(task=task, phase="Omitted") for task in missing)
    engine = EngineView(
        phase="Succeeded", alive=False, started_at=report.started_at, ended_at=report.ended_at, nodes=nodes, exit_code=0
    )
    view = read_run_view(store, run, engine, record=record)
    finish = view.stage("finish")
    if finish is None or finish.state is not StageState.SUCCEEDED:
        return None
    # A resume after that report: stages began since.
    since = finish.started_at or ""
    if any(stage.task != "finish" and (stage.started_at or "") > since for stage in view.stages):
        return None
    return view
