"""The janitor at work: it deletes by uid, forces only what it must, and goes on after a refusal that passes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.launch.stage import wait_until
from tests.fakes.api_server import FakeApiServer, api_server

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as running:
        yield running


def put_pod(server: FakeApiServer, name: str, **labels: str) -> None:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"argosy.dev/experiment": "exp", **labels}}
    server.put(f"{PODS}/{name}", {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})


def put_node(server: FakeApiServer, ready: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    server.put("/api/v1/nodes/n1", {"metadata": {"name": "n1", "uid": "n1"}, "status": status})


def test_it_forces_pods_off_a_lost_node_and_leaves_others_and_ends_on_sigterm(
    server: FakeApiServer, tmp_path: Path
) -> None:
    put_node(server, "Unknown")
    put_pod(server, "stage")
    put_pod(server, "worker", **{"argosy.dev/gang": "g"})
    server.write_kubeconfig(tmp_path / "kubeconfig")
    environ: dict[str, Any] = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "PYTHONPATH": os.getcwd()}
    with (tmp_path / "out").open("w") as out:
        janitor = subprocess.Popen(
            [sys.executable, "-m", "infra.kubernetes.janitor", "--lost-after", "1s"],
            env=environ, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        wait_until(lambda: f"{PODS}/stage" not in server.objects, "the stage's pod is gone")
        janitor.send_signal(signal.SIGTERM)
        assert janitor.wait(30) == 0
    finally:
        janitor.kill()
        janitor.wait()
    assert f"{PODS}/worker" in server.objects
    (deletion,) = [item for item in server.asked if item.method == "DELETE"]
    assert deletion.body["gracePeriodSeconds"] == 0
    assert deletion.body["preconditions"] == {"uid": "uid-stage"}
    assert "its node n1 has not answered" in (tmp_path / "out").read_text()
