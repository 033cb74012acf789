"""Where a run that has not ended stands: waiting, starting, training, slow, restarting, stopping, or left alone."""

import re
from datetime import datetime

from components.contracts.clock import parse_utc
from components.contracts.gang import GangState
from components.contracts.lifecycle import RunState
from components.contracts.run_view import NOT_TAKEN_UP, SUSPENDED, RunView, StageState, StageView
from components.contracts.units import format_duration, parse_duration
from components.diagnosis.gang import attempts_evidence, gang_waits_for, last_failure
from components.diagnosis.pending import explain_pending
from components.diagnosis.queue_place import diagnose_place
from components.diagnosis.verdict import (
    COMMAND,
    OWN_WORDS,
    Actor,
    Diagnosis,
    Evidence,
    described,
    logs_command,
    max_restarts,
    resume_command,
)
from components.diagnosis.worker import explain_worker

_SILENT_SECONDS = 60.0
"""Agent 0 writes every 5 s; a state this old means that nobody writes it."""
_BEFORE_START = (RunState.STARTING, RunState.SUBMITTED, RunState.QUEUED)
_DETAIL_LENGTH = 160
_SLOW_SHARE = 0.5
"""Share of a limit after which people should look."""


def diagnose_progress(view: RunView, now: datetime) -> Diagnosis:
    """What the run is doing now. `now` is only compared with times the run wrote."""
    if view.engine is not None and view.engine.alive is False:
        return _engine_gone(view)
    engine_says = OWN_WORDS.fullmatch(view.engine.message) if view.engine is not None else None
    if view.stop is not None:
        return _stopping(view, engine_says)
    launch = view.stage("launch")
    queue = view.launch.queue if view.launch else None
    if queue is not None and launch is not None and launch.state is StageState.RUNNING:
        return diagnose_place(view, queue)
    held_up = _what_holds_up(view)
    if held_up and launch is not None and launch.state is StageState.RUNNING:
        return _held_up(view, held_up)
    if view.gang is not None and launch is not None and launch.state is StageState.RUNNING:
        return _gang(view, view.gang, now)
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
    elif launch is not None and launch.state is StageState.RUNNING:
        reason, cause = "Starting", "the launcher is starting the gang"
    started = [stage.started_at for stage in running if stage.started_at]
    return Diagnosis(
        reason=reason, cause=cause, since=min(started, default=None), actor=Actor.NOBODY, action="wait",
        evidence=_stages(view.stages),
    )  # fmt: skip


def _detail(message: str) -> str:
    line = message.partition("\n")[0].rstrip(".")
    return line if len(line) <= _DETAIL_LENGTH else f"{line[:_DETAIL_LENGTH]}…"


def _first_line(stage: StageView) -> str:
    return stage.message.partition("\n")[0] or f"exit code {stage.exit_code}"


def _what_holds_up(view: RunView) -> str:
    """The launcher's word on a gang that has not started; nothing where agent 0 knows better."""
    launch, gang = view.launch, view.gang
    is_starting = gang is None or gang.state.is_final or gang.state in _BEFORE_START
    return launch.message if launch is not None and launch.state is RunState.STARTING and is_starting else ""


def _held_up(view: RunView, message: str) -> Diagnosis:
    found = explain_pending(message, "the gang").diagnosis()
    limit = _seconds(described(view, "launch", "limits", "start"))
    generations = view.launch.generations if view.launch is not None else ()
    return Diagnosis(
        reason=found.reason, cause=f"{found.cause}: {_detail(message)}"
        + (f"; it is given up {format_duration(limit)} after its start" if limit is not None else ""),
        since=generations[-1].created_at if generations else view.created_at,
        actor=found.actor, action=found.action,
        evidence=(Evidence(object="gang", field="cluster says", value=message), *attempts_evidence(view)),
    )  # fmt: skip


def _pending(view: RunView, stage: StageView) -> Diagnosis:
    found = explain_pending(stage.engine_message, stage.task).diagnosis()
    return Diagnosis(
        reason=found.reason, cause=f"{found.cause}: {_detail(stage.engine_message)}",
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


def _gang(view: RunView, gang: GangState, now: datetime) -> Diagnosis:
    if gang.state.is_final:
        said = f": {gang.reason}: {gang.message}" if gang.exit_code and gang.message else ""
        return Diagnosis(
            reason="GangEnded", cause=f"the gang ended as {gang.state.value}{said}", since=gang.updated_at,
            actor=Actor.NOBODY, action="wait: the launch stage decides what follows", evidence=attempts_evidence(view),
        )  # fmt: skip
    silent = (now - parse_utc(gang.updated_at)).total_seconds()
    if silent > _SILENT_SECONDS:
        return Diagnosis(
            reason="AgentSilent", cause=f"agent 0 has written nothing for {format_duration(round(silent))}",
            since=gang.updated_at, actor=Actor.MACHINE,
            action=f"see whether the machine or the storage hangs: {logs_command(view)}",
            evidence=(Evidence(object="gang", field="state", value=gang.state.value), *attempts_evidence(view)),
        )  # fmt: skip
    if gang.state is RunState.RESTARTING:
        return _restarting(view, gang)
    if gang.state in _BEFORE_START:
        return _starting(view, gang, now)
    return _training(view, gang, now)


def _restarting(view: RunView, gang: GangState) -> Diagnosis:
    failure, budget = last_failure(view), max_restarts(view)
    cause = explain_worker(failure).cause if failure else gang.message or "the gang restarts"
    used = f"restart {gang.restarts_used}" + (f" of {budget}" if budget is not None else "")
    return Diagnosis(
        reason="Restarting", cause=f"{cause} ({used})", since=failure.at if failure else gang.updated_at,
        actor=Actor.NOBODY, action="wait: the ranks start again from the newest good checkpoint",
        evidence=attempts_evidence(view),
    )  # fmt: skip


def _starting(view: RunView, gang: GangState, now: datetime) -> Diagnosis:
    num_nodes = described(view, "launch", "num_nodes")
    waits = gang_waits_for(gang, num_nodes if isinstance(num_nodes, int) else gang.num_joined)
    waited = (now - parse_utc(gang.created_at)).total_seconds()
    limit = _seconds(described(view, "launch", "limits", "start"))
    is_slow = limit is not None and waited > _SLOW_SHARE * limit
    cause = f"the gang has been starting for {format_duration(round(waited))}: {waits}"
    if limit is not None and is_slow:
        cause += f"; it is given up after {format_duration(limit)}"
    return Diagnosis(
        reason="SlowStart" if is_slow else "Starting", cause=cause, since=gang.created_at,
        actor=Actor.MACHINE if is_slow else Actor.NOBODY,
        action=f"see what the agents wait for: {logs_command(view)}" if is_slow else "wait",
        evidence=(Evidence(object="gang", field="joined", value=str(gang.num_joined)), *attempts_evidence(view)),
    )  # fmt: skip


def _training(view: RunView, gang: GangState, now: datetime) -> Diagnosis:
    attempt = gang.attempts[-1] if gang.attempts else None
    since = attempt.started_at if attempt else gang.created_at
    if gang.last_step is None or (attempt and attempt.last_step is None):
        waited = format_duration(round((now - parse_utc(since)).total_seconds()))
        return Diagnosis(
            reason="NoStepYet", cause=f"the ranks run since {waited} and have not reported a step", since=since,
            actor=Actor.NOBODY, action="wait: loading the program and its model takes time",
            evidence=attempts_evidence(view),
        )  # fmt: skip
    quiet = (now - parse_utc(gang.last_step.at)).total_seconds()
    limit = _seconds(described(view, "launch", "limits", "no_progress"))
    at = f"step {gang.last_step.step}" + (f" of {gang.total_steps}" if gang.total_steps else "")
    if limit is not None and quiet > _SLOW_SHARE * limit:
        quiet_text = f"no new step for {format_duration(round(quiet))}, last {at}"
        return Diagnosis(
            reason="NoProgress", cause=f"{quiet_text}; a hang is declared after {format_duration(limit)}",
            since=gang.last_step.at, actor=Actor.PROGRAM, action=f"look where the ranks wait: {logs_command(view)}",
            evidence=_ranks(gang),
        )  # fmt: skip
    used = f", after {gang.restarts_used} restarts" if gang.restarts_used else ""
    newest = max(gang.checkpoints, key=lambda item: (item.at, item.step), default=None)
    if newest is not None and newest.state == "abandoned":
        return Diagnosis(
            reason="NotSaving", cause=f"the ranks train and are at {at}{used}, but {newest.checkpoint} was not saved: "
            f"{newest.reason}", since=newest.at, actor=Actor.MACHINE,
            action="mend that now: the next checkpoint is tried again, a failure meanwhile costs the steps since "
            f"{view.checkpoint or 'the start'}", evidence=attempts_evidence(view),
        )  # fmt: skip
    return Diagnosis(
        reason="Training", cause=f"the ranks train and are at {at}{used}", since=since, actor=Actor.NOBODY,
        action="wait", evidence=attempts_evidence(view),
    )  # fmt: skip


def _ranks(gang: GangState) -> tuple[Evidence, ...]:
    slowest = sorted(gang.ranks, key=lambda rank: rank.step if rank.step is not None else -1)[:8]
    return tuple(
        Evidence(
            object=f"rank {rank.rank}",
            field=rank.state.value,
            value=f"step {rank.step}" if rank.step is not None else "no step",
        )
        for rank in slowest
    )


def _stages(stages: tuple[StageView, ...]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(object=f"stage {stage.task}", field="state", value=stage.state.value)
        for stage in stages
        if stage.state in (StageState.RUNNING, StageState.LOST, StageState.FAILED)
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    try:
        return parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None
