"""One value for a run, whatever is known about it."""

from pathlib import Path

import pytest

from components.contracts import layout
from components.contracts.gang import GenerationView
from components.contracts.lifecycle import RunState
from components.contracts.run_view import Pace, StageState
from components.report.fold import pace_of
from components.report.run_view import read_run_view
from components.storage.local import LocalStore
from tests.runs import (
    RUN,
    a_checkpoint,
    a_gang,
    a_launch,
    a_node,
    a_record,
    a_stage_record,
    a_step,
    a_stop,
    a_view,
    an_engine,
    at,
)  # fmt: skip

A_GENERATION = GenerationView(generation=0, created_at=at(5))
BEFORE_LAUNCH = (a_node("shard-plan"), a_node("shard-merge"), a_node("preflight"))


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param({}, RunState.SUBMITTED, id="nothing is known yet"),
        pytest.param({"engine": an_engine()}, RunState.SUBMITTED, id="no stage has started"),
        pytest.param(
            {"engine": an_engine(a_node("shard-plan", "Running"))}, RunState.STARTING, id="stages before the gang"
        ),
        pytest.param(
            {"engine": an_engine(*BEFORE_LAUNCH, a_node("launch", "Running"))}, RunState.STARTING, id="no gang yet"
        ),
        pytest.param(
            {"engine": an_engine(*BEFORE_LAUNCH, a_node("launch", "Running")), "gangs": (a_gang(RunState.RUNNING),)},
            RunState.RUNNING,
            id="the gang runs",
        ),
        pytest.param(
            {"engine": an_engine(a_node("launch", "Running")), "gangs": (a_gang(RunState.RESTARTING),)},
            RunState.RESTARTING,
            id="the gang restarts",
        ),
        pytest.param(
            {
                "launch": a_launch(RunState.RUNNING, backend="jobset", exit_code=84, generations=(A_GENERATION,)),
                "stages": (a_stage_record("launch", exit_code=84),),
                "gangs": (a_gang(RunState.RUNNING),),
            },
            RunState.RUNNING,
            id="the launcher was interrupted, and its pods train on",
        ),
        pytest.param(
            {
                "engine": an_engine(*BEFORE_LAUNCH, a_node("launch", "Pending")),
                "launch": a_launch(RunState.RUNNING, backend="jobset", generations=(A_GENERATION,)),
                "stages": (a_stage_record("launch", None),),
                "gangs": (a_gang(RunState.RUNNING),),
            },
            RunState.RUNNING,
            id="the next launcher has not started yet, and the pods train on",
        ),
        pytest.param(
            {
                "launch": a_launch(RunState.RESTARTING, backend="process", exit_code=84, generations=(A_GENERATION,)),
                "stages": (a_stage_record("launch", exit_code=84),),
                "gangs": (a_gang(RunState.RUNNING),),
            },
            RunState.RESTARTING,
            id="the launcher was interrupted, and its processes with it",
        ),
        pytest.param(
            {"engine": an_engine(a_node("launch", "Running")), "gangs": (a_gang(RunState.FAILED),)},
            RunState.RESTARTING,
            id="one generation ended and the launcher still runs",
        ),
        pytest.param(
            {
                "engine": an_engine(a_node("launch"), a_node("verify", "Running")),
                "gangs": (a_gang(RunState.SUCCEEDED),),
            },
            RunState.RUNNING,
            id="verification after the gang",
        ),
        pytest.param({"engine": an_engine(phase="Succeeded")}, RunState.SUCCEEDED, id="succeeded"),
        pytest.param({"engine": an_engine(a_node("launch", "Failed"), phase="Failed")}, RunState.FAILED, id="failed"),
        pytest.param(
            {"engine": an_engine(a_node("launch", "Failed"), phase="Failed", stop=a_stop())},
            RunState.STOPPED,
            id="stopped by somebody",
        ),
        pytest.param(
            {
                "engine": an_engine(a_node("launch", "Failed", exit_code=83), phase="Failed"),
                "launch": a_launch(RunState.STOPPED, reason="RunDeadline"),
            },
            RunState.STOPPED,
            id="stopped by its own limit",
        ),
        pytest.param({"engine": an_engine(phase="Succeeded", stop=a_stop())}, RunState.SUCCEEDED, id="stop came late"),
        pytest.param(
            {"engine": an_engine(a_node("launch", "Running"), alive=False), "gangs": (a_gang(),)},
            RunState.FAILED,
            id="the engine is gone",
        ),
        pytest.param(
            {"stages": (a_stage_record("launch", None),), "gangs": (a_gang(),)},
            RunState.RUNNING,
            id="storage alone is enough",
        ),
    ],
)
def test_a_run_has_one_state(documents, expected):
    assert a_view(**documents).state is expected


@pytest.mark.parametrize(
    ("engine", "exit_code", "failed"),
    [
        (an_engine(phase="Succeeded"), 0, None),
        (an_engine(a_node("launch", "Failed", exit_code=90), phase="Failed"), 90, "launch"),
        (an_engine(a_node("launch", "Failed", exit_code=143), phase="Failed", stop=a_stop()), 83, "launch"),
        (an_engine(a_node("finish", "Failed", exit_code=70), phase="Failed"), 70, "finish"),
        (
            an_engine(
                a_node("preflight", "Failed", exit_code=81, ended_at=at(15)),
                a_node("shard-plan", "Failed", exit_code=78, ended_at=at(14)),
                a_node("finish", "Failed", exit_code=70, ended_at=at(30)),
                phase="Failed",
            ),
            78,
            "shard-plan",
        ),
        (an_engine(a_node("launch", "Error", exit_code=None), phase="Error"), 84, "launch"),
        (an_engine(a_node("launch", "Running"), alive=False), 84, "launch"),
        (an_engine(a_node("launch", "Running")), None, None),
    ],
)
def test_a_run_ends_with_the_code_of_the_stage_that_failed_first(engine, exit_code, failed):
    view = a_view(engine=engine)

    assert (view.exit_code, view.failed_task) == (exit_code, failed)


def test_a_stage_explains_its_newest_attempt_only():
    node = a_node("preflight", "Failed", attempts=2, attempt_started_at=at(15), exit_code=137, message="killed")
    stale = a_stage_record("preflight", 75, reason="NotAnswering", message="NotAnswering: nobody", started_at=at(10))

    stage = a_view(engine=an_engine(node), stages=(stale,)).stage("preflight")

    assert (stage.attempts, stage.exit_code, stage.reason, stage.message) == (2, 137, "", "killed")


def test_a_stage_tells_its_own_reason_and_fix():
    record = a_stage_record("preflight", 81, reason="Unfit", message="Unfit: full; free space", fix="free space")

    stage = a_view(engine=an_engine(a_node("preflight", "Failed", exit_code=81)), stages=(record,)).stage("preflight")

    assert (stage.reason, stage.fix) == ("Unfit", "free space")


def test_a_stage_whose_record_could_not_be_stored_still_has_the_reason_of_its_last_words():
    node = a_node("preflight", "Failed", exit_code=81, last_words="PreflightFailed: 2 checks failed\n  a: b\n  c: d")
    view = a_view(engine=an_engine(node, phase="Failed"))

    assert view.stage("preflight").reason == "PreflightFailed"


def test_tasks_of_the_agent_are_no_stages_of_the_workflow():
    view = a_view(stages=(a_stage_record("training-verify-1"), a_stage_record("verify"), a_stage_record("shard-plan")))

    assert [stage.task for stage in view.stages] == ["shard-plan", "verify"]


def test_how_an_earlier_workflow_ended_is_no_stage_of_the_one_that_runs():
    records = (a_stage_record("shard-merge"), a_stage_record("finish"))
    resumed = an_engine(a_node("preflight", "Running"), started_at=at(30))

    assert [stage.task for stage in a_view(engine=resumed, stages=records).stages] == ["preflight", "shard-merge"]
    by_storage = a_view(stages=records)
    assert [stage.task for stage in by_storage.stages] == ["shard-merge", "finish"]


def test_what_never_ran_is_skipped_and_what_died_with_the_engine_is_lost():
    ended = an_engine(a_node("launch", "Failed"), a_node("verify", "Pending"), phase="Failed")
    gone = an_engine(a_node("launch", "Running"), a_node("verify", "Pending"), alive=False)

    assert a_view(engine=ended).stage("verify").state is StageState.SKIPPED
    assert a_view(engine=gone).stage("launch").state is StageState.LOST
    assert a_view(engine=gone).stage("verify").state is StageState.WAITING


def test_what_ended_because_of_a_stop_did_not_fail():
    nodes = (
        a_node("launch", "Failed", exit_code=83),
        a_node("preflight", "Failed", exit_code=137),
        a_node("shard-plan", "Failed", exit_code=78),
    )

    stopped = a_view(engine=an_engine(*nodes, phase="Failed", stop=a_stop()))
    failed = a_view(engine=an_engine(*nodes, phase="Failed"))

    assert [stage.state.value for stage in stopped.stages] == ["Stopped", "Stopped", "Failed"]
    assert [stage.state.value for stage in failed.stages] == ["Failed", "Failed", "Failed"]


def test_a_list_that_knows_the_engine_alone_calls_stopped_what_a_limit_ended():
    ended = a_node("launch", "Failed", exit_code=83)

    assert a_view(engine=an_engine(ended, phase="Failed", exit_code=83)).state is RunState.STOPPED
    assert a_view(engine=an_engine(ended, phase="Failed", exit_code=90)).state is RunState.FAILED


def test_pace_is_measured_over_the_newest_steps_and_never_across_a_restart():
    steps = [a_step(38, 10), a_step(39, 11), a_step(20, 20), a_step(21, 22), a_step(22, 24)]

    assert pace_of(steps, 32) == Pace(step_seconds=2.0, tokens_per_second=500.0, seconds_left=20.0)


def test_pace_over_a_moment_is_what_the_program_measured():
    steps = [a_step(1, 10, step_seconds=0.25), a_step(2, 10, step_seconds=0.75)]

    assert pace_of(steps, 12) == Pace(step_seconds=0.5, tokens_per_second=2000.0, seconds_left=5.0)


def test_without_progress_lines_there_is_no_pace():
    assert pace_of([], None) == Pace()


def test_the_runs_checkpoint_is_its_own_newest_verified_one():
    rows = (
        a_checkpoint(60, "committed"), a_checkpoint(50, "quarantined"), a_checkpoint(40), a_checkpoint(90, run="other"),
    )  # fmt: skip

    assert a_view(checkpoints=rows).checkpoint == "step-40-term-1"


def test_a_view_is_read_from_storage_alone(tmp_path: Path):
    store = LocalStore(tmp_path)
    store.replace(layout.run_record_key(RUN), a_record().to_bytes())
    store.replace(layout.stage_record_key(RUN, task="launch", attempt=0), a_stage_record("launch", None).to_bytes())
    store.replace(layout.launch_state_key(RUN), a_launch().to_bytes())
    store.replace(layout.gang_state_key(RUN, generation=0), a_gang().to_bytes())
    store.replace(layout.gang_state_key(RUN, generation=1), a_gang(generation=1).to_bytes())
    store.replace(layout.report_key(RUN, suffix="html"), b"<html>")

    view = read_run_view(store, RUN)

    assert (view.state, view.experiment, view.step) == (RunState.RUNNING, "tiny", 40)
    assert [gang.generation for gang in view.gangs] == [0, 1]
    assert view.report == f"file://{tmp_path}/runs/{RUN}/report.html"


@pytest.mark.parametrize("data", [b"{torn", a_gang().to_bytes().replace(at(55).encode(), b"yesterday")])
def test_a_damaged_document_is_named_and_the_rest_is_told(tmp_path: Path, data: bytes):
    store = LocalStore(tmp_path)
    store.replace(layout.run_record_key(RUN), a_record().to_bytes())
    store.replace(layout.gang_state_key(RUN, generation=0), data)
    store.replace(layout.stage_record_key(RUN, task="shard-plan", attempt=0), a_stage_record("shard-plan").to_bytes())

    view = read_run_view(store, RUN)

    assert view.stage("shard-plan").state is StageState.SUCCEEDED
    assert len(view.unreadable) == 1
    assert "gang/g0/state.json is not a readable GangState" in view.unreadable[0]


def test_a_run_nobody_heard_of_is_an_empty_view(tmp_path: Path):
    view = read_run_view(LocalStore(tmp_path), RUN)

    assert (view.state, view.stages, view.unreadable) == (RunState.SUBMITTED, (), ())
