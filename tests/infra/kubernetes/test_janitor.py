"""The janitor at work: it deletes by uid, forces only what it must, and goes on after a refusal that passes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from components.contracts.stop import read_stop
from tests.components.launch.stage import wait_until
from tests.fakes.api_server import FakeApiServer, api_server

PODS = "/api/v1/namespaces/ml/pods"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as running:
        yield running


def put_pod(server: FakeApiServer, name: str, **labels: str) -> None:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"argosy.dev/experiment": "exp", **labels}}
    server.put(f"{PODS}/{name}", {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})


def put_node(server: FakeApiServer, ready: str, name: str = "n1") -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    server.put(f"/api/v1/nodes/{name}", {"metadata": {"name": name, "uid": name}, "status": status})


@contextmanager
def janitor_at_work(server: FakeApiServer, folder: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    server.write_kubeconfig(folder / "kubeconfig")
    environ: dict[str, Any] = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "PYTHONPATH": os.getcwd()}
    with (folder / "out").open("w") as out:
        janitor = subprocess.Popen(
            [sys.executable, "-m", "infra.kubernetes.janitor", *options], env=environ, stdout=out, stderr=out
        )
    try:
        yield janitor
    finally:
        janitor.kill()
        janitor.wait()


def test_it_forces_pods_off_a_lost_node_and_leaves_others_and_ends_on_sigterm(
    server: FakeApiServer, tmp_path: Path
) -> None:
    put_node(server, "Unknown")
    put_node(server, "True", "n2")
    put_pod(server, "stage")
    put_pod(server, "worker", **{"argosy.dev/gang": "g"})
    with janitor_at_work(server, tmp_path, "--lost-after", "1s") as janitor:
        wait_until(lambda: f"{PODS}/stage" not in server.objects, "the stage's pod is gone")
        janitor.send_signal(signal.SIGTERM)
        assert janitor.wait(30) == 0
    assert f"{PODS}/worker" in server.objects
    (deletion,) = [item for item in server.asked if item.method == "DELETE"]
    assert deletion.body["gracePeriodSeconds"] == 0
    assert deletion.body["preconditions"] == {"uid": "uid-stage"}
    assert "its node n1 has not answered" in (tmp_path / "out").read_text()


def test_it_stops_the_workflow_of_a_pod_that_stays_pending_and_says_why(server: FakeApiServer, tmp_path: Path) -> None:
    put_node(server, "True")
    server.put(f"{WORKFLOWS}/wf", {"metadata": {"name": "wf", "uid": "w1"}, "spec": {}, "status": {"phase": "Running"}})
    labels = {"argosy.dev/experiment": "exp", "workflows.argoproj.io/workflow": "wf"}
    metadata = {"name": "plan", "uid": "uid-plan", "labels": labels}
    server.put(f"{PODS}/plan", {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})
    with janitor_at_work(server, tmp_path, "--pending-limit", "1s"):
        wait_until(lambda: server.objects[f"{WORKFLOWS}/wf"]["spec"].get("shutdown"), "the Workflow is stopped")
    stopped = server.objects[f"{WORKFLOWS}/wf"]
    assert stopped["spec"]["shutdown"] == "Stop"
    request = read_stop(stopped["metadata"]["annotations"]["argosy.dev/stop"].encode())
    assert request.by.startswith("the janitor: pod plan has been Pending for")
    assert f"{PODS}/plan" in server.objects
