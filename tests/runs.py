"""Builders of what is known about a run: valid defaults, override what matters."""

from typing import Any

from components.contracts.checks import CheckReport, CheckResult, CheckStatus
from components.contracts.gang import AttemptView, Failure, FailureKind, GangState, LaunchState, StepView
from components.contracts.lifecycle import RunState
from components.contracts.records import RunRecord, StageRecord
from components.contracts.run_view import CheckpointRow, EngineNode, EngineView
from components.contracts.stop import StopRequest
from components.report.fold import RunDocuments, fold_run_view

RUN = "tiny-b2c4d"


def at(seconds: float) -> str:
    """A moment `seconds` after 12:00:00 UTC."""
    return f"2026-11-29T12:{int(seconds) // 60:02d}:{seconds % 60:06.3f}Z"


def a_record(**changes: Any) -> RunRecord:
    description = {
        "experiment": "tiny",
        "launch": {"num_nodes": 2, "max_restarts": 3, "limits": {"start": "5m", "no_progress": "4m", "run": "1h"}},
    }
    values: dict[str, Any] = {
        "run": RUN, "experiment": "tiny", "model_version": "v1", "target": "local", "workflow": RUN,
        "created_at": at(0), "description": description,
    }  # fmt: skip
    return RunRecord(**values | changes)


def a_node(task: str, phase: str = "Succeeded", **changes: Any) -> EngineNode:
    values: dict[str, Any] = {"task": task, "phase": phase}
    if phase in ("Running", "Succeeded", "Failed", "Error"):
        values |= {"attempts": 1, "started_at": at(10), "attempt_started_at": at(10)}
    if phase in ("Succeeded", "Failed", "Error"):
        values |= {"ended_at": at(20), "exit_code": 0 if phase == "Succeeded" else 1}
    return EngineNode(**values | changes)


def an_engine(*nodes: EngineNode, **changes: Any) -> EngineView:
    values: dict[str, Any] = {"phase": "Running", "alive": True, "pid": 4711, "started_at": at(1), "nodes": nodes}
    if changes.get("phase", "Running") != "Running":
        values |= {"ended_at": at(60), "alive": False}
    return EngineView(**values | changes)


def a_stage_record(task: str, exit_code: int | None = 0, **changes: Any) -> StageRecord:
    values: dict[str, Any] = {"task": task, "attempt": 0, "node": "box", "started_at": at(10), "exit_code": exit_code}
    if exit_code is not None:
        values["ended_at"] = at(20)
    return StageRecord(**values | changes)


def a_step(step: int, seconds: float, **changes: Any) -> StepView:
    return StepView(**{"step": step, "at": at(seconds), "loss": 2.5, "tokens": 1000} | changes)


def a_failure(kind: FailureKind = FailureKind.RANK_EXIT, **changes: Any) -> Failure:
    values: dict[str, Any] = {"kind": kind, "at": at(50), "message": ""}
    if kind is FailureKind.RANK_EXIT:
        values |= {"rank": 1, "node_rank": 1, "exit_code": 1}
    if kind is FailureKind.RANK_SIGNAL:
        values |= {"rank": 1, "node_rank": 1, "signal": "SIGKILL"}
    return Failure(**values | changes)


def an_attempt(**changes: Any) -> AttemptView:
    return AttemptView(**{"term": 1, "attempt": 0, "started_at": at(30), "last_step": 40} | changes)


def a_failed_attempt(failure: Failure, **changes: Any) -> AttemptView:
    return an_attempt(outcome="failed", ended_at=at(51), failure=failure, **changes)


def a_gang(state: RunState = RunState.RUNNING, **changes: Any) -> GangState:
    values: dict[str, Any] = {
        "run": RUN, "generation": 0, "state": state, "world_size": 2, "num_joined": 2, "created_at": at(25),
        "updated_at": at(55), "attempts": (an_attempt(),), "last_step": a_step(40, 54), "total_steps": 60,
        "steps": (a_step(30, 44), a_step(40, 54)),
    }  # fmt: skip
    return GangState(**values | changes)


def a_launch(state: RunState = RunState.RUNNING, **changes: Any) -> LaunchState:
    return LaunchState(**{"run": RUN, "backend": "process", "state": state, "updated_at": at(55)} | changes)


def a_checkpoint(step: int = 40, status: str = "verified", **changes: Any) -> CheckpointRow:
    values: dict[str, Any] = {
        "checkpoint": f"step-{step}-term-1", "step": step, "term": 1, "run": RUN, "data_version": "d-1",
        "status": status, "level": "tensors" if status == "verified" else None, "metrics": {"loss": 2.5},
        "size_bytes": 1000, "committed_at": at(50), "uri": "file:///s/c",
    }  # fmt: skip
    return CheckpointRow(**values | changes)


def a_check(name: str, status: CheckStatus = CheckStatus.FAIL, **changes: Any) -> CheckResult:
    values: dict[str, Any] = {
        "name": name, "status": status, "hard": True, "scope": "environment", "measured": "1 GiB",
        "expected": "at least 2 GiB", "origin": "launch.memory_per_rank", "remedy": "free memory",
    }  # fmt: skip
    return CheckResult(**values | changes)


def a_check_report(*results: CheckResult, subject: str = "preflight") -> CheckReport:
    return CheckReport(subject=subject, results=results)


def a_stop(**changes: Any) -> StopRequest:
    return StopRequest(**{"by": "ada@box", "at": at(40)} | changes)


def a_view(**documents: Any) -> Any:
    """The view that follows from these documents."""
    return fold_run_view(RunDocuments(**{"run": RUN, "record": a_record(), "storage": "file:///s"} | documents))
