"""How runs end before their time: told to stop, terminated, deleted, never started. Nothing of them is left.

The runs of this file stand side by side, and two of one experiment are begun at once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from components.cluster.kinds import NODES, PODS, WORKFLOWS
from infra.argo.submission import workflow_again
from tests.cluster.harness import ClusterRun, expected_loss, wait_until
from tests.cluster.place import HAS_SERVER, Place

Figure = Callable[[str, float], None]
STOP_SECONDS = 20
MORE = 20
ENDLESS = {"steps": 100_000, "seconds": 0.5, "checkpoint__every_steps": 100, "arguments": ("--more", str(MORE))}
"""Until they are ended; once resumed only a little more."""
SHORT_PENDING = "argosy.dev/pending-limit-seconds"


@dataclass(frozen=True)
class Begun:
    """Runs that train until something ends them."""

    stopped: ClusterRun
    refused: ClusterRun
    """Begun together with the first one, of the same experiment."""
    terminated: ClusterRun
    deleted: ClusterRun
    incomplete: ClusterRun
    """Its last worker finds no node."""
    pending: ClusterRun
    """None of its stages finds a node."""


@pytest.fixture(scope="module")
def begun(place: Place, runs: Callable[..., ClusterRun]) -> Begun:
    target = "argo-server" if HAS_SERVER else "kubernetes"
    incomplete, pending = _incomplete(place, runs), _pending(runs)
    pair = [runs("stopped", target=target, **ENDLESS).start() for _ in range(2)]
    terminated = runs("terminated", **ENDLESS).start()
    deleted = runs("deleted", launch__backend="job", **ENDLESS).start()  # the other kind of gang
    refused = wait_until(lambda: next((run for run in pair if run.has_ended()), None), what="one of two to be refused")
    (stopped,) = (run for run in pair if run is not refused)
    for run in (stopped, terminated, deleted):
        run.wait_for_step(3)
    return Begun(stopped, refused, terminated, deleted, incomplete, pending)


def test_of_two_runs_of_one_experiment_only_one_trains(begun: Begun, runs: Callable[..., ClusterRun]) -> None:
    assert begun.refused.finish() == 78
    assert f"run {begun.stopped.name}" in begun.refused.terminal()
    assert begun.refused.gang_objects() == []
    assert begun.refused.gang_states() == []
    again = runs("stopped", **ENDLESS).start()
    assert again.finish() == 78
    assert f"run {begun.stopped.name}" in again.terminal()
    assert list((again.home / "submitted").glob("*.json")) == []  # refused before anything was created


def test_the_argo_ui_tells_how_far_a_long_stage_is(begun: Begun) -> None:
    """Argo hands it on once a minute, unless its controller is told otherwise."""
    total = ENDLESS["steps"]

    def told() -> str | None:
        progress = str(begun.stopped.nodes()["launch(0)"].get("progress", ""))
        return progress if progress.endswith(f"/{total}") else None

    progress = wait_until(told, what="the launch to show its progress", give_up=begun.stopped.over)
    assert 0 < int(progress.partition("/")[0]) < total


@pytest.mark.skipif(not HAS_SERVER, reason="ARGO_SERVER names no Argo Server")
def test_logs_through_the_argo_server_show_ended_and_running_stages_with_the_role_for_people(begun: Begun) -> None:
    run = begun.stopped
    for stage in ("preflight", "launch"):  # one has ended, one runs
        done = run.command("logs", run.name, "--stage", stage)
        assert (done.returncode, done.stderr) == (0, "")
        assert f" {stage}  " in done.stdout
    assert run.nodes()["launch(0)"]["phase"] == "Running"


def test_stop_lets_ranks_save_and_resume_goes_on_from_there(place: Place, begun: Begun, figure: Figure) -> None:
    run = begun.stopped
    at = time.monotonic()
    assert run.command("stop", run.name).returncode == 0
    assert run.finish() == 83
    run.wait_until_gone()
    figure("stop: until the gang is gone and the run has ended", time.monotonic() - at)
    saved = run.ledger().newest_first("committed", "verified")[0]  # nobody need have verified it yet
    status = run.ask("status")
    assert (status["state"], status["exit_code"]) == ("Stopped", 83)
    assert run.ask("why")["reason"] == "StopRequested"

    run.start("resume", run.name)
    assert run.finish() == 0
    assert run.losses()[saved.step + MORE] == expected_loss(saved.step + MORE)
    assert [begin.source for begin in run.ledger().begins_of(run.name)] == [None, saved.checkpoint]
    assert run.ask("status")["state"] == "Succeeded"


def test_a_deleted_workflow_leaves_nothing(place: Place, begun: Begun, figure: Figure) -> None:
    run, at = begun.deleted, time.monotonic()
    place.cluster.delete(WORKFLOWS, run.name)
    assert run.finish() != 0
    run.wait_until_gone()
    figure(f"Workflow deleted: until nothing is left (limits.stop {STOP_SECONDS} s)", time.monotonic() - at)


def test_a_gang_that_cannot_start_whole_is_removed_and_the_verdict_names_what_lacks(begun: Begun) -> None:
    run = begun.incomplete
    assert run.finish() == 83
    run.wait_until_gone()
    assert run.ask("why")["reason"] == "StartDeadline"
    message = run.nodes()["launch(0)"]["message"]
    assert "never started" in message
    assert "Insufficient memory" in message
    assert run.ledger().begins == ()


def test_a_stage_pod_that_nobody_can_start_is_ended(begun: Begun) -> None:
    run = begun.pending
    assert run.finish() == 83
    assert "has been Pending for" in run.ask("status")["engine"]["stop"]["by"]
    assert run.workflow()["status"]["phase"] in ("Failed", "Error")
    assert run.gang_objects() == []


def test_the_same_run_twice_trains_once(place: Place, begun: Begun) -> None:
    run = begun.terminated
    workers = [pod["metadata"]["uid"] for pod in run.workers()]
    twin = f"{run.name}-twice"
    place.cluster.create(WORKFLOWS, workflow_again(run.workflow(), name=twin))

    def launchers() -> bool:
        pods = place.cluster.list(PODS, labels=f"workflows.argoproj.io/workflow={twin}").items
        return any("-launch-" in pod["metadata"]["name"] and pod["status"]["phase"] == "Running" for pod in pods)

    wait_until(launchers, what="the second launcher to run", give_up=run.over)
    step = run.gang_states()[-1]["last_step"]["step"]
    run.wait_for_step(step + 20)
    assert [pod["metadata"]["uid"] for pod in run.workers()] == workers
    assert len(run.ledger().begins_of(run.name)) == 1


def test_terminate_leaves_nothing(place: Place, begun: Begun, figure: Figure) -> None:
    run, at = begun.terminated, time.monotonic()
    for name in (f"{run.name}-twice", run.name):
        place.cluster.patch(WORKFLOWS, name, {"spec": {"shutdown": "Terminate"}})
    assert run.finish() == 83
    run.wait_until_gone()
    figure(f"terminate: until nothing is left (limits.stop {STOP_SECONDS} s)", time.monotonic() - at)


def _incomplete(place: Place, runs: Callable[..., ClusterRun]) -> ClusterRun:
    """One worker more than there are nodes, each with more than half a node's memory."""
    nodes = place.cluster.list(NODES).items
    sizes = [str(node["status"]["allocatable"]["memory"]) for node in nodes]
    assert all(size.endswith("Ki") for size in sizes), sizes
    memory = max(int(size.removesuffix("Ki")) for size in sizes) * 55 // 100
    return runs(
        "incomplete", num_nodes=len(nodes) + 1, launch__limits__start="30s", launch__max_restarts=0,
        launch__resources={"cpu": "50m", "memory": f"{memory}KiB"},
    ).start()  # fmt: skip


def _pending(runs: Callable[..., ClusterRun]) -> ClusterRun:
    run = runs(
        "pending", placement__node_selector={"argosy.dev/nowhere": "yes"}, shard__retries=0, preflight__retries=0
    )
    run.as_template("pending", lambda spec: spec["podMetadata"]["annotations"].update({SHORT_PENDING: "10"}))
    return run.start("submit", "--from-template", "pending", "--target", "kubernetes")
