"""The stages on one time axis: bars that can be read, searched and printed, without any script."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from components.contracts.run_view import StageState, StageView
from components.report.figures import ticks
from components.report.html_text import duration, text
from components.report.report import RunReport, seconds_between

_ALONE = 6
"""So many shard tasks get a row each; more share one."""
_MOST_ATTEMPTS = 24
_TONES = {StageState.SUCCEEDED: "b-ok", StageState.FAILED: "b-bad", StageState.LOST: "b-bad"}
_OUTCOMES = {"succeeded": "b-ok", "failed": "b-bad"}


@dataclass(frozen=True)
class _Bar:
    start: str
    end: str
    tone: str
    said: str


@dataclass(frozen=True)
class _Row:
    label: str
    bars: tuple[_Bar, ...]
    note: str = ""
    is_part: bool = False


def timeline(report: RunReport) -> str:
    """The section, or an empty string when nothing has started."""
    rows = list(_rows(report))
    moments = [moment for row in rows for bar in row.bars for moment in (bar.start, bar.end)]
    if not moments:
        return ""
    begin = min(moments)
    total = max(seconds_between(begin, max(moments)) or 0.0, 0.001)
    body = "".join(_row(row, begin, total) for row in rows)
    return f'<section><h2>Timeline</h2><div class="timeline">{body}{_scale(total)}</div></section>'


def _rows(report: RunReport) -> Iterator[_Row]:
    for is_task, group in groupby(report.stages, key=lambda stage: stage.task.startswith("shard-task-")):
        stages = list(group)
        if is_task and len(stages) > _ALONE:
            bars = tuple(bar for stage in stages for bar in _bars(stage, report.generated_at))
            yield _Row(f"shard-task × {len(stages)}", bars)
            continue
        for stage in stages:
            yield _Row(stage.task, tuple(_bars(stage, report.generated_at)), _note(stage))
            if stage.task == "launch":
                yield from _attempts(report)


def _bars(stage: StageView, now: str) -> Iterator[_Bar]:
    if stage.started_at:
        end = stage.ended_at or now
        said = f"{stage.task} {stage.state}, {duration(seconds_between(stage.started_at, end))}"
        yield _Bar(stage.started_at, end, _TONES.get(stage.state, "b-calm"), said)


def _note(stage: StageView) -> str:
    if not stage.started_at:
        return stage.state.lower()
    if stage.state in (StageState.FAILED, StageState.LOST):
        return stage.state.lower() if stage.exit_code is None else f"exit {stage.exit_code}"
    return f"{stage.attempts} attempts" if stage.attempts > 1 else ""


def _attempts(report: RunReport) -> Iterator[_Row]:
    made = report.gang.attempts if report.gang else ()
    if len(made) < 2:
        return  # one start tells nothing the launch bar does not
    for item in made[-_MOST_ATTEMPTS:]:
        end = item.ended_at or report.generated_at
        said = f"term {item.term}: {item.outcome}, {duration(seconds_between(item.started_at, end))}"
        if item.failure:
            said += f"; {item.failure.message}"
        bar = _Bar(item.started_at, end, _OUTCOMES.get(item.outcome, "b-calm"), said)
        name = (
            f"g{item.generation} start {item.attempt}" if report.gang and item.generation else f"start {item.attempt}"
        )
        yield _Row(name, (bar,), item.outcome, is_part=True)


def _row(row: _Row, begin: str, total: float) -> str:
    bars = "".join(_bar(bar, begin, total, row) for bar in row.bars)
    took = [text(row.note)] if row.note else []
    if row.bars:
        took.append(duration(seconds_between(min(bar.start for bar in row.bars), max(bar.end for bar in row.bars))))
    kind = ' class="sub"' if row.is_part else ""
    return (
        f'<div{kind}>{text(row.label)}</div><div class="track">{bars}</div><div class="took">{" · ".join(took)}</div>'
    )


def _bar(bar: _Bar, begin: str, total: float, row: _Row) -> str:
    left = 100 * (seconds_between(begin, bar.start) or 0.0) / total
    width = 100 * (seconds_between(bar.start, bar.end) or 0.0) / total
    kinds = f"bar {bar.tone}" + (" b-thin" if row.is_part else "") + (" b-part" if len(row.bars) > 1 else "")
    return f'<span class="{kinds}" style="left:{left:.2f}%;width:{width:.2f}%" title="{text(bar.said)}"></span>'


def _scale(total: float) -> str:
    marks = [value for value in ticks(0.0, total, at_most=6) if value <= total]
    shown = "".join(f'<span style="left:{100 * value / total:.2f}%">{duration(value)}</span>' for value in marks)
    return f'<div></div><div class="scale">{shown}</div><div></div>'
