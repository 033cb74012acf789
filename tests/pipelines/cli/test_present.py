"""What people read about a run: tables, changes, last words."""

import pytest

from components.contracts.checks import CheckStatus
from components.contracts.clock import parse_utc
from components.contracts.gang import CheckpointView
from components.contracts.lifecycle import RunState
from components.contracts.retention import Decision, RetentionPlan
from components.diagnosis.diagnose import diagnose
from pipelines.cli.changes import changes, is_worth_telling
from pipelines.cli.present import (
    facts,
    in_this_shell,
    last_words,
    progress,
    repeat_command,
    stage_rows,
    status_lines,
    table,
    view_json,
    why_lines,
)
from tests.runs import (
    a_check,
    a_check_report,
    a_checkpoint,
    a_failed_attempt,
    a_failure,
    a_gang,
    a_launch,
    a_node,
    a_stage_record,
    a_step,
    a_view,
    an_engine,
    at,
)

NOW = parse_utc(at(60))
PLAN = RetentionPlan(
    decisions=(
        Decision(checkpoint="step-40-term-1", step=40, action="keep", reason="newest 2 verified"),
        Decision(checkpoint="step-10-term-1", step=10, action="delete", reason="no rule keeps it"),
    )
)


def training(**gang):
    return a_view(
        engine=an_engine(a_node("shard-plan", outputs={"plan_id": "p-1"}), a_node("launch", "Running")),
        gangs=(a_gang(**gang),),
        checkpoints=(a_checkpoint(),),
    )


def succeeded():
    return a_view(
        engine=an_engine(a_node("shard-merge", outputs={"data_version": "d-1"}), a_node("launch"), phase="Succeeded"),
        gangs=(a_gang(RunState.SUCCEEDED, restarts_used=1),),
        checkpoints=(a_checkpoint(), a_checkpoint(10, "retired", reason="no rule keeps it")),
        retention=PLAN,
        report="file:///s/runs/tiny-b2c4d/report.html",
    )


def failed():
    failure = a_failure(last_lines=("Traceback (most recent call last):", "ValueError: bad \x1b[31mbatch"))
    return a_view(
        engine=an_engine(a_node("launch", "Failed", exit_code=90), a_node("verify", "Pending"), phase="Failed"),
        stages=(a_stage_record("launch", 90, reason="WorkerFailed", message="WorkerFailed: rank 1"),),
        gangs=(a_gang(RunState.FAILED, attempts=(a_failed_attempt(failure),), restarts_used=3),),
    )


def test_progress_says_step_loss_rate_and_time_left():
    assert progress(training()) == "step 40 of 60, loss 2.5, 1.0k tokens/s, 20s left"


def test_progress_of_a_program_without_progress_lines_is_empty():
    assert progress(training(last_step=None, steps=())) == ""


def test_columns_are_aligned_and_lines_have_no_trailing_spaces():
    assert table([("a", "bb", ""), ("ccc", "d", "e")]) == ["a    bb", "ccc  d   e"]


def test_many_shard_tasks_share_a_line_that_shows_the_worst():
    nodes = [a_node("shard-task-0"), a_node("shard-task-1", "Running"), a_node("shard-task-2", "Pending")]

    rows = stage_rows(a_view(engine=an_engine(*nodes)), NOW)

    assert rows == [("shard-task ×3", "Running", "1", "50s", "1 of 3 done")]


def test_status_of_a_training_run():
    view = training()

    assert status_lines(view, diagnose(view, NOW), NOW) == [
        "tiny-b2c4d  Running",
        "Training: the ranks train and are at step 40 of 60; wait",
        "",
        "STAGE       STATE      ATTEMPTS  TIME",
        "shard-plan  Succeeded  1         10s   plan_id p-1",
        "launch      Running    1         50s   Running, step 40 of 60, loss 2.5, 1.0k tokens/s, 20s left",
        "",
        "checkpoint  step 40, VERIFIED (tensors), loss 2.5, step-40-term-1",
    ]


def test_a_success_ends_with_data_checkpoint_retention_report_and_the_command_that_repeats_it():
    view = succeeded()

    lines = last_words(view, diagnose(view, NOW), "python pipelines/train.py submit -c run.yaml")

    assert lines == [
        "tiny-b2c4d succeeded: the run finished with step-40-term-1, verified (tensors) after 59s",
        "  data version  d-1",
        "  checkpoint    step 40, VERIFIED (tensors), loss 2.5, step-40-term-1",
        "  kept          step-40-term-1: newest 2 verified",
        "  deleted       step-10-term-1: no rule keeps it",
        "  restarts      1",
        "  report        file:///s/runs/tiny-b2c4d/report.html",
        "  repeat        python pipelines/train.py submit -c run.yaml",
    ]


def test_a_failure_starts_with_cause_and_next_action_and_ends_with_the_command_that_resumes():
    view = failed()

    lines = last_words(view, diagnose(view, NOW), "python pipelines/train.py submit")

    assert lines[0] == (
        "WorkerFailed: rank 1 exited with code 1: ValueError: bad batch (after 3 of 3 restarts); "
        "correct the program, then `python pipelines/train.py resume tiny-b2c4d`"
    )
    assert lines[1:4] == [
        "tiny-b2c4d failed, exit code 90",
        "  | Traceback (most recent call last):",
        "  | ValueError: bad batch",
    ]
    assert lines[-1] == "  resume    python pipelines/train.py resume tiny-b2c4d"


def test_why_shows_the_last_lines_of_the_rank_under_each_other():
    lines = why_lines(diagnose(failed(), NOW))

    assert lines[lines.index("  rank 1, last lines: Traceback (most recent call last):") + 1] == (
        "      ValueError: bad batch"
    )


@pytest.mark.parametrize("view", [training(), succeeded(), failed()])
def test_nothing_that_is_shown_holds_control_characters(view):
    found = diagnose(view, NOW)
    lines = [*status_lines(view, found, NOW), *last_words(view, found, None), *why_lines(found), *changes(None, view)]

    assert all(line.isprintable() for line in lines)


def test_a_change_is_told_once():
    before = a_view(engine=an_engine(a_node("shard-plan", "Running"), a_node("launch", "Pending")))
    after = a_view(
        engine=an_engine(
            a_node("shard-plan"),
            a_node("preflight", "Failed", exit_code=81, message="no space"),
            a_node("launch", "Pending"),
        ),
        checkpoints=(a_checkpoint(), a_checkpoint(90, run="another")),
    )  # fmt: skip

    assert changes(before, after) == [
        "shard-plan Succeeded after 10s",
        "preflight Failed after 10s with exit code 81: no space",
        "checkpoint step-40-term-1 verified (tensors)",
    ]
    assert changes(after, after) == []


def test_a_new_attempt_is_a_change():
    before = a_view(engine=an_engine(a_node("launch", "Running")))
    after = a_view(engine=an_engine(a_node("launch", "Running", attempts=2)))

    assert changes(before, after) == ["launch Running again (attempt 2)"]


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        pytest.param(None, a_step(1, 10), True, id="the first step"),
        pytest.param(a_step(1, 10), a_step(1, 10), False, id="the same step"),
        pytest.param(a_step(1, 10), a_step(9, 15), False, id="too soon"),
        pytest.param(a_step(1, 10), a_step(9, 25), True, id="after a while"),
        pytest.param(a_step(1, 10), a_step(2, 25), False, id="too few steps"),
        pytest.param(a_step(30, 10), a_step(20, 11), True, id="a restart went back"),
        pytest.param(a_step(55, 10), a_step(60, 11), True, id="the last step"),
    ],
)
def test_steps_are_told_now_and_then(told, now, expected):
    told_view = training(last_step=told) if told else None

    assert is_worth_telling(told_view, training(last_step=now)) is expected


def test_a_quarantined_checkpoint_and_unreadable_documents_are_told():
    view = a_view(checkpoints=(a_checkpoint(60, "quarantined", reason="3 NaN"),), unreadable=("x is torn",))

    assert list(facts(view)) == [("quarantined", "step-60-term-1: 3 NaN"), ("unreadable", "x is torn")]


def test_json_of_a_run_holds_the_diagnosis_and_leaves_the_loss_curve_out():
    view = training()

    value = view_json(view, diagnose(view, NOW))

    assert value["state"] == "Running"
    assert value["diagnosis"]["reason"] == "Training"
    assert "steps" not in value["gangs"][0]


def test_our_commands_are_spelled_as_this_shell_called_us(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["/opt/argosy/pipelines/train.py", "why"])

    assert in_this_shell("`python pipelines/train.py resume x`") == "`python /opt/argosy/pipelines/train.py resume x`"


def test_the_command_that_repeats_a_run_can_be_pasted():
    argv = ["pipelines/train.py", "submit", "--set", "launch.command=[python, a b.py]"]

    assert repeat_command(argv) == "python pipelines/train.py submit --set 'launch.command=[python, a b.py]'"


def test_failed_checks_are_told_in_the_headline():
    view = a_view(
        engine=an_engine(a_node("preflight", "Failed", exit_code=81), phase="Failed"),
        stages=(a_stage_record("preflight", 81, reason="Unfit", message="Unfit: x"),),
        checks=(a_check_report(a_check("memory", CheckStatus.FAIL)),),
    )

    assert last_words(view, diagnose(view, NOW), None)[0] == (
        "ChecksFailed: the check memory failed (measured 1 GiB, expected at least 2 GiB); "
        "free memory, then `python pipelines/train.py resume tiny-b2c4d`"
    )


def test_what_keeps_a_gang_from_starting_is_told_once_while_it_is_so():
    engine = an_engine(a_node("launch", "Running"))
    before = a_view(engine=engine, launch=a_launch(RunState.STARTING))
    after = a_view(
        engine=engine, launch=a_launch(RunState.STARTING, message="1 of 2 nodes did not start yet; node 1: x")
    )

    assert changes(before, after) == ["gang waits: 1 of 2 nodes did not start yet; node 1: x"]
    assert changes(after, after) == changes(after, before) == []


def test_a_gang_that_changes_state_is_told_with_its_message():
    before = training()
    after = training(state=RunState.RESTARTING, message="rank 1 exited with code 1")

    assert changes(before, after) == ["gang Restarting: rank 1 exited with code 1"]


def test_a_refused_input_ends_with_every_fault_not_with_their_number():
    message = "CorpusRefused: corpus c/ cannot be packed\n  a.txt: cannot be read\n  b\x1b[2J: its name is not UTF-8"
    view = a_view(
        engine=an_engine(a_node("shard-plan", "Failed", exit_code=78), phase="Failed"),
        stages=(a_stage_record("shard-plan", 78, reason="CorpusRefused", message=message),),
    )

    lines = last_words(view, diagnose(view, NOW), None)

    assert lines[:4] == [
        "CorpusRefused: corpus c/ cannot be packed; correct it and submit again",
        "tiny-b2c4d failed, exit code 78",
        "  - a.txt: cannot be read",
        "  - b: its name is not UTF-8",
    ]
    assert status_lines(view, diagnose(view, NOW), NOW)[1:4] == [lines[0], *lines[2:4]]


def test_deleted_is_what_this_run_deleted_whoever_made_it():
    view = a_view(
        checkpoints=(
            a_checkpoint(30, "retired", run="tiny-older", retired_by="tiny-b2c4d", reason="mine now"),
            a_checkpoint(20, "retired", run="tiny-older", retired_by="tiny-older", reason="long ago"),
            a_checkpoint(10, "retired", retired_by="tiny-newer", reason="later"),
        ),
        retention=RetentionPlan(
            decisions=tuple(
                Decision(checkpoint=f"step-{step}-term-1", step=step, action="delete", reason="x") for step in (30, 20)
            )
        ),
    )

    assert [text for name, text in facts(view) if name == "deleted"] == ["step-30-term-1: mine now"]


def test_a_checkpoint_that_was_not_saved_is_told_once():
    lost = CheckpointView(checkpoint="step-40-term-1", step=40, state="abandoned", reason="no \x1b[2Jspace", at=at(50))
    before, after = training(), training(checkpoints=(lost,))

    assert changes(before, after) == ["checkpoint step-40-term-1 not saved: no space"]
    assert changes(after, after) == []
