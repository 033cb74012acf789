"""Which damaged checkpoints the attempts of a run fell back past: a resume to an older step is never silent (pure)."""

from collections.abc import Iterator

from components.contracts.gang import AttemptView
from components.contracts.run_view import CheckpointRow, RunView
from components.report.text import plain_line

_QUARANTINED = "quarantined: "


def passed_over(view: RunView) -> list[tuple[str, str]]:
    """What was resumed from, and `step-18-term-3 passed over, quarantined: <reason>`; one for each such resume."""
    attempts = [attempt for gang in view.gangs for attempt in gang.attempts if attempt.resumed_from]
    found = [(attempt.resumed_from or "", "; ".join(_newer_damaged(view, attempt))) for attempt in attempts]
    return list(dict.fromkeys(item for item in found if item[1]))


def _newer_damaged(view: RunView, attempt: AttemptView) -> Iterator[str]:
    source = next((row for row in view.checkpoints if row.checkpoint == attempt.resumed_from), None)
    # Those of other runs are looked at only for `latest`, and only until the run has a good one of its own.
    is_latest = ((view.description.get("resume") or {}).get("from") or "latest") == "latest"
    sees_all = is_latest and source is not None and source.run != view.run
    for row in view.checkpoints:  # newest first
        if row is source:
            return
        reason = _quarantine_reason(row)
        if reason and row.term < attempt.term and (sees_all or row.run == view.run):
            yield f"{row.checkpoint} passed over, {_QUARANTINED}{reason}"


def _quarantine_reason(row: CheckpointRow) -> str:
    """Also of one that retention has retired since; empty when it was not quarantined."""
    if row.status == "quarantined":
        return plain_line(row.reason) or "damaged"
    return plain_line(row.reason).removeprefix(_QUARANTINED) if row.reason.startswith(_QUARANTINED) else ""
