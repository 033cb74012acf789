"""`report.html`: the report as one self-contained page. No script, nothing loaded, readable in twenty years."""

from components.report import html_sections as sections
from components.report.figures import Line, Mark, line_figure
from components.report.html_style import STYLE
from components.report.html_text import duration, moment, number, text
from components.report.html_timeline import timeline
from components.report.report import RunReport, TrainingSummary

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever a worker wrote into its output, the browser loads and runs nothing."""


def render_html(report: RunReport) -> str:
    """The whole page."""
    body = "".join([
        sections.header(report), sections.verdict(report), sections.cards(report), _training(report), timeline(report),
        sections.attempts(report), sections.checkpoints(report), sections.checks(report), sections.description(report),
        _footer(report),
    ])  # fmt: skip
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(report.run)}: {text(report.state)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _training(report: RunReport) -> str:
    training = report.training
    if training is None:
        return ""
    shown = "".join(
        f"<figure><h3>{title}</h3>{legend}{figure}</figure>"
        for title, legend, figure in (_loss(report, training), _step_time(training))
        if figure
    )
    return f'<section><h2>Training</h2><div class="figures">{shown}</div></section>' if shown else ""


def _loss(report: RunReport, training: TrainingSummary) -> tuple[str, str, str]:
    lines = [
        Line([(step.step, step.loss) for step in part if step.loss is not None], "abandoned")
        for part in training.abandoned
    ]
    lines.append(Line([(step.step, step.loss) for step in training.steps if step.loss is not None], "main"))
    marks = _restarts(report) + _checkpoint_marks(report)
    figure = line_figure(lines, title="Loss by step", x_label="step", y_format=number, marks=marks)
    keys = [("main", "accent", "loss")]
    if training.abandoned:
        keys.append(("abandoned", "muted", "made again after a restart"))
    if any(mark.style == "restart" for mark in marks):
        keys.append(("abandoned", "bad", "restart"))
    for style, colour in (("verified", "ok"), ("committed", "warn"), ("quarantined", "bad"), ("retired", "muted")):
        if any(mark.style == style for mark in marks):
            keys.append(("diamond", colour, f"checkpoint {style}"))
    return "Loss", _legend(keys), figure


def _step_time(training: TrainingSummary) -> tuple[str, str, str]:
    total = [(step.step, step.step_seconds) for step in training.steps if step.step_seconds is not None]
    waiting = [
        (step.step, (step.data_seconds or 0.0) + (step.comm_seconds or 0.0))
        for step in training.steps
        if step.data_seconds is not None or step.comm_seconds is not None
    ]
    lines = [Line(waiting, "second"), Line(total, "main")] if waiting else [Line(total, "main")]
    figure = line_figure(
        lines, title="Step time by step", x_label="step", y_format=lambda value: duration(value), from_zero=True
    )
    keys = [("main", "accent", "whole step")] + ([("main", "second", "data and communication")] if waiting else [])
    return "Step time", _legend(keys), figure


def _restarts(report: RunReport) -> list[Mark]:
    made = report.gang.attempts if report.gang else ()
    return [
        Mark(item.resumed_step, "restart", f"start {item.attempt} (term {item.term}) from step {item.resumed_step}")
        for item in made[1:]
    ]


def _checkpoint_marks(report: RunReport) -> list[Mark]:
    return [
        Mark(row.step, row.status, f"{row.checkpoint}: {row.status}")
        for row in reversed(report.checkpoints[: sections.MOST_ROWS])
        if row.run == report.run
    ]


def _legend(keys: list[tuple[str, str, str]]) -> str:
    if len(keys) < 2:
        return ""
    shown = "".join(
        f'<span><i class="{kind}" style="{_ink(kind, colour)}"></i>{said}</span>' for kind, colour, said in keys
    )
    return f'<div class="legend">{shown}</div>'


def _ink(kind: str, colour: str) -> str:
    filled = f";background:var(--{colour})" if kind == "diamond" and colour != "muted" else ""
    return f"border-color:var(--{colour}){filled}"


def _footer(report: RunReport) -> str:
    where = f' Storage: <span class="id">{text(report.storage)}</span>.' if report.storage else ""
    written = f"Written {moment(report.generated_at)} by Argosy. The same for programs: report.json beside this file."
    return f"<footer>{written}{where}</footer>"
