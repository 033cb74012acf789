"""Where a gang that has not ended stands: in its queue, held up, starting, training, slow, restarting, or silent."""

from datetime import datetime

from components.contracts.clock import parse_utc
from components.contracts.gang import GangState
from components.contracts.lifecycle import RunState
from components.contracts.run_view import BEFORE_START, RunView, StageState
from components.contracts.units import format_duration, parse_duration
from components.diagnosis.gang import attempts_evidence, gang_waits_for, last_failure
from components.diagnosis.pending import beginning, explain_pending
from components.diagnosis.queue_place import diagnose_place
from components.diagnosis.verdict import Actor, Diagnosis, Evidence, described, logs_command, max_restarts
from components.diagnosis.worker import explain_worker

_SILENT_SECONDS = 60.0
"""Agent 0 writes every 5 s; a state this old means that nobody writes it."""
_SLOW_SHARE = 0.5
"""Share of a limit after which people should look."""


def diagnose_gang(view: RunView, now: datetime) -> Diagnosis | None:
    """What the gang is doing now; None while nobody has said a word of one, or the launch stage is over.

    `now` is only compared with times the run wrote.
    """
    launch = view.stage("launch")
    is_running = launch is not None and launch.state is StageState.RUNNING
    queue = view.launch.queue if view.launch else None
    if is_running and queue is not None:
        return diagnose_place(view, queue)
    if is_running and view.held_up:
        return _held_up(view)
    if view.gang is not None and launch is not None and (is_running or _trains_on(view)):
        return _gang(view, view.gang, now)
    return None


def _held_up(view: RunView) -> Diagnosis:
    message = view.held_up
    generations = view.launch.generations if view.launch is not None else ()
    avoided = generations[-1].excluded_nodes if generations else ()
    found = explain_pending(message, "the gang", avoided=avoided).diagnosis()
    limit = _seconds(described(view, "launch", "limits", "start"))
    return Diagnosis(
        reason=found.reason, cause=f"{found.cause}: {beginning(message)}"
        + (f"; it is given up {format_duration(limit)} after its start" if limit is not None else ""),
        since=generations[-1].created_at if generations else view.created_at,
        actor=found.actor, action=found.action,
        evidence=(Evidence(object="gang", field="cluster says", value=message), *attempts_evidence(view)),
    )  # fmt: skip


def _trains_on(view: RunView) -> bool:
    """Between two launchers: the run stands as its gang does."""
    return view.gang is not None and not view.gang.state.is_final and view.state is view.gang.state


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
    if gang.state in BEFORE_START:
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


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    try:
        return parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None
