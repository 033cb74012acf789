"""Why is this run where it is, and what now? A pure function of the run's view and the time."""

from datetime import datetime

from components.contracts.clock import parse_utc
from components.contracts.lifecycle import RunState
from components.contracts.run_view import RunView
from components.contracts.units import format_duration
from components.diagnosis.gang import attempts_evidence, diagnose_launch
from components.diagnosis.progress import diagnose_progress
from components.diagnosis.stages import diagnose_stage
from components.diagnosis.verdict import COMMAND, OWN_WORDS, Actor, Diagnosis, Evidence, resume_command

__all__ = ["Actor", "Diagnosis", "Evidence", "diagnose"]


def diagnose(view: RunView, now: datetime) -> Diagnosis:
    """The cause of a run's state, the evidence for it, whose move it is and what to do next."""
    if view.state is RunState.SUCCEEDED:
        return _succeeded(view)
    if view.state is RunState.STOPPED:
        return _stopped(view)
    if not view.state.is_final or (view.engine is not None and view.engine.was_lost):
        return diagnose_progress(view, now)
    if view.engine is not None and (match := OWN_WORDS.fullmatch(view.engine.message)):
        return Diagnosis(
            reason=match["reason"], cause=match["seen"], since=view.ended_at, actor=Actor.MACHINE,
            action=match["fix"] or f"then {resume_command(view)}", evidence=attempts_evidence(view),
        )  # fmt: skip
    failed = view.stage(view.failed_task) if view.failed_task else None
    if failed is not None:
        return diagnose_stage(view, failed)
    message = (view.launch.message if view.launch else "") or (view.engine.message if view.engine else "")
    return Diagnosis(
        reason=(view.launch.reason if view.launch else "") or "Failed",
        cause=message or "the run failed and no stage says why", since=view.ended_at, actor=Actor.ARGOSY,
        action=f"look at its log with `{COMMAND} logs {view.run}`", evidence=attempts_evidence(view),
    )  # fmt: skip


def _succeeded(view: RunView) -> Diagnosis:
    row = next((row for row in view.checkpoints if row.checkpoint == view.checkpoint), None)
    if view.checkpoint is None:
        cause = "the run finished without checkpoints"
    elif row is not None and row.status == "verified":
        cause = f"the run finished with {view.checkpoint}, verified ({row.level})"
    else:
        cause = f"the run finished with {view.checkpoint}"
    if view.started_at and view.ended_at:
        seconds = (parse_utc(view.ended_at) - parse_utc(view.started_at)).total_seconds()
        cause += f" after {format_duration(round(seconds))}"
    return Diagnosis(
        reason="Succeeded", cause=cause, since=view.ended_at, actor=Actor.NOBODY,
        action=f"see it with `{COMMAND} checkpoints list`" if view.checkpoint else "nothing is left to do",
        evidence=attempts_evidence(view),
    )  # fmt: skip


def _stopped(view: RunView) -> Diagnosis:
    failed = view.stage(view.failed_task) if view.failed_task else None
    if view.stop is not None:
        how = "killed" if view.stop.force else "stopped"
        cause = f"{view.stop.by} {how} the run"
        if view.step is not None:
            cause += f" at step {view.step}"
        facts = [
            Evidence(
                object="stop request", field="by", value=view.stop.by + (f" at {view.stop.at}" if view.stop.at else "")
            )
        ]
        facts += [
            Evidence(object=f"stage {stage.task}", field="ended", value=stage.message or f"exit code {stage.exit_code}")
            for stage in view.stages
            if stage.state.ended_badly and stage.task != "finish"
        ]
        return Diagnosis(
            reason="StopRequested", cause=cause, since=view.stop.at, actor=Actor.SUBMITTER,
            action=f"continue with {resume_command(view)}" + (f" from {view.checkpoint}" if view.checkpoint else ""),
            evidence=(*facts, *attempts_evidence(view)),
        )  # fmt: skip
    found = diagnose_launch(view, failed) if failed is not None and failed.task == "launch" else None
    if found is not None:
        return found
    if failed is not None:
        return diagnose_stage(view, failed)
    return Diagnosis(
        reason=(view.launch.reason if view.launch else "") or "Stopped",
        cause=(view.launch.message if view.launch else "") or "the run was stopped",
        since=view.ended_at, actor=Actor.SUBMITTER, action=f"continue with {resume_command(view)}",
        evidence=attempts_evidence(view),
    )  # fmt: skip
