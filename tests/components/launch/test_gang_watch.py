"""What is watched of a gang: the warnings that say something, about its own objects only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.kinds import JOBS
from components.launch.gang_watch import GangWatch
from components.runtime.log import Log
from tests.components.launch.stage import wait_until
from tests.fakes.api_server import FakeApiServer, api_server

EVENTS = "/api/v1/namespaces/ml/events"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as server:
        yield server


def warn(server: FakeApiServer, number: int, pod: str, message: str) -> None:
    server.put(
        f"{EVENTS}/e{number}",
        {
            "metadata": {"name": f"e{number}", "namespace": "ml"}, "type": "Warning", "reason": "Failed",
            "lastTimestamp": f"2026-11-29T12:00:0{number}Z", "message": message,
            "involvedObject": {"kind": "Pod", "name": pod},
        },
    )  # fmt: skip


def test_the_warning_that_says_why_stays_behind_the_vague_one_after_it(server: FakeApiServer, tmp_path: Path) -> None:
    cluster = KubernetesCluster.connect(kubeconfig=str(server.write_kubeconfig(tmp_path / "kubeconfig")))
    warn(server, 1, "exp-abcde-g0-0-x", "Failed to pull image hub/a:1: not found")
    warn(server, 2, "exp-abcde-g0-0-x", "Error: ErrImagePull")
    warn(server, 3, "exp-abcde-g0-0-x", "Error: ImagePullBackOff")
    warn(server, 4, "exp-abcde-g01-0-y", "another gang's")

    watch = GangWatch(cluster, JOBS, "exp-abcde-g0", nudge=lambda: None, log=Log({}))
    try:
        wait_until(lambda: bool(watch.view(num_nodes=1, is_removed=False).warnings), "a warning is seen")
        told = watch.view(num_nodes=1, is_removed=False).warnings
    finally:
        watch.close()

    assert told == {"exp-abcde-g0-0-x": "Failed: Failed to pull image hub/a:1: not found"}
