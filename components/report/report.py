"""What is left of a run for people and tools: one versioned document, made from the run's view. Pure.

`report.json` is this document; `report.html` shows it (`components.report.html_page`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from components.contracts.checks import CheckReport
from components.contracts.clock import parse_utc, utc_text
from components.contracts.document import Document
from components.contracts.gang import AttemptView, GenerationView, StepView
from components.contracts.lifecycle import RunState
from components.contracts.run_view import CheckpointRow, RunView, StageView
from components.diagnosis.diagnose import Diagnosis, diagnose


class ReportedAttempt(AttemptView):
    """One START of the gang."""

    generation: NonNegativeInt


class ReportedCheckpoint(CheckpointRow):
    """One checkpoint, and what retention decided about it."""

    decision: Literal["keep", "delete", "none"]
    """none: retention has not judged it."""
    decision_reason: str = ""


class DataSummary(Document):
    """What the run trained on."""

    data_version: str
    num_sequences: NonNegativeInt | None = None
    num_tokens: NonNegativeInt | None = None


class GangSummary(Document):
    """Who trained, and what it took."""

    backend: str = ""
    world_size: PositiveInt
    restarts_used: NonNegativeInt
    run_seconds: NonNegativeFloat
    """The ranks' running time over all attempts."""
    generations: tuple[GenerationView, ...]
    attempts: tuple[ReportedAttempt, ...]


class TrainingSummary(Document):
    """How training went. Step times leave out each attempt's first step, which pays for the start."""

    step: NonNegativeInt
    total_steps: PositiveInt | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    median_step_seconds: NonNegativeFloat | None = None
    tokens_per_second: NonNegativeFloat | None = None
    steps: tuple[StepView, ...]
    """The curve that counts: of a step made twice, the later one."""
    abandoned: tuple[tuple[StepView, ...], ...]
    """Stretches that a restart threw away and made again."""


class RunReport(Document):
    """One run, as it stood at `generated_at`."""

    kind: Literal["run-report"] = "run-report"
    version: Literal[1] = 1
    generated_at: str
    run: str
    experiment: str
    model_version: str
    target: str
    storage: str
    state: RunState
    exit_code: int | None = None
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    """The end of the last stage before the exit handler."""
    diagnosis: Diagnosis
    data: DataSummary | None = None
    stages: tuple[StageView, ...]
    checks: tuple[CheckReport, ...]
    gang: GangSummary | None = None
    training: TrainingSummary | None = None
    checkpoint: str | None = None
    checkpoints: tuple[ReportedCheckpoint, ...]
    """Newest first; also those of earlier runs of this experiment and model version."""
    unreadable: tuple[str, ...]
    description: dict[str, Any]


def build_report(view: RunView, now: datetime) -> RunReport:
    """Everything `view` knows, with the diagnosis and the summaries people ask for first."""
    return RunReport(
        generated_at=utc_text(now), run=view.run, experiment=view.experiment, model_version=view.model_version,
        target=view.target, storage=view.storage, state=view.state, exit_code=view.exit_code,
        created_at=view.created_at, started_at=view.started_at, ended_at=_ended_at(view),
        diagnosis=diagnose(view, now), data=_data(view), stages=view.stages, checks=view.checks, gang=_gang(view),
        training=_training(view), checkpoint=view.checkpoint, checkpoints=tuple(_checkpoints(view)),
        unreadable=view.unreadable, description=view.description,
    )  # fmt: skip


def _ended_at(view: RunView) -> str | None:
    if not view.state.is_final:
        return None
    return max((stage.ended_at for stage in view.stages if stage.ended_at and stage.task != "finish"), default=None)


def _data(view: RunView) -> DataSummary | None:
    merge = view.stage("shard-merge")
    if not view.data_version or merge is None:
        return None
    numbers = {
        name: int(merge.outputs[name])
        for name in ("num_sequences", "num_tokens")
        if merge.outputs.get(name, "").isdecimal()
    }
    return DataSummary(data_version=view.data_version, **numbers)


def _gang(view: RunView) -> GangSummary | None:
    if view.gang is None:
        return None
    attempts = [
        ReportedAttempt(**_fields(attempt), generation=gang.generation)
        for gang in view.gangs
        for attempt in gang.attempts
    ]
    return GangSummary(
        backend=view.launch.backend if view.launch else "", world_size=view.gang.world_size,
        restarts_used=view.gang.restarts_used, run_seconds=view.gang.run_seconds_used,
        generations=view.launch.generations if view.launch else (), attempts=tuple(attempts),
    )  # fmt: skip


def _training(view: RunView) -> TrainingSummary | None:
    steps, abandoned = curve([step for gang in view.gangs for step in gang.steps])
    if not steps:
        return None
    firsts = {attempt.first_step for gang in view.gangs for attempt in gang.attempts}
    steady = [step for step in steps if step.step not in firsts] or steps
    times = [step.step_seconds for step in steady if step.step_seconds]
    rates = [step.tokens / step.step_seconds for step in steady if step.tokens and step.step_seconds]
    losses = [step.loss for step in steps if step.loss is not None]
    return TrainingSummary(
        step=steps[-1].step, total_steps=view.total_steps,
        first_loss=losses[0] if losses else None, last_loss=losses[-1] if losses else None,
        median_step_seconds=median(times) if times else None, tokens_per_second=median(rates) if rates else None,
        steps=tuple(steps), abandoned=abandoned,
    )  # fmt: skip


def curve(made: Sequence[StepView]) -> tuple[list[StepView], tuple[tuple[StepView, ...], ...]]:
    """Steps in the order they were made -> the ones that count, and the stretches that were made again.

    [1 2 3 4 | 3 4 5] -> counts 1 2 3 4 5 with the later 3 and 4, abandoned (3 4).
    """
    counting, abandoned = list[StepView](), list[tuple[StepView, ...]]()
    for step in made:
        if counting and step.step <= counting[-1].step:
            first = next(place for place, earlier in enumerate(counting) if earlier.step >= step.step)
            abandoned.append(tuple(counting[first:]))
            del counting[first:]
        counting.append(step)
    return counting, tuple(abandoned)


def _checkpoints(view: RunView) -> Iterable[ReportedCheckpoint]:
    decisions = {item.checkpoint: item for item in view.retention.decisions} if view.retention else {}
    for row in view.checkpoints:
        decision, reason = decisions.get(row.checkpoint), ""
        action: Literal["keep", "delete", "none"] = decision.action if decision else "none"
        if row.status == "retired":  # an earlier plan deleted it; the ledger remembers why
            action, reason = "delete", row.reason or (decision.reason if decision else "")
        elif decision:
            reason = decision.reason
        yield ReportedCheckpoint(**_fields(row), decision=action, decision_reason=reason)


def _fields(document: Document) -> dict[str, Any]:
    return {name: getattr(document, name) for name in type(document).model_fields}


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from `start` to `end`, or None when one is missing."""
    return (parse_utc(end) - parse_utc(start)).total_seconds() if start and end else None
