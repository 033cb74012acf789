"""Turns a `RunView` into lines of text: the table of stages, what changed since last time, the last words (pure)."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from components.contracts.clock import parse_utc
from components.contracts.gang import GangState
from components.contracts.lifecycle import RunState
from components.contracts.lists import some_of
from components.contracts.run_view import RunView, StageState, StageView
from components.contracts.units import format_duration
from components.diagnosis.diagnose import Diagnosis
from components.diagnosis.verdict import COMMAND
from components.errors import ExitCode
from components.report.text import plain, plain_line
from pipelines.cli.passed_over import passed_over

_NAMES_SHOWN = 4
_SHARD_TASK = re.compile(r"shard-task-\d+$")


def stage_rows(view: RunView, now: datetime, *, with_progress: bool = True) -> list[tuple[str, str, str, str, str]]:
    """Stage, state, attempts, time, what it does. Many shard tasks share a line."""
    rows = []
    for name, stages in _grouped(view.stages):
        state = _common_state(stages)
        attempts = max(stage.attempts for stage in stages)
        rows.append(
            (
                name,
                state.value,
                str(attempts) if attempts else "",
                _time(stages, now),
                _detail(view, stages, with_progress),
            )
        )
    return rows


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns, two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def status_lines(view: RunView, diagnosis: Diagnosis, now: datetime) -> list[str]:
    """What `status` prints."""
    lines = [f"{view.run}  {view.state.value}" + (f"  exit code {view.exit_code}" if view.exit_code else "")]
    if diagnosis.reason != "Succeeded":
        lines += [headline(diagnosis), *_fault_lines(diagnosis)]
    lines.append("")
    lines += table([("STAGE", "STATE", "ATTEMPTS", "TIME", ""), *stage_rows(view, now)])
    lines.append("")
    lines += table(list(facts(view)))
    return [line.rstrip() for line in lines]


def progress(view: RunView) -> str:
    """`step 120 of 300, loss 2.41, 12.3k tokens/s, 1m20s left`; empty before the first step."""
    if view.step is None:
        return ""
    parts = [f"step {view.step}" + (f" of {view.total_steps}" if view.total_steps else "")]
    if view.loss is not None:
        parts.append(f"loss {view.loss:.4g}")
    if view.pace.tokens_per_second is not None:
        parts.append(f"{_count(view.pace.tokens_per_second)} tokens/s")
    if view.pace.seconds_left is not None and view.state is RunState.RUNNING and view.step != view.total_steps:
        parts.append(f"{format_duration(round(view.pace.seconds_left))} left")
    return ", ".join(parts)


def last_words(view: RunView, diagnosis: Diagnosis, repeat: str | None) -> list[str]:
    """What `submit` and `resume` end with: for a failure the cause first, then what is there and how to go on."""
    if view.state is RunState.SUCCEEDED:
        lines = [f"{view.run} succeeded: {diagnosis.cause}"]
    else:
        lines = [headline(diagnosis), f"{view.run} {view.state.value.lower()}, exit code {view.exit_code}"]
        lines += _fault_lines(diagnosis)
        lines += [f"  | {plain_line(item.value)}" for item in diagnosis.evidence if item.field == "last lines"]
    known = list(facts(view))
    width = max(len(name) for name, _ in [*known, ("resume", "")])
    lines += [f"  {name:<{width}}  {text}" for name, text in known]
    # With a wrong input the same run would only fail again.
    is_wrong = view.exit_code == ExitCode.BAD_INPUT and diagnosis.reason != "RunActive"
    repeats = view.state is RunState.SUCCEEDED or is_wrong
    again = repeat if repeats else f"{COMMAND} resume {view.run}"
    if again:
        name = "repeat" if repeats else "resume"
        lines.append(f"  {name:<{width}}  {in_this_shell(again)}")
    return [line.rstrip() for line in lines]


def _fault_lines(diagnosis: Diagnosis) -> list[str]:
    """What the headline only counts: every fault of a bad input or an unfit machine."""
    faults = [item.value for item in diagnosis.evidence if item.field == "fault"]
    is_told = diagnosis.reason == "ChecksFailed" and len(faults) == 1
    return [] if is_told else [f"  - {in_this_shell(plain_line(fault))}" for fault in faults]


def headline(diagnosis: Diagnosis) -> str:
    """Cause and next action, with our own commands as this shell can run them."""
    return in_this_shell(plain_line(diagnosis.headline))


def in_this_shell(text: str) -> str:
    """`text` with our commands spelled the way this process was called."""
    program = sys.argv[0]
    return text.replace(COMMAND, f"python {program}") if Path(program).name == Path(COMMAND).name else text


def repeat_command(argv: Sequence[str]) -> str:
    """The command line that was given, to give it again."""
    return f"{COMMAND} {shlex.join(argv[1:])}"


def view_json(view: RunView, diagnosis: Diagnosis) -> dict[str, Any]:
    """What `-o json` prints of a run. The loss curve is left to report.json."""
    value = view.as_json()
    for gang in value.get("gangs", ()):
        gang.pop("steps", None)
    return {**value, "diagnosis": diagnosis.as_json()}


def why_lines(diagnosis: Diagnosis) -> list[str]:
    """What `why` prints: cause and next action, then the evidence."""
    lines = [headline(diagnosis), ""]
    if diagnosis.since:
        lines.append(f"since   {local_time(diagnosis.since)}")
    lines.append(f"acts    {diagnosis.actor.who}: {diagnosis.actor.value}")
    rows = [(item.object, item.field, in_this_shell(plain_line(item.value))) for item in diagnosis.evidence]
    for previous, row in zip([("", "", ""), *rows], rows, strict=False):
        is_repeated = row[:2] == previous[:2]
        lines.append(
            f"  {'' if is_repeated else f'{row[0]}, {row[1]}: '}{row[2]}" if not is_repeated else f"      {row[2]}"
        )
    return lines


def facts(view: RunView) -> Iterator[tuple[str, str]]:
    """Data version, checkpoint, what was kept and deleted and why, where the report is."""
    if view.data_version:
        yield "data version", view.data_version
    row = next((row for row in view.checkpoints if row.checkpoint == view.checkpoint), None)
    if row is not None:
        level = f"VERIFIED ({row.level})" if row.status == "verified" else row.status
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in sorted(row.metrics.items()))
        yield "checkpoint", f"step {row.step}, {level}" + (f", {metrics}" if metrics else "") + f", {row.checkpoint}"
    elif view.checkpoint:
        yield "checkpoint", view.checkpoint
    for source, text in passed_over(view):
        yield "resumed from", f"{source}: {text}"
    for row in view.checkpoints:
        if row.run == view.run and row.status == "quarantined":
            yield "quarantined", f"{row.checkpoint}: {plain_line(row.reason)}"
    for decision in view.retention.decisions if view.retention else ():
        if decision.action == "keep":
            yield "kept", f"{decision.checkpoint}: {decision.reason}"
    deleted: dict[str, list[str]] = {}
    for checkpoint, reason in _deleted(view):
        deleted.setdefault(reason, []).append(checkpoint)
    for reason, names in deleted.items():
        yield "deleted", f"{some_of(names, most=_NAMES_SHOWN)}: {reason}"
    if view.gang is not None and view.gang.restarts_used:
        yield "restarts", str(view.gang.restarts_used)
    if view.report:
        yield "report", view.report
    for text in view.unreadable:
        yield "unreadable", plain_line(text)


def local_time(moment: str) -> str:
    """`2026-11-29 19:03:11` in this machine's zone."""
    return parse_utc(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _deleted(view: RunView) -> Iterator[tuple[str, str]]:
    """What this run retired, whoever made it, and what its newest plan is about to."""
    retired = {row.checkpoint for row in view.checkpoints if row.status == "retired"}
    for row in view.checkpoints:
        if row.status == "retired" and (row.retired_by or row.run) == view.run:
            yield row.checkpoint, plain_line(row.reason)
    for decision in view.retention.decisions if view.retention else ():
        if decision.action == "delete" and decision.checkpoint not in retired:
            yield decision.checkpoint, decision.reason


def _grouped(stages: Sequence[StageView]) -> Iterator[tuple[str, list[StageView]]]:
    tasks = [stage for stage in stages if _SHARD_TASK.match(stage.task)]
    told = False
    for stage in stages:
        if len(tasks) < 2 or not _SHARD_TASK.match(stage.task):
            yield stage.task, [stage]
        elif not told:
            told = True
            yield f"shard-task ×{len(tasks)}", tasks


def _common_state(stages: Sequence[StageView]) -> StageState:
    """The state that matters most among several tasks: a failure, then work, then what is left to do."""
    states = {stage.state for stage in stages}
    order = (
        StageState.FAILED, StageState.LOST, StageState.STOPPED, StageState.RUNNING, StageState.WAITING,
        StageState.SKIPPED,
    )  # fmt: skip
    return next((state for state in order if state in states), StageState.SUCCEEDED)


def _time(stages: Sequence[StageView], now: datetime) -> str:
    started = min((stage.started_at for stage in stages if stage.started_at), default=None)
    if started is None or not any(stage.attempts for stage in stages):
        return ""
    is_over = all(stage.ended_at or stage.state is not StageState.RUNNING for stage in stages)
    ended = max((stage.ended_at for stage in stages if stage.ended_at), default=None)
    end = parse_utc(ended) if is_over and ended else None if is_over else now
    return seconds_text((end - parse_utc(started)).total_seconds()) if end else ""


def _detail(view: RunView, stages: Sequence[StageView], with_progress: bool) -> str:
    stage = stages[0]
    if len(stages) > 1:
        done = sum(item.state is StageState.SUCCEEDED for item in stages)
        return f"{done} of {len(stages)} done" if done < len(stages) else ""
    if stage.task == "launch" and stage.state is StageState.RUNNING and view.gang is not None:
        restarts = f"restarts {view.gang.restarts_used}" if view.gang.restarts_used else ""
        text = (progress(view) if with_progress else "") if view.step is not None else _joined(view.gang)
        return ", ".join(part for part in (view.gang.state.value, text, restarts) if part)
    if stage.state is StageState.WAITING:
        return short(stage.engine_message) if view.target != "local" else ""
    if stage.state.ended_badly:
        return short(stage.message or (f"exit code {stage.exit_code}" if stage.exit_code is not None else ""))
    return short(
        ", ".join(f"{name} {value}" for name, value in sorted(stage.outputs.items()) if value and name != "report")
    )


def _joined(gang: GangState) -> str:
    return f"{gang.num_joined} agent{'' if gang.num_joined == 1 else 's'} joined"


def short(text: str) -> str:
    """The first line of a message, as much as fits a column."""
    text = plain_line(plain(text).partition("\n")[0])
    return text if len(text) <= 160 else text[:159] + "…"


def seconds_text(seconds: float) -> str:
    """`3.2s`, `1m20s`."""
    return f"{max(seconds, 0):.1f}s" if seconds < 10 else format_duration(round(seconds))


def _count(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"
