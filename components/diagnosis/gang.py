"""Why the launch stage ended as it did: the gang's first failure, its limits, its checks, its ledger."""

from components.contracts.checks import CheckResult
from components.contracts.gang import AttemptView, Failure, FailureKind, GangState
from components.contracts.run_view import RunView, StageView
from components.contracts.units import format_duration
from components.diagnosis.verdict import (
    Actor,
    Diagnosis,
    Evidence,
    described,
    logs_command,
    max_restarts,
    resume_command,
)
from components.diagnosis.worker import explain_worker
from components.errors import ExitCode

_MAX_ATTEMPTS = 8
_OUT_OF_RESTARTS = (ExitCode.WORKER_FAILED, ExitCode.HANG, ExitCode.PEER_LOST, ExitCode.NODE_FAULT)


def diagnose_launch(view: RunView, stage: StageView) -> Diagnosis | None:
    """The launch stage failed: say why, or None when nothing but its own message is known."""
    code = stage.exit_code
    if stage.reason == "RunActive":
        return _claimed_elsewhere(view, stage)
    if code == ExitCode.NO_PROGRESS:
        return _no_progress(view, stage)
    failure = last_failure(view)
    if code == ExitCode.VERIFICATION_FAILED or stage.reason == "NodeUnfit":
        return None  # whatever failed before, that is what ended it, and the stage names checks and nodes
    if failure is not None and (code in _OUT_OF_RESTARTS or failure.kind in _LIMITS):
        return _by_failure(view, stage, failure)
    return None


def last_failure(view: RunView) -> Failure | None:
    """The first failure of the newest attempt that failed."""
    for gang in reversed(view.gangs):
        for attempt in reversed(gang.attempts):
            if attempt.failure is not None:
                return attempt.failure
    return None


def failure_evidence(view: RunView, failure: Failure) -> tuple[Evidence, ...]:
    """What stands behind a gang failure: the rank's end, its last lines, the attempts, the newest good checkpoint."""
    who = f"rank {failure.rank}" if failure.rank is not None else f"node {failure.node_rank or 0}"
    ending = f"exit code {failure.exit_code}" if failure.exit_code is not None else failure.signal
    facts = [Evidence(object=who, field="first failure", value=f"{failure.kind.value} at {failure.at}")]
    if ending:
        facts.append(Evidence(object=who, field="ended by", value=ending))
    if failure.message:
        facts.append(Evidence(object=who, field="message", value=failure.message))
    facts += [Evidence(object=who, field="last lines", value=line) for line in failure.last_lines[-8:]]
    return (*facts, *attempts_evidence(view))


def attempts_evidence(view: RunView) -> tuple[Evidence, ...]:
    """How often the ranks were started, how far each start got, what is left of the budget."""
    facts = []
    for generation in view.launch.generations[1:] if view.launch else ():
        cost = "charged" if generation.charged else "not charged"
        value = f"{generation.begin_reason or 'unknown'}, {cost}"
        facts.append(Evidence(object=f"generation {generation.generation}", field="began because", value=value))
    for gang in view.gangs:
        for attempt in gang.attempts:
            name = f"attempt {gang.generation}.{attempt.attempt}"
            facts.append(Evidence(object=name, field="outcome", value=_attempt_text(attempt)))
    facts = facts[-_MAX_ATTEMPTS:]
    for row in view.checkpoints:
        if row.run == view.run and row.status == "quarantined":
            facts.append(Evidence(object=f"checkpoint {row.checkpoint}", field="quarantined", value=row.reason))
    if view.gang is not None:
        budget = max_restarts(view)
        used = f"{view.gang.restarts_used}" + (f" of {budget}" if budget is not None else "")
        facts.append(Evidence(object="gang", field="restarts used", value=used))
    if view.checkpoint:
        facts.append(Evidence(object="checkpoint", field="newest good", value=view.checkpoint))
    return tuple(facts)


def check_evidence(results: list[CheckResult]) -> tuple[Evidence, ...]:
    """Measured against expected, one line a check."""
    return tuple(
        Evidence(
            object=f"check {result.name}" + (f" ({result.subject})" if result.subject else ""),
            field=result.status.value,
            value=f"measured {result.measured}, expected {result.expected} (from {result.origin})",
        )
        for result in results
    )


def _attempt_text(attempt: AttemptView) -> str:
    text: str = attempt.outcome
    if attempt.last_step is not None:
        text += f" at step {attempt.last_step}"
    text += f", resumed from {attempt.resumed_from}" if attempt.resumed_from else ", from step 0"
    if attempt.failure is not None:
        text += f": {attempt.failure.kind.value}"
    return text


def _by_failure(view: RunView, stage: StageView, failure: Failure) -> Diagnosis:
    reason, cause, actor, action = _explain(view, failure)
    budget = max_restarts(view)
    if budget and failure.kind not in _LIMITS and view.gang is not None:
        cause += f" (after {view.gang.restarts_used} of {budget} restarts)"
    return Diagnosis(
        reason=reason, cause=cause, since=stage.ended_at or failure.at, actor=actor, action=action,
        evidence=(_stage_evidence(stage), *failure_evidence(view, failure)),
    )  # fmt: skip


def _explain(view: RunView, failure: Failure) -> tuple[str, str, Actor, str]:
    resume = resume_command(view)
    node = f"node {failure.node_rank}" if failure.node_rank is not None else "a node"
    match failure.kind:
        case FailureKind.HANG:
            behind = f" (rank {failure.rank} is behind)" if failure.rank is not None else ""
            return (
                "Hang", f"no rank made a step within {_limit(view, 'no_progress')}{behind}", Actor.PROGRAM,
                f"look where the ranks wait: {logs_command(view)}; slow steps need a longer launch.limits.no_progress",
            )  # fmt: skip
        case FailureKind.AGENT_LOST:
            return (
                "AgentLost", f"the agent of {node} is gone: {failure.message}", Actor.MACHINE,
                f"see whether that machine or its memory failed, then {resume}",
            )  # fmt: skip
        case FailureKind.GUARD_LOST:
            return (
                "GuardLost", f"the guard of {node} is gone: {failure.message}", Actor.MACHINE,
                f"see whether something killed it (the out-of-memory killer is in `dmesg`), then {resume}",
            )  # fmt: skip
        case FailureKind.START_DEADLINE:
            return (
                "StartDeadline", f"the gang did not start within {_limit(view, 'start')}: {failure.message}",
                Actor.SUBMITTER, "see which agent did not join in the log, or give launch.limits.start more time",
            )  # fmt: skip
        case FailureKind.RUN_DEADLINE:
            return (
                "RunDeadline", f"training used up its {_limit(view, 'run')}", Actor.SUBMITTER,
                "raise launch.limits.run and submit again: "
                f"it continues from the newest checkpoint ({view.checkpoint or 'none yet'})",
            )  # fmt: skip
        case _:
            worker = explain_worker(failure)
            return worker.reason, worker.cause, worker.actor, f"{worker.action}, then {resume}"


_LIMITS = (FailureKind.START_DEADLINE, FailureKind.RUN_DEADLINE)


def _claimed_elsewhere(view: RunView, stage: StageView) -> Diagnosis:
    claim = view.claim if view.claim and view.claim.run != view.run else None
    # The holder may have ended since; then the stage's own words are what is left.
    seen = stage.message.partition("\n")[0].removeprefix("RunActive: ").partition("; ")[0]
    what = f"{view.experiment} {view.model_version}".strip()
    cause = f"run {claim.run} ({claim.owner}) has been training {what} since {claim.since}" if claim else seen
    return Diagnosis(
        reason="RunActive", cause=cause, since=stage.ended_at, actor=Actor.SUBMITTER,
        action=f"wait for it or stop it, then {resume_command(view)}; or use another experiment or model_version",
        evidence=(_stage_evidence(stage), Evidence(object="stage launch", field="saw", value=seen)),
    )  # fmt: skip


def _no_progress(view: RunView, stage: StageView) -> Diagnosis:
    failure = last_failure(view)
    cause = "several attempts in a row ended at the same step"
    last = next(
        (a.last_step for g in reversed(view.gangs) for a in reversed(g.attempts) if a.last_step is not None), None
    )
    if last is not None:
        cause += f" ({last})"
    actor, action = Actor.PROGRAM, "look at what that step does: restarting again would not help"
    if failure is not None:
        worker = explain_worker(failure)
        cause, actor, action = f"{cause}: {worker.cause}", worker.actor, f"{worker.action}, then {resume_command(view)}"
    evidence = failure_evidence(view, failure) if failure else attempts_evidence(view)
    return Diagnosis(
        reason="NoProgress", cause=cause, since=stage.ended_at, actor=actor, action=action,
        evidence=(_stage_evidence(stage), *evidence),
    )  # fmt: skip


def _stage_evidence(stage: StageView) -> Evidence:
    return Evidence(object=f"stage {stage.task}", field="exit code", value=str(stage.exit_code))


def _limit(view: RunView, name: str) -> str:
    value = described(view, "launch", "limits", name)
    if isinstance(value, int | float):
        return format_duration(value)
    return str(value) if value else f"launch.limits.{name}"


def gang_waits_for(gang: GangState, num_nodes: int) -> str:
    """What a starting gang still lacks."""
    if gang.num_joined < num_nodes:
        return f"{gang.num_joined} of {num_nodes} agents joined"
    return "all agents joined; their checks run or the ranks are starting"
