"""Runs cases on a real Argo, several at once."""

import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.cluster.api import KubernetesCluster
from components.cluster.kinds import WORKFLOWS
from templates.pods import STAGE_SERVICE_ACCOUNT, USER_ID, stage_pod_patch
from tests.conformance.case import REFUSED, Case, Ending, Node

PATIENCE_SECONDS = 900.0
SIDE_BY_SIDE = 8
"""So many Workflows that their deadlines can be kept on two cores."""
_LOOK_SECONDS = 2.0
_PANIC = "wait: Error (exit code 2)"
"""Argo's own executor beside the container has crashed, as Go programs end then: no ending that anybody means, and no
case is about. Seen once, after it had reported everything, on a busy host. Stages are retried after it.
"""


def run_there(cases: Sequence[Case], cluster: KubernetesCluster, *, image: str) -> dict[str, Ending]:
    """Run all `cases`, some side by side; what became of each by its name. The Workflows are deleted again.

    The namespace of `cluster` has the service account of stages; `image` is any with `sh`.
    """
    mark = secrets.token_hex(2)
    todo = {f"c{mark}-{case.name}"[:50].rstrip("-"): case for case in cases}
    running: dict[str, Case] = {}
    endings: dict[str, Ending] = {}
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    try:
        while todo or running:
            while todo and len(running) < SIDE_BY_SIDE:
                name, case = todo.popitem()
                running[name] = case
                cluster.create(WORKFLOWS, _manifest(case, name, image))
            assert time.monotonic() < give_up_at, f"did not end: {sorted(running)}"
            time.sleep(_LOOK_SECONDS)
            for name, case in list(running.items()):
                found = cluster.read(WORKFLOWS, name)
                assert found is not None
                status = found.get("status", {})
                if case.stop_when_running and _is_running(status, f"{name}.{case.stop_when_running}"):
                    cluster.patch(WORKFLOWS, name, {"spec": {"shutdown": "Stop"}})
                if status.get("finishedAt"):
                    del running[name]
                    again = f"{name}-again"
                    if has_crashed(status) and not name.endswith("-again"):
                        print(f"{name}: Argo's executor crashed; run again as {again}")
                        todo[again] = case
                    else:
                        endings[case.name] = ending(name, status)
                    if not os.environ.get("ARGOSY_TEST_KEEP"):
                        cluster.delete(WORKFLOWS, name)
    finally:
        for name in running:
            cluster.delete(WORKFLOWS, name)
    return endings


def has_crashed(status: Mapping[str, Any]) -> bool:
    """Whether Argo's executor did, so that this Workflow's ending tells nothing."""
    return any(node.get("message") == _PANIC for node in status.get("nodes", {}).values())


def ending(workflow: str, status: Mapping[str, Any]) -> Ending:
    """What Argo's status says, in the words both places share."""
    if not status.get("nodes") and str(status.get("message", "")).startswith("invalid spec"):
        return Ending(REFUSED, None, {})
    nodes = status.get("nodes", {})
    attempts = {child for node in nodes.values() if node["type"] == "Retry" for child in node.get("children", ())
                if nodes[child].get("nodeFlag", {}).get("retried")}  # fmt: skip
    found = {
        node["name"].removeprefix(f"{workflow}."): _node(node, nodes)
        for key, node in nodes.items()
        # What stands around tasks and steps has no counterpart here; what becomes of it shows in the Workflow's phase.
        if node["name"] != workflow and key not in attempts and node["type"] not in ("Steps", "StepGroup")
    }
    return Ending(status["phase"], status.get("message"), found)


def _node(node: Mapping[str, Any], nodes: Mapping[str, Any]) -> Node:
    children = [nodes[child] for child in node.get("children", ()) if node["type"] == "Retry"]
    tries = [child for child in children if child.get("nodeFlag", {}).get("retried")]
    tries.sort(key=lambda child: int(child["name"].rsplit("(", 1)[1].rstrip(")")))
    if node["type"] == "Pod" and not tries:
        tries = [node]
    parameters = node.get("outputs", {}).get("parameters", ())
    return Node(
        node["phase"],
        tuple(_exit_code(item) for item in tries),
        {item["name"]: item["value"] for item in parameters if "value" in item},
        tries[-1].get("message", "") if tries else node.get("message", ""),
        node.get("message", ""),
    )


def _exit_code(node: Mapping[str, Any]) -> int | None:
    code = node.get("outputs", {}).get("exitCode")
    return None if code is None else int(code)


def _is_running(status: Mapping[str, Any], name: str) -> bool:
    """Whether a pod of that node runs."""
    return any(
        node["type"] == "Pod" and node["phase"] == "Running" and node["name"].startswith(name)
        for node in status.get("nodes", {}).values()
    )


def _manifest(case: Case, name: str, image: str) -> dict[str, Any]:
    """The case's own Workflow, with what a namespace under Pod Security `restricted` asks of it."""
    manifest = json.loads(json.dumps(case.manifest("cluster")))
    spec = manifest["spec"]
    for template in spec["templates"]:
        if "container" in template:
            template["container"]["image"] = image
    given = {**case.parameters, "platform_image": image}
    own = [item for item in spec.get("arguments", {}).get("parameters", ()) if item["name"] not in given]
    spec["arguments"] = {"parameters": [*own, *({"name": key, "value": value} for key, value in given.items())]}
    spec.setdefault("activeDeadlineSeconds", int(PATIENCE_SECONDS))
    spec["serviceAccountName"] = STAGE_SERVICE_ACCOUNT
    spec["podSpecPatch"] = stage_pod_patch()
    spec["securityContext"] = {
        "runAsNonRoot": True, "runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    manifest["metadata"] = {"name": name, "labels": {"argosy.dev/test": "conformance"}}
    return dict(manifest)
