"""The answer to `why` from everything observed: the run's own account and the cluster's objects, weighed. Pure.

The run's own words win where they are specific: a traceback explains more than an exit code. Where they only say that
something waits, was lost or was killed, the cluster's objects say why.
"""

from dataclasses import dataclass
from datetime import datetime

from components.contracts.run_view import RunView, StageView
from components.diagnosis.diagnose import diagnose
from components.diagnosis.explain import explain
from components.diagnosis.finding import Finding, Life, Urgency
from components.diagnosis.gang import last_failure
from components.diagnosis.messages import understood
from components.diagnosis.observed import Observed
from components.diagnosis.surroundings import stage_of
from components.diagnosis.verdict import Actor, Diagnosis, Evidence

_VAGUE = frozenset({
    "Lost", "Failed", "Killed", "Terminated", "AgentLost", "GuardLost", "PeerLost", "LauncherLost", "Interrupted",
    "StartDeadline", "NodeFault", "StageFailed", "NodeUnfit", "EnvironmentUnfit", "Stopped", "Preempted",
})  # fmt: skip
"""How a run that ended may describe it without knowing the cause."""

_SETTLED = frozenset({"Stopping", "RunActive", "Failing", "WorkflowGone", "EngineDead", "Succeeded", "StopRequested"})
"""Answers that no object of the cluster adds to."""

_CALM = frozenset({"Training", "NoStepYet", "NotSaving", "NoProgress"})
"""The ranks run: only what takes a node or a pod away matters now."""
_TAKES_AWAY = frozenset({"NodeLost", "StuckTerminating", "Preempted", "PreemptedByScheduler", "Evicted", "OutOfMemory",
                         "TaintedAway", "NodeShutdown", "Disrupted", "DiskLimit"})  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What `why` says."""

    diagnosis: Diagnosis
    others: tuple[Diagnosis, ...] = ()
    """Further causes, in the order in which they matter."""


def judge(observed: Observed, now: datetime) -> Answer:
    """The cause to name first, and the others."""
    view = observed.view
    own = diagnose(view, now)
    if own.reason in _SETTLED:
        return Answer(own)
    findings = explain(observed, now) if observed.is_of_cluster else ()
    if view.state.is_final:
        return _of_ended(observed, own, findings)
    if own.reason in _CALM:
        findings = tuple(item for item in findings if item.reason in _TAKES_AWAY)
    faults = [item for item in findings if item.is_fault]
    found = [item.diagnosis() for item in (faults or findings)]
    if not found:
        return Answer(_read(view, own))
    if not faults and own.actor is not Actor.NOBODY:
        return Answer(own)
    first = found[0]
    return Answer(_with_run(first, own), tuple(found[1:]))


def _of_ended(observed: Observed, own: Diagnosis, findings: tuple[Finding, ...]) -> Answer:
    """A run that ended: what its last pods show counts where the run itself does not know more."""
    view = observed.view
    if own.reason not in _VAGUE and not _is_engines(view, own):
        return Answer(own)
    ended = [item for item in findings if item.is_fault and item.life is not Life.LEAVING]
    if ended:
        found = [item.diagnosis() for item in ended]
        return Answer(_with_run(found[0], own), tuple(found[1:]))
    return Answer(_of_deleted_pod(observed, own) or _read(view, own))


def _of_deleted_pod(observed: Observed, own: Diagnosis) -> Diagnosis | None:
    """Who deletes a stage's pod sends it SIGTERM, and takes it away: Argo keeps the pods of all other attempts."""
    stage = observed.view.stage(observed.view.failed_task) if observed.view.failed_task else None
    if own.reason != "Terminated" or stage is None or not observed.workflows or "pods" in observed.withheld:
        return None
    left = sum(stage_of(pod) == stage.task for pod in observed.pods)
    known = understood("pod deleted")
    if left >= max(1, stage.attempts) or known is None:
        return None
    gone = Evidence(object=f"pods of stage {stage.task}", field="number", value=f"{left} of {stage.attempts} attempts")
    return Diagnosis(
        reason=known.reason, cause=f"stage {stage.task}: {known.cause}", since=own.since, actor=known.actor,
        action=known.action, evidence=(gone, *own.evidence),
    )  # fmt: skip


def _is_engines(view: RunView, own: Diagnosis) -> bool:
    """Whether the answer only repeats Argo's words."""
    stage = view.stage(view.failed_task) if view.failed_task else None
    return stage is not None and not stage.reason and stage.exit_code is None


def _read(view: RunView, own: Diagnosis) -> Diagnosis:
    """Where the objects are gone, what their last words were: in Argo's message, or the launcher's."""
    for source, message in _last_words(view, own):
        known = understood(message)
        if known is None or known.urgency is Urgency.NORMAL:
            continue
        cause = f"{source}: {known.cause}"
        return Diagnosis(
            reason=known.reason, cause=cause, since=own.since, actor=known.actor, action=known.action,
            evidence=(Evidence(object=source, field="message", value=message), *own.evidence),
        )  # fmt: skip
    return own


def _last_words(view: RunView, own: Diagnosis) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    failure = last_failure(view)
    if own.reason in _VAGUE and failure is not None and failure.message:
        found.append((f"node {failure.node_rank}" if failure.node_rank is not None else "the gang", failure.message))
    stage: StageView | None = view.stage(view.failed_task) if view.failed_task else None
    stages = [stage] if stage is not None else [item for item in view.stages if item.engine_message]
    found += [(item.task, item.engine_message) for item in stages if item.engine_message and not item.reason]
    if view.engine is not None and view.engine.message and not stages:
        found.append(("the Workflow", view.engine.message))
    return found


def _with_run(found: Diagnosis, own: Diagnosis) -> Diagnosis:
    """The cluster's cause, with what the run itself says behind it."""
    said = Evidence(object="run", field=own.reason, value=own.cause)
    return found.model_copy(update={"evidence": (*found.evidence, said)})
