"""A resume that falls back past a damaged checkpoint is told: while it happens and at the end."""

import pytest

from components.contracts.run_view import CheckpointRow, RunView
from pipelines.cli.changes import changes
from pipelines.cli.live import LiveShow
from pipelines.cli.passed_over import passed_over
from pipelines.cli.present import facts
from tests.runs import RUN, a_checkpoint, a_gang, a_record, a_view, an_attempt

REASON = "model.safetensors: SHA-256 differs"
TOLD = f"step-18-term-3 passed over, quarantined: {REASON}"


def a_row(step: int, of_term: int, **changes: object) -> CheckpointRow:
    values = {"checkpoint": f"step-{step}-term-{of_term}", "term": of_term, "run": "gpt-older"}
    return a_checkpoint(step, **values | changes)


def damaged(**changes: object) -> CheckpointRow:
    return a_row(18, 3, **{"status": "quarantined", "reason": REASON} | changes)


def resumed(*rows: CheckpointRow, source: str = "step-12-term-2", resume: str = "latest") -> RunView:
    attempt = an_attempt(term=4, resumed_from=source, resumed_step=12)
    description = {"experiment": "tiny", "resume": {"from": resume}}
    view: RunView = a_view(
        gangs=(a_gang(attempts=(attempt,)),), checkpoints=rows, record=a_record(description=description)
    )
    return view


def test_a_damaged_newer_checkpoint_is_told_once_and_in_the_summary() -> None:
    before, after = a_view(), resumed(damaged(), a_row(12, 2))

    assert f"resumes from step-12-term-2: {TOLD}" in changes(before, after)
    assert changes(after, after) == []
    assert ("resumed from", f"step-12-term-2: {TOLD}") in list(facts(after))


def test_it_is_told_when_the_quarantine_is_seen_after_the_attempt() -> None:
    before, after = resumed(a_row(18, 3), a_row(12, 2)), resumed(damaged(), a_row(12, 2))

    assert changes(before, after) == [f"resumes from step-12-term-2: {TOLD}"]


def test_it_is_still_told_after_retention_took_the_damaged_one_away() -> None:
    retired = damaged(status="retired", reason=f"quarantined: {REASON}")

    assert passed_over(resumed(retired, a_row(12, 2))) == [("step-12-term-2", TOLD)]


def test_the_live_view_shows_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show = LiveShow()
    show.update(resumed(damaged(), a_row(12, 2)))
    show.close()

    assert f"resumes from step-12-term-2: {TOLD}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(resumed(a_row(18, 3), damaged(checkpoint="step-6-term-1"), source="step-18-term-3"), id="older"),
        pytest.param(resumed(damaged(term=5), a_row(12, 2)), id="damaged only later"),
        pytest.param(resumed(damaged(), a_row(12, 2), resume="step:12"), id="of another run, and 12 was asked for"),
        pytest.param(resumed(damaged(), a_row(12, 2, run=RUN)), id="of another run, and this run had its own"),
        pytest.param(resumed(a_row(18, 3, status="retired", reason="no rule keeps it"), a_row(12, 2)), id="retired"),
    ],
)
def test_nothing_is_told_where_nothing_was_passed_over(view: RunView) -> None:
    assert passed_over(view) == []
