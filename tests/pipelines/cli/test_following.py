"""submit and resume follow a run: exit code, live view, Ctrl-C; with the real engine and a real terminal."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.local import client
from infra.local.run_dir import RunDir
from tests.pipelines.cli.conftest import argosy, finish, processes_of, start_argosy, wait_until
from tests.pipelines.cli.terminal import a_terminal

MakeRun = Callable[..., RunDir]
LONG = "echo begun; sleep 100 & sleep 100; wait"
GRACEFUL = "trap 'echo stopping; exit 83' TERM; echo begun; while true; do sleep 0.05; done"
STUBBORN = "trap '' TERM; echo begun; while true; do sleep 0.05; done"


def test_without_a_terminal_each_change_is_one_plain_line(a_run: MakeRun):
    a_run({"shard-plan": "true", "preflight": "exit 81"}, after={"preflight": "shard-plan"})

    done = argosy("resume")

    lines = [re.sub(r"^\d\d:\d\d:\d\d |\b\d+\.\d(?=s)", "", line) for line in done.stdout.splitlines()]
    assert done.returncode == 81
    assert all(line.isprintable() for line in lines)
    assert lines[0] == "target local: resuming run tiny-b2c4d, which was Submitted"
    assert "shard-plan Succeeded after s" in lines
    assert "preflight Failed after s with exit code 81" in lines
    assert lines[-3].startswith("EnvironmentUnfit: preflight found the environment unfit; ")
    assert lines[-2] == "tiny-b2c4d failed, exit code 81"
    assert re.fullmatch(r"  resume  python \S*train\.py resume tiny-b2c4d", lines[-1])


def test_a_run_that_succeeds_ends_with_the_command_that_repeats_it(a_run: MakeRun):
    a_run({"shard-plan": "true"})

    done = argosy("resume")

    assert done.returncode == 0
    assert re.fullmatch(r"  repeat  python \S*train\.py submit --recipe tiny", done.stdout.splitlines()[-1])


def test_a_resumed_run_tells_only_what_is_new(a_run: MakeRun, tmp_path: Path):
    mark = tmp_path / "mended"
    finish(a_run({"shard-plan": "true", "preflight": f"test -e {mark}"}, after={"preflight": "shard-plan"}))
    mark.touch()

    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in argosy("resume").stdout.splitlines()]

    assert lines[0] == "target local: resuming run tiny-b2c4d, which was Failed"
    assert not any(line.startswith(("shard-plan", "preflight Failed")) for line in lines)
    assert any(line.startswith("preflight Succeeded after ") for line in lines)


def test_json_of_a_followed_run_is_one_document(a_run: MakeRun):
    a_run({"shard-plan": "exit 78"})

    done = argosy("resume", "-o", "json")

    assert done.returncode == 78
    assert json.loads(done.stdout)["exit_code"] == 78


def test_a_succeeded_run_is_not_resumed(a_run: MakeRun):
    finish(a_run({"shard-plan": "true"}))

    done = argosy("resume")

    assert done.returncode == 78
    assert done.stderr.startswith("NothingToResume: run tiny-b2c4d has succeeded")


def test_a_detached_run_goes_on_by_itself_and_can_be_stopped(a_run: MakeRun):
    run = a_run({"shard-plan": GRACEFUL})

    assert json.loads(argosy("resume", "--detach", "-o", "json").stdout)["run"] == "tiny-b2c4d"
    wait_until(lambda: "begun" in argosy("logs").stdout)
    assert argosy("resume").returncode == 78  # it runs
    stopped = argosy("stop")
    wait_until(lambda: not run.engine_alive())

    assert stopped.returncode == 0
    value = json.loads(argosy("status", "-o", "json").stdout)
    assert (value["state"], value["exit_code"]) == ("Stopped", 83)
    assert value["diagnosis"]["reason"] == "StopRequested"
    assert "@" in value["stop"]["by"]
    assert argosy("stop").returncode == 78


def test_stop_with_force_returns_when_nothing_is_left(a_run: MakeRun, home: Path):
    run = a_run({"shard-plan": STUBBORN})
    client.start_engine(run)
    wait_until(lambda: "begun" in argosy("logs").stdout)

    done = argosy("stop", "--force")

    assert done.returncode == 0
    assert processes_of(home) == []
    assert json.loads(argosy("status", "-o", "json").stdout)["state"] == "Stopped"


@pytest.mark.e2e
def test_a_terminal_shows_a_live_table(a_run: MakeRun):
    a_run({"shard-plan": "sleep 1", "preflight": "exit 81"}, after={"preflight": "shard-plan"})

    with a_terminal("resume") as terminal:
        terminal.wait_for("Running")
        code = terminal.wait()

    assert code == 81
    assert "\x1b[" in terminal.seen
    assert "stage" in terminal.seen
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.seen).splitlines()
    assert any(re.match(r"shard-plan +Succeeded +1 +\d[\d.]*s", line) for line in last)
    assert last[-2] == "tiny-b2c4d failed, exit code 81"


@pytest.mark.e2e
def test_ctrl_c_once_stops_gracefully(a_run: MakeRun, home: Path):
    a_run({"shard-plan": GRACEFUL})

    with a_terminal("resume") as terminal:
        wait_until(lambda: "begun" in argosy("logs").stdout)
        terminal.press_ctrl_c()
        terminal.wait_for("Ctrl-C again kills them")
        code = terminal.wait()

    assert code == 83
    assert "StopRequested: " in terminal.seen
    assert "stopping" in argosy("logs").stdout
    assert processes_of(home) == []


@pytest.mark.e2e
def test_ctrl_c_twice_kills(a_run: MakeRun, home: Path):
    a_run({"shard-plan": STUBBORN, "preflight": LONG})

    with a_terminal("resume") as terminal:
        wait_until(lambda: argosy("logs").stdout.count("begun") == 2)
        terminal.press_ctrl_c()
        terminal.wait_for("Ctrl-C again kills them")
        terminal.press_ctrl_c()
        code = terminal.wait()

    assert code == 83
    assert "killed the run" in terminal.seen
    assert processes_of(home) == []
    assert not list(home.rglob(".new-*"))
    assert not list(home.rglob(".stop-*"))


@pytest.mark.e2e
def test_a_follower_that_is_told_to_end_leaves_the_run_alone(a_run: MakeRun):
    run = a_run({"shard-plan": GRACEFUL})

    follower = start_argosy("resume", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: "begun" in argosy("logs").stdout)
    follower.send_signal(signal.SIGTERM)
    _, errors = follower.communicate(timeout=30)

    assert follower.returncode == 84
    assert "run tiny-b2c4d goes on" in errors
    assert run.engine_alive()


@pytest.mark.e2e
def test_a_follower_that_nobody_reads_leaves_the_run_alone(a_run: MakeRun):
    run = a_run({"shard-plan": "sleep 1", "preflight": GRACEFUL}, after={"preflight": "shard-plan"})

    follower = start_argosy("resume", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("target local: ")
    follower.stdout.close()
    follower.stdout = None
    _, errors = follower.communicate(timeout=30)

    assert follower.returncode == 84
    assert errors.startswith("FollowingEnded: nobody reads this output any more; run tiny-b2c4d goes on; ")
    assert run.engine_alive()


def test_nothing_starts_when_nobody_reads_that_it_does(a_run: MakeRun):
    run = a_run({"shard-plan": "true"})
    reader, writer = os.pipe()
    os.close(reader)

    follower = start_argosy("resume", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, errors = follower.communicate(timeout=30)

    assert (follower.returncode, errors) == (
        84,
        "NotStarted: nobody reads this output; use --detach to start and leave\n",
    )
    assert not run.engine_log_path.exists()


@pytest.mark.e2e
def test_a_run_whose_engine_was_killed_says_so_and_resumes_where_it_was(a_run: MakeRun, tmp_path: Path):
    mark = tmp_path / "again"
    run = a_run(
        {"shard-plan": "echo once", "launch": f"test -e {mark} || {{ touch {mark}; sleep 60; }}"},
        after={"launch": "shard-plan"},
    )

    follower = start_argosy("resume", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(mark.exists)
    engine = run.state().engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGKILL)
    output, _ = follower.communicate(timeout=30)

    assert follower.returncode == 84
    assert "EngineDead: the local engine is gone" in output
    assert argosy("resume").returncode == 0
    assert argosy("logs", "--stage", "shard-plan").stdout.count("once") == 1
