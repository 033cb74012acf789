"""What `why` says when nodes are tainted, cordoned or gone: played with a node of which only the API object exists.

It has a taint, so that no pod but these can be placed there, and is Ready for as long as its lease is renewed. Nobody
else on the cluster is disturbed.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from tests.cluster.test_why_recorded import is_right, keep, looked_at
from tests.cluster.why_cases import Case, Spoil, asks, both, sets
from tests.cluster.why_stage import BASE, Stage, apply, kubectl, scene

pytestmark = [
    pytest.mark.platform,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif("DEVCLUSTER_TRAIN_IMAGE" not in os.environ, reason="needs the development cluster's variables"),
]
LIMIT_SECONDS = 100.0
GHOST, LEASES = f"{BASE}-ghost", "kube-node-lease"
TAINT = "example.com/reserved"
DEVICE = "why.example/gpu"
TOLERATES: Spoil = sets(tolerations=[{"key": TAINT, "operator": "Exists"}])
CHOOSES: Spoil = sets(nodeSelector={"why.example/ghost": GHOST})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("why")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARGOSY_HOME", str(folder / "home"))
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        with scene(
            os.environ["DEVCLUSTER_TRAIN_IMAGE"], os.environ["DEVCLUSTER_PLATFORM_IMAGE"], is_plain=True
        ) as found:
            yield found


@contextmanager
def a_ghost() -> Iterator[threading.Event]:
    """The node; it stops to answer when the event is set."""
    dies = threading.Event()
    try:
        apply(
            {
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": GHOST, "labels": {"why.example/ghost": GHOST}},
                "spec": {"taints": [{"key": TAINT, "value": "yes", "effect": "NoSchedule"}]},
            }
        )  # fmt: skip
        _renew()
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", DEVICE: "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played",
                 "lastHeartbeatTime": _now(), "lastTransitionTime": _now()}  # fmt: skip
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
        kubectl("patch", "node", GHOST, "--subresource=status", "--type=merge", "-p", json.dumps(status))
        thread = threading.Thread(target=_live, args=(dies,))
        thread.start()
        yield dies
        dies.set()
        thread.join()
    finally:
        dies.set()
        kubectl("delete", "node", GHOST, "--ignore-not-found", check=False)
        kubectl("-n", LEASES, "delete", "lease", GHOST, "--ignore-not-found", check=False)


def _live(dies: threading.Event) -> None:
    while not dies.wait(3.0):
        _renew()


def _renew() -> None:
    apply(
        {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": GHOST},
            "spec": {"holderIdentity": GHOST, "leaseDurationSeconds": 40, "renewTime": _now(micro=True)},
        },
        namespace=LEASES,
    )  # fmt: skip


def _now(*, micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


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


def test_nodes_that_are_tainted_cordoned_and_gone(stage: Stage) -> None:
    tainted = Case("nodes-tainted", "TaintNotTolerated", "you", (TAINT, "with a taint it does not tolerate"), CHOOSES)
    passed = Case("nodes-tainted-devices", "TaintNotTolerated", "you", (TAINT, f"with too little {DEVICE}"),
                  asks(why_example__gpu="4"))  # fmt: skip
    lost = Case("node-lost", "NodeLost", "admin", (GHOST,), both(CHOOSES, TOLERATES))
    cordoned = Case("node-cordoned", "NodesDown", "admin", ("not ready or cordoned",), both(CHOOSES, TOLERATES))
    with a_ghost() as dies:
        for case in (tainted, passed, lost):
            stage.play(case)
        for case in (tainted, passed):
            comes_to_say(stage, case)
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end and not any(pod["spec"].get("nodeName") for pod in stage.pods(lost)):
            time.sleep(1.0)
        kubectl("cordon", GHOST)
        stage.play(cordoned)
        comes_to_say(stage, cordoned)
        dies.set()
        comes_to_say(stage, lost)
