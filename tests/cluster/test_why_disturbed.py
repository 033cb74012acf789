"""What `why` says when the cluster itself is ill: controllers that do not run, nodes gone, tainted or cordoned.

These disturb whoever else uses the cluster; each puts everything back.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.test_why_recorded import is_right, keep, looked_at
from tests.cluster.why_cases import Case, on_node
from tests.cluster.why_stage import Stage, kubectl, scene

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.disturbing,
    pytest.mark.timeout(900),
    pytest.mark.skipif("DEVCLUSTER_TRAIN_IMAGE" not in os.environ, reason="needs the development cluster's variables"),
]
LIMIT_SECONDS = 100.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("why")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARGOSY_HOME", str(folder / "home"))
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        with scene(os.environ["DEVCLUSTER_TRAIN_IMAGE"], os.environ["DEVCLUSTER_PLATFORM_IMAGE"]) as found:
            yield found


def devcluster(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "infra.devcluster", *words], check=True, timeout=200, capture_output=True)


@contextmanager
def undone(words: tuple[str, ...], undo: tuple[str, ...], do: Callable[..., object] = devcluster) -> Iterator[None]:
    try:
        do(*words)
        yield
    finally:
        do(*undo)


def comes_to_say(stage: Stage, case: Case) -> None:
    end, last = time.monotonic() + LIMIT_SECONDS, ""
    while time.monotonic() < end:
        observed, answer = looked_at(stage, case)
        last = answer.diagnosis.headline
        if is_right(case, answer):
            keep(case, observed)
            return
        time.sleep(1.0)
    pytest.fail(f"{last} instead of {case.reason}")


def test_nodes_that_are_tainted_or_cordoned(stage: Stage) -> None:
    tainted = Case("nodes-tainted", "TaintNotTolerated", "you", ("example.com/reserved", "of 2 nodes 2"))
    cordoned = Case("nodes-cordoned", "NodesDown", "admin", ("of 2 nodes 2 not ready or cordoned",))
    nodes = stage.nodes()
    with undone(("taint", "nodes", *nodes, "example.com/reserved=yes:NoSchedule"),
                ("taint", "nodes", *nodes, "example.com/reserved-"), kubectl):  # fmt: skip
        stage.play(tainted)
        comes_to_say(stage, tainted)
    with undone(("cordon", *nodes), ("uncordon", *nodes), kubectl):
        stage.play(cordoned)
        comes_to_say(stage, cordoned)


def test_controllers_that_do_not_run(stage: Stage) -> None:
    no_jobset = Case("jobset-silent", "JobSetSilent", "admin", ("no JobSet controller",))
    no_argo = Case("argo-silent", "ArgoSilent", "admin", ("no Argo controller",), is_stage=True)
    with undone(("stop", "jobset"), ("start", "jobset")):
        stage.play(no_jobset)
        time.sleep(3.0)  # so that Argo has taken its Workflow up
        with undone(("stop", "argo-controller"), ("start", "argo-controller")):
            stage.play(no_argo)
            comes_to_say(stage, no_argo)
            comes_to_say(stage, no_jobset)


def test_a_node_that_is_gone(stage: Stage) -> None:
    node = stage.nodes()[-1]
    lost = Case("node-lost", "NodeLost", "admin", (node,), on_node(node))
    stage.play(lost)
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(pod["status"].get("phase") == "Running" for pod in stage.pods(lost)):
        time.sleep(1.0)
    with undone(("cut", node), ("mend", node)):
        comes_to_say(stage, lost)
