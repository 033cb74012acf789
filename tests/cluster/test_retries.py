"""Which failures the real controller tries again, and what a deadline ends: by the retry rules that are compiled."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from components.cluster.kinds import PODS, WORKFLOWS
from tests.cluster.harness import ClusterRun, wait_until
from tests.cluster.place import Place

Object = dict[str, Any]


def test_bad_input_is_not_tried_again(place: Place, runs: Callable[..., ClusterRun]) -> None:
    run = runs("no-corpus", corpus=f"{place.storage}/corpora/nothing-there/").start()
    assert run.finish() == 78
    attempts = [name for name in run.nodes() if name.startswith("shard-plan(")]
    assert attempts == ["shard-plan(0)"]
    failed = run.nodes()["shard-plan(0)"]
    assert failed["outputs"]["exitCode"] == "78"
    assert "CorpusRefused: " in failed["message"]  # what the Argo UI shows on it
    assert "launch" not in {pod["metadata"]["labels"].get("argosy.dev/stage") for pod in run.pods()}


@pytest.fixture(scope="module")
def disturbed(place: Place, runs: Callable[..., ClusterRun]) -> ClusterRun:
    """Fails once with 75, loses a pod, and would train for ever; its deadline is set once it trains."""
    run = runs("disturbed", steps=100_000, seconds=0.5, checkpoint__every_steps=100)
    run.as_template("disturbed", _disturb)
    run.start("submit", "--from-template", "disturbed", "--target", "kubernetes")
    wait_until(lambda: _is_lost(run, "shard-task(0:0)(0)"), what="a pod to be lost", give_up=run.over)
    run.wait_for_step(3)
    begun = datetime.fromisoformat(run.workflow()["status"]["startedAt"])
    seconds = math.ceil((datetime.now(UTC) - begun).total_seconds()) + 1
    spec = {"activeDeadlineSeconds": seconds}  # a run of a template goes by what its status remembers of that
    place.cluster.patch(WORKFLOWS, run.name, {"spec": spec, "status": {"storedWorkflowTemplateSpec": spec}})
    run.finish()
    return run


def _is_lost(run: ClusterRun, node: str) -> bool:
    """Deletes the node's pod while it runs, until Argo has seen it: one that Argo believes Pending is made anew."""
    if str(run.nodes().get(node, {}).get("phase")) in ("Failed", "Error"):
        return True
    for pod in run.pods("shard-task"):
        name = str(pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"])
        if name.endswith(f".{node}") and pod["status"].get("phase") == "Running":
            run.place.cluster.delete(PODS, str(pod["metadata"]["name"]))
    return False


def _disturb(spec: Object) -> None:
    """A first attempt that ends with 75, and a task that can be caught while it runs."""
    for template in spec["templates"]:
        if template["name"] == "preflight":
            _first(template, 'if [ "{{retries}}" = 0 ]; then echo "not now" > /dev/termination-log; exit 75; fi')
        elif template["name"] == "shard-task":
            _first(template, 'if [ "{{retries}}" = 0 ]; then exec sleep 600; fi')


def _first(template: Object, words: str) -> None:
    container = template["container"]
    container["args"] = [f'{words}; exec "$@"', "sh", *container["command"], *container["args"]]
    container["command"] = ["sh", "-c"]


def test_a_passing_fault_is_tried_again(disturbed: ClusterRun) -> None:
    nodes = disturbed.nodes()
    assert [nodes[f"preflight({k})"]["phase"] for k in (0, 1)] == ["Failed", "Succeeded"]
    assert nodes["preflight(0)"]["outputs"]["exitCode"] == "75"
    assert "not now" in nodes["preflight(0)"]["message"]
    assert nodes["preflight"]["phase"] == "Succeeded"


def test_a_lost_pod_is_tried_again(disturbed: ClusterRun) -> None:
    nodes = disturbed.nodes()
    attempts = {name: node for name, node in nodes.items() if name.startswith("shard-task(0:0)(")}
    assert attempts["shard-task(0:0)(0)"]["phase"] in ("Error", "Failed")  # as fast as its last words arrived
    assert attempts["shard-task(0:0)(1)"]["phase"] == "Succeeded"


def test_a_deadline_ends_its_own_node_and_the_gang(disturbed: ClusterRun, figure: Callable[[str, float], None]) -> None:
    begin = time.monotonic()
    disturbed.wait_until_gone()
    figure("deadline: until the gang is gone, once the run has ended", time.monotonic() - begin)
    nodes = disturbed.nodes()
    assert nodes["launch"]["phase"] == "Failed"
    assert "launch(1)" not in nodes
    assert "deadline" in nodes["launch(0)"]["message"]
    assert nodes["onExit"]["phase"] == "Succeeded"
    assert {name: nodes[name]["phase"] for name in ("shard-merge", "preflight", "verify", "retain")} == {
        "shard-merge": "Succeeded", "preflight": "Succeeded", "verify": "Omitted", "retain": "Omitted",
    }  # fmt: skip
    assert disturbed.ask("status")["exit_code"] == 83
