"""Where a run that has not ended stands: waiting, starting, its gang at work, failing, stopping, or left alone."""

import re
from datetime import datetime

from components.contracts.run_view import NOT_TAKEN_UP, SUSPENDED, RunView, StageState, StageView
from components.diagnosis.gang_progress import diagnose_gang
from components.diagnosis.pending import beginning, explain_pending
from components.diagnosis.verdict import (
    COMMAND,
    OWN_WORDS,
    Actor,
    Diagnosis,
    Evidence,
    resume_command,
)


def diagnose_progress(view: RunView, now: datetime) -> Diagnosis:
    """What the run is doing now. `now` is only compared with times the run wrote."""
    if view.engine is not None and view.engine.alive is False:
        return _engine_gone(view)
    engine_says = OWN_WORDS.fullmatch(view.engine.message) if view.engine is not None else None
    if view.stop is not None:
        return _stopping(view, engine_says)
    gang = diagnose_gang(view, now)
    if gang is not None:
        return gang
    if engine_says is not None and engine_says["reason"] == SUSPENDED:
        return _in_its_words(view, engine_says, Actor.SUBMITTER)
    running = [stage for stage in view.stages if stage.state is StageState.RUNNING]
    is_placed = view.target != "local"  # one machine has no pods that wait for a place
    pending = next((stage for stage in view.stages if stage.state is StageState.WAITING and stage.engine_message), None)
    if not running and is_placed and pending is not None:
        return _pending(view, pending)
    if not running and is_placed and engine_says is not None:
        return _in_its_words(view, engine_says, Actor.PLATFORM)
    failed = min(
        (stage for stage in view.stages if stage.state is StageState.FAILED), key=lambda stage: stage.ended_at or "",
        default=None,
    )  # fmt: skip
    if not running and is_placed and failed is not None:
        return Diagnosis(
            reason="Failing", cause=f"{failed.task} failed, and the run is ending: {_first_line(failed)}",
            since=failed.ended_at, actor=Actor.NOBODY, action="wait for its end", evidence=_stages(view.stages),
        )  # fmt: skip
    if not running:
        waiting = next((stage.task for stage in view.stages if stage.state is StageState.WAITING), "the first stage")
        return Diagnosis(
            reason="Waiting", cause=f"{waiting} has not started yet", since=view.created_at, actor=Actor.NOBODY,
            action="wait", evidence=_stages(view.stages),
        )  # fmt: skip
    names = ", ".join(stage.task for stage in running)
    again = next((stage for stage in running if stage.attempts > 1), None)
    reason, cause = "StageRunning", f"{names} {'runs' if len(running) == 1 else 'run'}"
    if again is not None:
        reason, cause = "StageRetried", f"{again.task} failed and runs again (attempt {again.attempts})"
    elif any(stage.task == "launch" for stage in running):
        reason, cause = "Starting", "the launcher is starting the gang"
    started = [stage.started_at for stage in running if stage.started_at]
    return Diagnosis(
        reason=reason, cause=cause, since=min(started, default=None), actor=Actor.NOBODY, action="wait",
        evidence=_stages(view.stages),
    )  # fmt: skip


def _first_line(stage: StageView) -> str:
    return stage.message.partition("\n")[0] or f"exit code {stage.exit_code}"


def _pending(view: RunView, stage: StageView) -> Diagnosis:
    found = explain_pending(stage.engine_message, stage.task).diagnosis()
    return Diagnosis(
        reason=found.reason, cause=f"{found.cause}: {beginning(stage.engine_message)}",
        since=stage.started_at or view.created_at,
        actor=found.actor, action=found.action,
        evidence=(
            Evidence(object=f"stage {stage.task}", field="cluster says", value=stage.engine_message),
            *_stages(view.stages),
        ),
    )  # fmt: skip


def _workflow_gone(view: RunView) -> Diagnosis:
    return Diagnosis(
        reason="WorkflowGone", cause="its Workflow is gone, so nothing of this run is going on", since=view.updated_at,
        actor=Actor.SUBMITTER, action=f"continue with {resume_command(view)}; finished stages are not repeated",
        evidence=_stages(view.stages),
    )  # fmt: skip


def _engine_gone(view: RunView) -> Diagnosis:
    if view.target in ("kubernetes", "argo-server"):
        return _workflow_gone(view)
    engine = view.engine
    lost = [stage.task for stage in view.stages if stage.state is StageState.LOST]
    cause = "the local engine is gone, so nothing of this run is going on"
    if lost:
        cause += f" ({', '.join(lost)} ended with it)"
    facts = (
        [Evidence(object="engine", field="process", value=f"{engine.pid or 'unknown'}, not running")] if engine else []
    )
    if view.checkpoint:
        facts.append(Evidence(object="checkpoint", field="newest good", value=view.checkpoint))
    return Diagnosis(
        reason="EngineDead", cause=cause, since=view.updated_at, actor=Actor.SUBMITTER,
        action=f"continue with {resume_command(view)}; finished stages are not repeated",
        evidence=(*facts, *_stages(view.stages)),
    )  # fmt: skip


def _in_its_words(view: RunView, said: re.Match[str], actor: Actor) -> Diagnosis:
    return Diagnosis(
        reason=said["reason"], cause=said["seen"], since=view.created_at, actor=actor, action=said["fix"] or "wait",
        evidence=_stages(view.stages),
    )  # fmt: skip


def _stopping(view: RunView, engine_says: re.Match[str] | None) -> Diagnosis:
    stop = view.stop
    assert stop is not None
    if engine_says is not None and engine_says["reason"] == NOT_TAKEN_UP:
        return Diagnosis(
            reason=NOT_TAKEN_UP, cause=f"{stop.by} asked the run to stop, and {engine_says['seen']}", since=stop.at,
            actor=Actor.PLATFORM,
            action=f"nothing of it runs: delete Workflow {view.run}, or {engine_says['fix']}, then it stops",
            evidence=_stages(view.stages),
        )  # fmt: skip
    how = "to be killed" if stop.force else "to stop"
    return Diagnosis(
        reason="Stopping", cause=f"{stop.by} asked the run {how}, and its stages are ending", since=stop.at,
        actor=Actor.NOBODY,
        action="wait" if stop.force else f"wait, or kill it now with `{COMMAND} stop {view.run} --force`",
        evidence=_stages(view.stages),
    )  # fmt: skip


def _stages(stages: tuple[StageView, ...]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(object=f"stage {stage.task}", field="state", value=stage.state.value)
        for stage in stages
        if stage.state in (StageState.RUNNING, StageState.LOST, StageState.FAILED)
    )
