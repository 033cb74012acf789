"""The exit handler: leftovers end, the claim is given up, the accounts are closed, and nothing else can fail a run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contracts.gang import AgentProcess, GenerationView, LaunchState
from components.contracts.layout import launch_state_key, stage_record_key
from components.contracts.lifecycle import RunState
from components.contracts.records import StageRecord
from components.finish.run import close_account
from components.finish.spec import FinishSpec
from components.ledger.ledger import Ledger, claim, is_gone, this_process
from components.runtime.leftovers import MARK, gang_mark
from components.runtime.processes import boot_id, start_time
from components.storage.local import LocalStore

CHECKOUT = Path(__file__).resolve().parents[3]
RUN = "exp-abcde"
AT = "2026-11-29T12:00:00.000Z"
SPEC = FinishSpec(experiment="exp", model_version="v1", stop_seconds=0.5)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def a_launch_state(state: RunState = RunState.RUNNING, **changes: Any) -> LaunchState:
    values = {"run": RUN, "backend": "process", "state": state, "updated_at": AT, **changes}
    return LaunchState(**values)


def run_finish(folder: Path, *, failures: str = "null") -> tuple[int, str]:
    """Exit code and log."""
    argv = [
        sys.executable, "-m", "components.finish", "--spec", SPEC.to_bytes().decode(), "--storage", f"file://{folder}",
        "--run", RUN, "--input", "status=Failed", "--input", f"failures={failures}",
    ]  # fmt: skip
    env = {
        **os.environ, "PYTHONPATH": str(CHECKOUT), "ARGOSY_OUT": str(folder / "out"),
        "ARGOSY_TERMINATION_LOG": str(folder / "last-words"),
    }  # fmt: skip
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_run_without_leftovers_is_finished_quietly(tmp_path: Path) -> None:
    code, log = run_finish(tmp_path)
    assert code == 0
    assert '"level": "warning"' not in log


def test_processes_that_outlived_their_launcher_are_ended(tmp_path: Path) -> None:
    sleep = [sys.executable, "-S", "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"]
    env = {**os.environ, MARK: gang_mark(f"file://{tmp_path}", RUN)}
    with subprocess.Popen(sleep, env=env) as marked, subprocess.Popen(sleep) as agent:
        recorded = AgentProcess(
            node_rank=0, host=os.uname().nodename, boot_id=boot_id(), pid=agent.pid, started=start_time(agent.pid)
        )
        view = GenerationView(generation=0, created_at=AT, agents=(recorded,))
        LocalStore(tmp_path).create(launch_state_key(RUN), a_launch_state(generations=(view,)).to_bytes())
        code, log = run_finish(tmp_path)
        assert code == 0
        assert (marked.wait(5), agent.wait(5)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert "2 processes of the gang had outlived their launcher" in log


def test_the_claim_of_a_launcher_that_was_killed_is_released(tmp_path: Path) -> None:
    ledger = Ledger(LocalStore(tmp_path), "exp", "v1")
    with subprocess.Popen(["sleep", "60"]) as launcher:
        owner = this_process(target="local").model_copy(
            update={"pid": launcher.pid, "started": start_time(launcher.pid)}
        )
        claim(ledger, run=RUN, owner=owner, is_gone=is_gone)
        launcher.kill()
    assert run_finish(tmp_path)[0] == 0
    assert ledger.state().claim is None


def test_a_launcher_that_still_runs_is_ended_before_its_claim_is_released(tmp_path: Path) -> None:
    ledger = Ledger(LocalStore(tmp_path), "exp", "v1")
    with subprocess.Popen(["sleep", "60"]) as launcher:
        owner = this_process(target="local").model_copy(
            update={"pid": launcher.pid, "started": start_time(launcher.pid)}
        )
        claim(ledger, run=RUN, owner=owner, is_gone=is_gone)
        assert run_finish(tmp_path)[0] == 0
        assert launcher.wait(5) == -signal.SIGTERM
    assert ledger.state().claim is None


def test_another_runs_claim_stays(tmp_path: Path) -> None:
    ledger = Ledger(LocalStore(tmp_path), "exp", "v1")
    claim(ledger, run="exp-other", owner=this_process(target="local"), is_gone=is_gone)
    assert run_finish(tmp_path)[0] == 0
    held = ledger.state().claim
    assert held is not None
    assert held.run == "exp-other"


def test_a_damaged_ledger_does_not_fail_the_run(tmp_path: Path) -> None:
    LocalStore(tmp_path).create("checkpoints/exp/v1/log/000000000001.json", b"{")
    code, log = run_finish(tmp_path)
    assert code == 0
    assert "cannot read the ledger" in log


@pytest.mark.parametrize(
    ("launch", "is_stopped", "state", "reason", "exit_code"),
    [
        pytest.param(a_launch_state(), False, "Failed", "LauncherLost", None, id="killed"),
        pytest.param(a_launch_state(), True, "Stopped", "StopRequested", 83, id="killed by a forced stop"),
        pytest.param(
            a_launch_state(RunState.RESTARTING, exit_code=84, reason="Interrupted"), False, "Failed", "Interrupted", 84,
            id="interrupted and not continued",
        ),
    ],
)  # fmt: skip
def test_the_account_of_a_launcher_that_could_not_close_it_is_closed(
    launch: LaunchState, is_stopped: bool, state: str, reason: str, exit_code: int | None
) -> None:  # fmt: skip
    closed = close_account(launch, is_stopped=is_stopped, now=AT)
    assert closed is not None
    assert (closed.state, closed.reason, closed.exit_code) == (state, reason, exit_code)


def test_a_closed_account_is_left_as_it_is() -> None:
    assert close_account(a_launch_state(RunState.SUCCEEDED, exit_code=0), is_stopped=True, now=AT) is None


def test_the_report_is_written_and_its_uri_is_the_output(tmp_path: Path) -> None:
    assert run_finish(tmp_path)[0] == 0
    report = tmp_path / "runs" / RUN / "report.html"
    assert (tmp_path / "out" / "report").read_text() == f"file://{report}"
    assert report.exists()
    assert json.loads(report.with_suffix(".json").read_text())["state"] == "Failed"


def test_a_stage_that_was_killed_stands_in_the_report_as_failed(tmp_path: Path) -> None:
    record = StageRecord(task="launch", attempt=0, node="n", started_at=AT)
    LocalStore(tmp_path).create(stage_record_key(RUN, task="launch", attempt=0), record.to_bytes())
    items = [{"displayName": "launch", "phase": "Failed", "message": "killed by SIGKILL", "finishedAt": AT}]
    assert run_finish(tmp_path, failures=json.dumps(json.dumps(items)))[0] == 0
    report = json.loads((tmp_path / "runs" / RUN / "report.json").read_text())
    stages = {stage["task"]: (stage["state"], stage["message"]) for stage in report["stages"]}
    assert stages["launch"] == ("Failed", "killed by SIGKILL")


def test_a_report_that_cannot_be_written_does_not_fail_the_run(tmp_path: Path) -> None:
    (tmp_path / "runs" / RUN / "report.json").mkdir(parents=True)
    code, log = run_finish(tmp_path)
    assert code == 0
    assert "cannot write the report" in log
    assert (tmp_path / "out" / "report").read_text() == ""
