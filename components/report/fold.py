"""Folds what the engine, the stages, the launcher, agent 0 and the ledger say about a run into one `RunView` (pure)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.contracts.checks import CheckReport
from components.contracts.clock import parse_utc
from components.contracts.gang import GangState, LaunchState, StepView
from components.contracts.lifecycle import RunState
from components.contracts.names import DURING_TRAINING
from components.contracts.records import RunRecord, StageRecord
from components.contracts.retention import RetentionPlan
from components.contracts.run_view import (
    CheckpointRow,
    ClaimView,
    EngineNode,
    EngineView,
    Pace,
    RunView,
    StageState,
    StageView,
)
from components.errors import KILLED_FROM_OUTSIDE, RETRIED_BY_ARGO, ExitCode

_ORDER = ("shard-plan", "shard-task", "shard-merge", "preflight", "launch", "verify", "retain", "finish")
_STOPPED_CODES = (ExitCode.STOPPED, ExitCode.INTERRUPTED, *KILLED_FROM_OUTSIDE, None)
"""How a stage ends that was told to: by itself, or killed after its grace period."""
_REASON = re.compile(r"([A-Z][A-Za-z]+): ")
_PACE_STEPS = 20
_SHORT_SECONDS = 2.0


@dataclass(frozen=True)
class RunDocuments:
    """What was found about one run; everything may be missing."""

    run: str
    record: RunRecord | None = None
    storage: str = ""
    engine: EngineView | None = None
    stages: tuple[StageRecord, ...] = ()
    checks: tuple[CheckReport, ...] = ()
    launch: LaunchState | None = None
    gangs: tuple[GangState, ...] = ()
    retention: RetentionPlan | None = None
    checkpoints: tuple[CheckpointRow, ...] = ()
    claim: ClaimView | None = None
    report: str | None = None
    unreadable: tuple[str, ...] = ()


def fold_run_view(documents: RunDocuments) -> RunView:
    """The one answer to: where does this run stand?"""
    engine, record = documents.engine, documents.record
    stages = _stages(documents)
    state = _state(documents, stages)
    failed = _failed_stage(stages) if state in (RunState.FAILED, RunState.STOPPED) else None
    gang = documents.gangs[-1] if documents.gangs else None
    last = gang.last_step if gang else None
    return RunView(
        run=documents.run,
        experiment=record.experiment if record else "",
        model_version=record.model_version if record else "",
        target=record.target if record else "",
        storage=documents.storage,
        state=state,
        exit_code=_exit_code(state, engine, failed),
        failed_task=failed.task if failed else None,
        created_at=record.created_at if record else None,
        started_at=(engine.started_at if engine else None) or _first(stage.started_at for stage in stages),
        ended_at=(engine.ended_at or _last(stage.ended_at for stage in stages)) if engine and state.is_final else None,
        updated_at=_last(_moments(documents, stages)),
        engine=engine,
        stop=engine.stop if engine else None,
        stages=stages,
        checks=documents.checks,
        launch=documents.launch,
        gangs=documents.gangs,
        step=last.step if last else None,
        total_steps=gang.total_steps if gang else None,
        loss=last.loss if last else None,
        pace=pace_of(gang.steps, gang.total_steps) if gang else Pace(),
        data_version=_output(stages, "shard-merge", "data_version"),
        checkpoint=_checkpoint(documents, stages),
        checkpoints=documents.checkpoints,
        retention=documents.retention,
        claim=documents.claim,
        report=documents.report,
        description=record.description if record else {},
        unreadable=documents.unreadable,
    )


def pace_of(steps: Sequence[StepView], total_steps: int | None) -> Pace:
    """Seconds a step over the newest steps, tokens a second, time left.

    From the steps' times, which include checkpoints and waiting; over a very short stretch from what the program
    measured, because agents look at it a few times a second only.
    """
    newest: list[StepView] = []
    for step in reversed(steps[-_PACE_STEPS:]):
        if newest and step.step >= newest[-1].step:
            break  # a restart went back: older attempts say nothing about now
        newest.append(step)
    if not newest:
        return Pace()
    last, first = newest[0], newest[-1]
    span = (parse_utc(last.at) - parse_utc(first.at)).total_seconds()
    measured = [step.step_seconds for step in newest if step.step_seconds is not None]
    if span < _SHORT_SECONDS and measured:
        seconds = sum(measured) / len(measured)
    elif span > 0:
        seconds = span / (last.step - first.step)
    else:
        return Pace()
    tokens = [step.tokens for step in newest if step.tokens is not None]
    return Pace(
        step_seconds=seconds,
        tokens_per_second=sum(tokens) / len(tokens) / seconds if tokens else None,
        seconds_left=max(total_steps - last.step, 0) * seconds if total_steps else None,
    )


def _stages(documents: RunDocuments) -> tuple[StageView, ...]:
    records: dict[str, StageRecord] = {}
    for record in documents.stages:
        known = records.get(record.task)
        if not record.task.startswith(f"{DURING_TRAINING}-") and (known is None or record.attempt >= known.attempt):
            records[record.task] = record
    nodes = {node.task: node for node in documents.engine.nodes} if documents.engine else {}
    if "finish" not in nodes and _is_of_earlier(records.get("finish"), documents.engine):
        del records["finish"]
    tasks = [*nodes, *sorted((task for task in records if task not in nodes), key=_place)]
    return tuple(_stage(task, nodes.get(task), records.get(task), documents.engine) for task in tasks)


def _is_of_earlier(record: StageRecord | None, engine: EngineView | None) -> bool:
    """Whether a Workflow before the one that runs now left that record; a run that is resumed has several."""
    if record is None or engine is None or engine.is_over or not engine.started_at:
        return False
    return record.ended_at is not None and record.ended_at < engine.started_at


def _place(task: str) -> tuple[int, int, str]:
    name, _, index = task.rpartition("-")
    if name == "shard-task" and index.isdigit():
        return _ORDER.index(name), int(index), ""
    return (_ORDER.index(task), 0, "") if task in _ORDER else (len(_ORDER), 0, task)


def _stage(task: str, node: EngineNode | None, record: StageRecord | None, engine: EngineView | None) -> StageView:
    attempts = (node.attempts if node else 0) or (record.attempt + 1 if record else 0)
    # A record of an earlier attempt, or one cut short, does not explain how the newest attempt ended.
    since = (node.attempt_started_at if node else None) or ""
    explains = record is not None and record.ended_at is not None and record.started_at >= since
    return StageView(
        task=task,
        state=_stage_state(node, record, engine),
        attempts=attempts,
        node=record.node if record else "",
        started_at=(node.started_at if node else None) or (record.started_at if record else None),
        ended_at=node.ended_at if node else record.ended_at if record else None,
        exit_code=node.exit_code if node else record.exit_code if record else None,
        reason=record.reason if record and explains else _reason(node),
        message=(record.message if record and explains else "") or ((node.last_words or node.message) if node else ""),
        engine_message=node.message if node else "",
        last_lines=node.last_lines if node else (),
        fix=record.fix if record and explains else "",
        outputs=(node.outputs if node else {}) or (record.outputs if record else {}),
    )


def _reason(node: EngineNode | None) -> str:
    """The reason a stage's last words begin with: all there is of it when its record could not be stored."""
    match = _REASON.match(node.last_words) if node and node.phase in ("Failed", "Error") else None
    return match[1] if match else ""


def _stage_state(node: EngineNode | None, record: StageRecord | None, engine: EngineView | None) -> StageState:
    failed = StageState.FAILED
    if engine is not None and engine.stop is not None:
        code = node.exit_code if node else record.exit_code if record else None
        failed = StageState.STOPPED if code in _STOPPED_CODES else failed
    if node is None:
        if record is None or record.exit_code is None:
            return StageState.RUNNING
        return StageState.SUCCEEDED if record.exit_code == 0 else failed
    is_over = engine is not None and engine.is_over
    is_gone = engine is not None and engine.alive is False
    match node.phase:
        case "Succeeded":
            return StageState.SUCCEEDED
        case "Failed" | "Error":
            return failed
        case "Skipped" | "Omitted":
            return StageState.SKIPPED
        case "Running":
            return StageState.LOST if is_gone or is_over else StageState.RUNNING
        case _:
            return StageState.SKIPPED if is_over else StageState.WAITING


def _state(documents: RunDocuments, stages: Sequence[StageView]) -> RunState:
    engine, launch, gang = documents.engine, documents.launch, documents.gangs[-1] if documents.gangs else None
    if engine and engine.phase == "Succeeded":
        return RunState.SUCCEEDED
    if engine and engine.phase in ("Failed", "Error"):
        by_code = engine.exit_code == ExitCode.STOPPED if launch is None else launch.state is RunState.STOPPED
        is_stopped = engine.stop is not None or by_code
        return RunState.STOPPED if is_stopped else RunState.FAILED
    has_begun = any(stage.attempts for stage in stages)
    if engine and engine.alive is False and (engine.phase == "Running" or has_begun):
        return RunState.FAILED  # nobody is left to go on; `resume` does
    if engine is None and launch is not None and launch.state in (RunState.FAILED, RunState.STOPPED):
        return launch.state
    if not has_begun and gang is None:
        return RunState.SUBMITTED
    launching = next((stage for stage in stages if stage.task == "launch"), None)
    in_queue = (RunState.QUEUED, RunState.PREEMPTED)
    if launching and launching.state is StageState.RUNNING and launch is not None and launch.state in in_queue:
        return launch.state  # the launcher's word: agents of the generation before know nothing of it
    if gang is not None and not gang.state.is_final and _trains_on(launch):
        return gang.state
    if gang is None or launching is None or launching.state is StageState.WAITING:
        return RunState.STARTING
    if launching.state is StageState.RUNNING and not gang.state.is_final:
        return gang.state
    return RunState.RUNNING if launching.state is StageState.SUCCEEDED else RunState.RESTARTING


def _trains_on(launch: LaunchState | None) -> bool:
    """A gang of pods needs no launcher: between two of them it is neither stopped nor started again."""
    if launch is None or launch.backend == "process" or not launch.generations:
        return False
    is_concluded = launch.exit_code is not None and launch.exit_code not in RETRIED_BY_ARGO
    return launch.generations[-1].ended_at is None and not is_concluded


def _failed_stage(stages: Sequence[StageView]) -> StageView | None:
    """The failure everything else follows from: the earliest one, the exit handler's only when there is no other."""
    failed = [stage for stage in stages if stage.state.ended_badly]
    work = [stage for stage in failed if stage.task != "finish"]
    return min(work or failed, key=lambda stage: stage.ended_at or "~", default=None)


def _exit_code(state: RunState, engine: EngineView | None, failed: StageView | None) -> int | None:
    if state is RunState.SUCCEEDED:
        return int(ExitCode.OK)
    if state is RunState.STOPPED:
        return int(ExitCode.STOPPED)
    if state is not RunState.FAILED:
        return None
    if engine is not None and engine.was_lost:
        return int(ExitCode.INTERRUPTED)
    if engine is not None and engine.exit_code:
        return engine.exit_code
    if failed is not None and failed.exit_code:
        return failed.exit_code
    return int(ExitCode.INTERRUPTED)  # taken away without an exit code


def _checkpoint(documents: RunDocuments, stages: Sequence[StageView]) -> str | None:
    verified = _output(stages, "verify", "checkpoint")
    if verified:
        return verified
    for status in ("verified", "committed"):
        for row in documents.checkpoints:
            if row.run == documents.run and row.status == status:
                return row.checkpoint
    return None


def _output(stages: Sequence[StageView], task: str, name: str) -> str | None:
    return next((stage.outputs[name] for stage in stages if stage.task == task and stage.outputs.get(name)), None)


def _moments(documents: RunDocuments, stages: Sequence[StageView]) -> list[str | None]:
    moments = [moment for stage in stages for moment in (stage.started_at, stage.ended_at)]
    moments += [gang.updated_at for gang in documents.gangs]
    moments += [documents.launch.updated_at] if documents.launch else []
    moments += [documents.engine.ended_at] if documents.engine else []
    return moments


def _first(moments: Iterable[str | None]) -> str | None:
    return min((moment for moment in moments if moment), default=None)


def _last(moments: Iterable[str | None]) -> str | None:
    return max((moment for moment in moments if moment), default=None)
