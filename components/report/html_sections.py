"""The sections of report.html that are tables and text."""

import json
from collections.abc import Iterator

from components.contracts.checks import CheckResult, CheckStatus
from components.contracts.gang import Failure
from components.contracts.lifecycle import RunState
from components.contracts.units import format_size
from components.diagnosis.verdict import Actor
from components.report.html_text import NOTHING, Tone, badge, compact, duration, moment, number, prose, table, text
from components.report.report import ReportedAttempt, ReportedCheckpoint, RunReport, seconds_between

MOST_ROWS = 200
"""Rows of one table; report.json holds the rest."""

_STATE_TONES: dict[RunState, Tone] = {RunState.SUCCEEDED: "ok", RunState.FAILED: "bad"}
_STATE_SIGNS = {RunState.SUCCEEDED: "✓ ", RunState.FAILED: "✗ ", RunState.STOPPED: "■ "}
_STATUS_TONES: dict[str, Tone] = {"verified": "ok", "committed": "warn", "quarantined": "bad", "retired": "calm"}
_CHECK_TONES: dict[CheckStatus, Tone] = {
    CheckStatus.OK: "ok", CheckStatus.WARN: "warn", CheckStatus.FAIL: "bad", CheckStatus.UNKNOWN: "warn",
}  # fmt: skip
_OUTCOME_TONES: dict[str, Tone] = {"succeeded": "ok", "failed": "bad", "stopped": "calm", "running": "calm"}


def state_tone(state: RunState) -> Tone:
    return _STATE_TONES.get(state, "calm")


def header(report: RunReport) -> str:
    """Experiment, state, and the facts that identify the run."""
    took = seconds_between(report.started_at, report.ended_at or report.generated_at)
    facts = [
        ("model version", text(report.model_version)), ("target", text(report.target)),
        ("started", moment(report.started_at)), ("took", duration(took)),
    ]  # fmt: skip
    if report.gang:
        facts.append(("ranks", str(report.gang.world_size)))
    if report.data:
        facts.append(("data", f'<span class="id">{text(report.data.data_version)}</span>'))
    shown = "".join(f"<span>{name} <b>{value}</b></span>" for name, value in facts if value not in ("", NOTHING))
    sign = _STATE_SIGNS.get(report.state, "")
    return (
        f'<header><div class="over">Argosy training run</div><div class="title"><h1>{text(report.run)}</h1>'
        f'{badge(f"{sign}{report.state}", state_tone(report.state))}</div><div class="facts">{shown}</div></header>'
    )


def cards(report: RunReport) -> str:
    """The five figures people open the report for."""
    shown = list(_cards(report))
    made = "".join(
        f'<div class="card"><div class="name">{name}</div><div class="value">{value}</div>'
        f'<div class="note">{note or "&nbsp;"}</div></div>'
        for name, value, note in shown
    )
    return f'<div class="cards">{made}</div>' if shown else ""


def _cards(report: RunReport) -> Iterator[tuple[str, str, str]]:
    training, gang = report.training, report.gang
    if training:
        if training.last_loss is not None:
            yield "Loss", number(training.last_loss), f"from {number(training.first_loss)}"
        total = f"of {training.total_steps:,}" if training.total_steps else ""
        yield "Step", f"{training.step:,}", total
        if training.median_step_seconds is not None:
            rate = f"{compact(training.tokens_per_second)} tokens/s" if training.tokens_per_second else "median"
            yield "Step time", duration(training.median_step_seconds), rate
    kept = next((row for row in report.checkpoints if row.checkpoint == report.checkpoint), None)
    if kept:
        yield "Checkpoint", f"step {kept.step:,}", f"{kept.status} ({kept.level})" if kept.level else kept.status
    if gang:
        starts = len(gang.attempts)
        note = f"{starts} start{'s' if starts != 1 else ''} in {duration(gang.run_seconds)}"
        yield "Restarts used", str(gang.restarts_used), note
    if report.data and report.data.num_tokens:
        sequences = f" in {report.data.num_sequences:,} sequences" if report.data.num_sequences else ""
        yield "Data", compact(report.data.num_tokens), f"tokens{sequences}"


def verdict(report: RunReport) -> str:
    """The diagnosis: cause, what to do, the evidence."""
    found, is_good = report.diagnosis, report.state is RunState.SUCCEEDED
    failure = None if is_good else _last_failure(report)
    lines = _last_lines(failure) if failure else ""
    # What the tables below show is not said twice: nothing for a good run, and last lines only as they were printed.
    shown = [item for item in found.evidence if not is_good and not (lines and item.field == "last lines")]
    facts = "".join(f"<dt>{text(item.object)}</dt><dd>{text(item.field)}: {text(item.value)}</dd>" for item in shown)
    cause = prose(found.cause) if is_good else f"{text(found.reason)}: {prose(found.cause)}"
    who = "" if found.actor is Actor.NOBODY else f" <span>({text(found.actor)})</span>"
    return (
        f'<section class="verdict is-{state_tone(report.state)}"><div class="cause">{_capital(cause)}.</div>'
        f'<p class="next">Next: {prose(found.action)}.{who}</p>'
        + (f"<dl>{facts}</dl>" if facts else "")
        + lines
        + "</section>"
    )


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _last_failure(report: RunReport) -> Failure | None:
    attempts = report.gang.attempts if report.gang else ()
    return attempts[-1].failure if attempts else None


def _last_lines(failure: Failure) -> str:
    if not failure.last_lines:
        return ""
    return f"<pre>{text(chr(10).join(failure.last_lines))}</pre>"


def attempts(report: RunReport) -> str:
    """Every START of the gang, and what ended it."""
    if not report.gang or not report.gang.attempts:
        return ""
    head = [
        ("Start", ""), ("Resumed from", ""), ("Steps", "n"), ("To first step", "n"), ("Took", "n"), ("Outcome", ""),
        ("What ended it", ""),
    ]  # fmt: skip
    shown = report.gang.attempts[-MOST_ROWS:]
    return _section("Attempts of the gang", table(head, [_attempt(report, item) for item in shown]))


def _attempt(report: RunReport, item: ReportedAttempt) -> str:
    several = len({other.generation for other in report.gang.attempts}) > 1 if report.gang else False
    name = f"g{item.generation} / {item.attempt}" if several else str(item.attempt)
    made = "none" if item.last_step is None else f"{item.first_step} – {item.last_step}"
    ended = item.ended_at or (report.generated_at if item.outcome == "running" else None)
    charged = ' <span class="more">used a restart</span>' if item.charged else ""
    return (
        f'<tr><td class="nowrap">{name} <span class="more">term {item.term}</span></td>'
        f"<td>{text(item.resumed_from) if item.resumed_from else 'step 0'}</td>"
        f'<td class="n">{made}</td><td class="n">{duration(seconds_between(item.started_at, item.first_step_at))}</td>'
        f'<td class="n">{duration(seconds_between(item.started_at, ended))}</td>'
        f"<td>{badge(item.outcome, _OUTCOME_TONES[item.outcome])}{charged}</td><td>{_ending(item.failure)}</td></tr>"
    )


def _ending(failure: Failure | None) -> str:
    if failure is None:
        return NOTHING
    where = [f"rank {failure.rank}"] if failure.rank is not None else []
    where += [f"node {failure.node_rank}"] if failure.node_rank is not None else []
    where += [failure.signal] if failure.signal else []
    where += [f"exit code {failure.exit_code}"] if failure.exit_code is not None and not failure.signal else []
    lines = _last_lines(failure)
    more = f"<details><summary>last output</summary>{lines}</details>" if lines else ""
    return (
        f'{text(failure.message)}<div class="more">{text(failure.kind)}{" · " if where else ""}{text(", ".join(where))}'
        f"</div>{more}"
    )


def checkpoints(report: RunReport) -> str:
    """What exists, how far each can be trusted, and why it was kept or deleted."""
    if not report.checkpoints:
        return ""
    head = [
        ("Checkpoint", ""), ("Loss", "n"), ("State", ""), ("Size", "n"), ("Committed (UTC)", ""), ("Retention", ""),
    ]  # fmt: skip
    rows = [_checkpoint(report, row) for row in report.checkpoints[:MOST_ROWS]]
    hidden = len(report.checkpoints) - len(rows)
    note = f'<p class="none">{hidden} older ones are in report.json.</p>' if hidden else ""
    return _section("Checkpoints", table(head, rows) + note)


def _checkpoint(report: RunReport, row: ReportedCheckpoint) -> str:
    other = "" if row.run == report.run else f'<div class="more">of run {text(row.run)}</div>'
    word = {"keep": "kept", "delete": "deleted", "none": "not judged"}[row.decision]
    reason = f" – {text(row.decision_reason)}" if row.decision_reason else ""
    pinned = "pinned; " if row.pinned else ""
    level = f' <span class="more">{text(row.level)}</span>' if row.level else ""
    why = f'<div class="more">{text(row.reason)}</div>' if row.status == "quarantined" and row.reason else ""
    return (
        f'<tr><td class="nowrap"><span class="id">{text(row.checkpoint)}</span>{other}</td>'
        f'<td class="n">{number(row.metrics.get("loss"))}</td>'
        f"<td>{badge(row.status, _STATUS_TONES[row.status])}{level}{why}</td>"
        f'<td class="n">{format_size(row.size_bytes)}</td>'
        f'<td class="nowrap">{moment(row.committed_at).removesuffix(" UTC")}</td>'
        f"<td>{pinned}<b>{word}</b>{reason}</td></tr>"
    )


def checks(report: RunReport) -> str:
    """Every check with what was measured and why that was expected; what is not ok comes first."""
    rows = []
    for group in report.checks:
        name = "Preflight" if group.subject == "preflight" else f"Node {group.subject}"
        rows.append(f'<tr class="group"><td colspan="4">{text(name)}</td></tr>')
        ordered = sorted(group.results, key=lambda result: (result.status is CheckStatus.OK, not result.blocks))
        rows.extend(_check(result) for result in ordered)
    if not rows:
        return ""
    head = [("Check", ""), ("Result", ""), ("Measured", ""), ("Expected", "")]
    results = [result for group in report.checks for result in group.results]
    counts = [(status, sum(result.status is status for result in results)) for status in CheckStatus]
    summary = ", ".join(f"{count} {status}" for status, count in counts if count)
    return _section("Checks", f"<p>{summary}.</p>" + table(head, rows))


def _check(result: CheckResult) -> str:
    subject = f'<div class="more">{text(result.subject)}</div>' if result.subject else ""
    remedy = f"<div>{prose(result.remedy)}</div>" if result.remedy and result.status is not CheckStatus.OK else ""
    kind = "" if result.hard else ' <span class="more">soft</span>'
    return (
        f"<tr><td>{text(result.name.replace('_', ' '))}{subject}</td>"
        f"<td>{badge(result.status, _CHECK_TONES[result.status])}{kind}</td><td>{text(result.measured)}{remedy}</td>"
        f'<td>{text(result.expected)}<div class="more">{text(result.origin)}</div></td></tr>'
    )


def description(report: RunReport) -> str:
    """The run as it was compiled, and what could not be read of it."""
    shown = ""
    if report.unreadable:
        items = "".join(f"<li>{text(item)}</li>" for item in report.unreadable)
        shown += f"<p>These documents could not be read:</p><ul>{items}</ul>"
    if report.description:
        written = json.dumps(report.description, indent=2, ensure_ascii=False, sort_keys=True)
        shown += f"<details><summary>run description as compiled</summary><pre>{text(written)}</pre></details>"
    return _section("Run description", shown) if shown else ""


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"
