"""What happened to a run between two looks, in lines for people (pure)."""

from components.contracts.clock import parse_utc
from components.contracts.run_view import CheckpointRow, RunView, StageState, StageView
from components.report.text import plain_line
from pipelines.cli.passed_over import passed_over
from pipelines.cli.present import seconds_text, short

_PROGRESS_SHARE = 0.05
"""A line about steps at least every 5 % of them."""
_PROGRESS_SECONDS = 10.0
"""And not more often than this, except at the last step."""


def changes(before: RunView | None, after: RunView) -> list[str]:
    """What happened between two looks, one line each; nothing when nothing did."""
    lines = []
    for stage in after.stages:
        old = before.stage(stage.task) if before else None
        if stage.state is StageState.WAITING:
            is_told = old is not None and old.engine_message == stage.engine_message
            if stage.engine_message and after.target != "local" and not is_told:
                lines.append(f"{stage.task} waits: {short(stage.engine_message)}")
            continue
        if stage.state is not (old.state if old else StageState.WAITING) or (old and stage.attempts > old.attempts):
            lines.append(_stage_change(stage))
    message = after.engine.message if after.engine and not after.engine.is_over else ""
    if (
        message
        and after.target != "local"
        and (before is None or before.engine is None or before.engine.message != message)
    ):
        lines.append(plain_line(message))
    if after.gang is not None and (before is None or before.gang is None or before.gang.state is not after.gang.state):
        lines.append(
            f"gang {after.gang.state.value}" + (f": {plain_line(after.gang.message)}" if after.gang.message else "")
        )
    if after.held_up and (before is None or after.held_up != before.held_up):
        lines.append(f"gang waits: {plain_line(after.held_up)}")
    told = passed_over(before) if before else []
    lines += [f"resumes from {source}: {text}" for source, text in passed_over(after) if (source, text) not in told]
    known = {row.checkpoint: row.status for row in before.checkpoints} if before else {}
    for row in reversed(after.checkpoints):
        if row.run == after.run and known.get(row.checkpoint) != row.status:
            lines.append(_checkpoint_change(row))
    lost = [item for gang in before.gangs for item in gang.checkpoints] if before else []
    for item in after.gang.checkpoints if after.gang else ():
        if item.state == "abandoned" and item not in lost:
            lines.append(f"checkpoint {item.checkpoint} not saved: {plain_line(item.reason)}")
    return lines


def is_worth_telling(told: RunView | None, now: RunView) -> bool:
    """Whether the steps went on enough since the look that was last told."""
    if now.step is None or (told is not None and told.step == now.step):
        return False
    if told is None or told.step is None or now.step < told.step or now.step == now.total_steps:
        return True
    last, seen = (view.gang.last_step.at if view.gang and view.gang.last_step else "" for view in (now, told))
    if last and seen and (parse_utc(last) - parse_utc(seen)).total_seconds() < _PROGRESS_SECONDS:
        return False
    return now.total_steps is None or now.step - told.step >= _PROGRESS_SHARE * now.total_steps


def _stage_change(stage: StageView) -> str:
    text = f"{stage.task} {stage.state.value}"
    if stage.state is StageState.RUNNING and stage.attempts > 1:
        text += f" again (attempt {stage.attempts})"
    is_over = stage.state in (StageState.SUCCEEDED, StageState.FAILED, StageState.STOPPED)
    if is_over and stage.started_at and stage.ended_at:
        text += f" after {seconds_text((parse_utc(stage.ended_at) - parse_utc(stage.started_at)).total_seconds())}"
    if stage.state is StageState.FAILED:
        text += f" with exit code {stage.exit_code}" if stage.exit_code is not None else ""
        text += f": {short(stage.message)}" if stage.message else ""
    return text


def _checkpoint_change(row: CheckpointRow) -> str:
    text = f"checkpoint {row.checkpoint} {row.status}"
    if row.status == "verified":
        return f"{text} ({row.level})"
    return f"{text}: {plain_line(row.reason)}" if row.reason else text
