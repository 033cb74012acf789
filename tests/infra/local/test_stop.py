"""Stopping a run: gracefully like `argo stop`, at once like `argo terminate`."""

import json
import signal
import time

from components.runtime.processes import is_alive
from infra.local.client import request_stop
from tests.infra.local.engine_process import until
from tests.infra.local.workflows import a_shell, a_task, a_workflow, grace, retries

PATIENT = 'trap "echo told; exit 83" TERM; echo ready; sleep 61 & wait'
DEAF = 'trap "" TERM; echo ready; sleep 61 & while true; do wait; done'


def test_a_stop_ends_the_run_failed_and_runs_the_exit_handler(engine):
    run = engine(
        a_workflow(
            [a_task("a"), a_task("b", depends="a")],
            [a_shell("a", PATIENT, **retries(3)), a_shell("b", "true"), a_shell("fin", "echo {{workflow.status}}")],
            onExit="fin",
        )
    ).start()
    run.until_said("a", "ready")
    asked = time.monotonic()
    request_stop(run.run_dir, by="me@here")

    assert run.wait() == 83
    assert time.monotonic() - asked < 20  # well below the grace of 30 s
    state = run.state
    assert (state.phase, state.message, state.stopped_by) == ("Failed", "Stopped with strategy 'Stop'", "me@here")
    assert run.phases() == {"a": "Failed", "b": "Omitted", "onExit": "Succeeded"}
    assert len(state.nodes["a"].attempts) == 1
    assert state.nodes["a"].exit_code == 83
    assert state.nodes["a"].note == "Stopped with strategy 'Stop'"
    assert run.output("a") == "ready\ntold\n"
    assert run.output("onExit") == "Failed\n"


def test_a_container_that_ignores_a_stop_is_killed_after_its_grace(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", DEAF, **grace(1))])).start()
    run.until_said("a", "ready")
    request_stop(run.run_dir, by="me")

    assert run.wait() == 83
    assert run.state.nodes["a"].exit_code == 137


def test_a_forced_stop_kills_at_once_and_runs_no_exit_handler(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", DEAF), a_shell("fin", "true")], onExit="fin")).start()
    run.until_running("a")
    family = until(lambda: pids if len(pids := run.family()) >= 3 else None)
    request_stop(run.run_dir, by="me", force=True)

    assert run.wait() == 83
    assert run.state.message == "Stopped with strategy 'Terminate'"
    assert run.phases() == {"a": "Failed"}
    assert not any(is_alive(pid, None) for pid in family)


def test_a_graceful_stop_can_be_made_a_forced_one(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", DEAF)])).start()
    run.until_running("a")
    request_stop(run.run_dir, by="me")
    run.until(lambda state: state.stopped_by is not None)
    request_stop(run.run_dir, by="me", force=True)

    assert run.wait() == 83
    assert run.state.stop_is_forced


def test_a_stop_that_came_before_the_engine_starts_nothing(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "true")]))
    request_stop(run.run_dir, by="me")

    assert run.run() == 83
    assert run.phases() == {"a": "Failed"}
    assert run.state.nodes["a"].message == "workflow shutdown with strategy: Stop"
    assert run.state.nodes["a"].attempts == ()


def test_a_damaged_stop_file_still_stops(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", PATIENT)])).start()
    run.until_running("a")
    run.run_dir.stop_path.write_text("{")

    assert run.wait() == 83
    assert run.state.stopped_by == "somebody"


def test_a_stop_does_not_touch_the_exit_handler_of_a_run_that_succeeded(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "true"), a_shell("fin", "sleep 0.7")], onExit="fin")).start()
    run.until_running("onExit")
    request_stop(run.run_dir, by="me")

    assert run.wait() == 0
    assert run.state.phase == "Succeeded"


def test_an_engine_told_to_go_lets_its_containers_end_and_can_be_resumed(engine):
    script = 'test {{retries}} = 1 && exit 0; trap "exit 84" TERM; echo ready; sleep 61 & wait'
    run = engine(a_workflow([a_task("a")], [a_shell("a", script, **retries(0))])).start()
    run.until_said("a", "ready")
    run.process.send_signal(signal.SIGTERM)

    assert run.wait() == 84
    assert run.state.phase == "Running"
    assert not run.run_dir.engine_alive()
    assert run.run("--resume") == 0
    assert [attempt.is_lost for attempt in run.state.nodes["a"].attempts] == [True, False]


def test_the_stop_request_says_who_and_when(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "true")]))
    request_stop(run.run_dir, by="me@here", force=True)

    request = json.loads(run.run_dir.stop_path.read_text())
    assert (request["by"], request["force"], request["at"].endswith("Z")) == ("me@here", True, True)


def test_a_stop_ends_a_backoff_at_once(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "exit 75", **retries(3, backoff={"duration": "5m"}))])).start()
    run.until(lambda state: "a" in state.nodes and state.nodes["a"].note == "Backoff for 5m")
    request_stop(run.run_dir, by="me")

    assert run.wait() == 83
    assert run.state.nodes["a"].note == "Stopped with strategy 'Stop'"


def test_sigterm_reaches_the_whole_process_group_through_a_shell_wrapper(engine):
    script = "trap : TERM; sh -c 'trap \"echo inner; exit 0\" TERM; echo ready; sleep 61 & wait'; echo outer"
    run = engine(a_workflow([a_task("a")], [a_shell("a", script)])).start()
    run.until_said("a", "ready")
    request_stop(run.run_dir, by="me")

    assert run.wait() == 83
    assert run.output("a") == "ready\ninner\nouter\n"
