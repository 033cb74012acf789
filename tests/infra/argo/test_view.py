"""What Argo's nodes say in the words of the run view. Nodes as Argo 4.0.5 writes them."""

import base64
import gzip
import json
from typing import Any

from components.contracts.run_view import EngineView
from infra.argo.view import engine_view, pods_of, storage_environment_of, storage_of

WF = "tiny-b2c4d"
TASKS = ["shard-plan", "shard-task", "shard-merge", "preflight", "launch", "verify"]


def node(name: str, type_: str, phase: str, *, children: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    """One node, its id made of its name."""
    full = WF if name == WF else f"{WF}.{name}"
    return {
        "id": WF if name == WF else f"{WF}-{abs(hash(name)) % 10**9}", "name": full, "displayName": name,
        "type": type_, "phase": phase, "templateName": name.partition("(")[0], "children": list(children), **fields,
    }  # fmt: skip


def workflow(*nodes: dict[str, Any], phase: str = "Running", **spec: Any) -> dict[str, Any]:
    ids = {item["name"]: item["id"] for item in nodes}
    linked = {
        item["id"]: {**item, "children": [ids[f"{WF}.{child}"] for child in item["children"]]} for item in nodes
    }  # fmt: skip
    dag = {"name": "train", "dag": {"tasks": [{"name": task} for task in TASKS]}}
    return {
        "metadata": {"name": WF, "labels": {}},
        "spec": {"entrypoint": "train", "templates": [dag], **spec},
        "status": {"phase": phase, "startedAt": "2026-11-29T18:00:00Z", "nodes": linked},
    }


def attempt(task: str, number: int, phase: str, **fields: Any) -> dict[str, Any]:
    return node(f"{task}({number})", "Pod", phase, nodeFlag={"retried": True}, **fields)


def one(view: EngineView, task: str) -> dict[str, Any]:
    return next(item.as_json() for item in view.nodes if item.task == task)


def test_a_stage_retried_after_a_passing_fault_counts_its_attempts_and_keeps_the_last_words() -> None:
    view = engine_view(
        workflow(
            node(
                "preflight",
                "Retry",
                "Failed",
                children=("preflight(0)", "preflight(1)"),
                message="No more retries left",
                finishedAt="2026-11-29T18:02:00Z",
            ),
            attempt(
                "preflight",
                1,
                "Failed",
                startedAt="2026-11-29T18:01:00Z",
                outputs={"exitCode": "78"},
                message="main: Error (exit code 78): BadInput: no such bucket; create it",
            ),
            attempt(
                "preflight",
                0,
                "Failed",
                startedAt="2026-11-29T18:00:00Z",
                outputs={"exitCode": "75"},
                message="main: Error (exit code 75)",
            ),
            phase="Failed",
        )
    )

    assert one(view, "preflight") == {
        "task": "preflight", "phase": "Failed", "attempts": 2, "exit_code": 78, "message": "", "last_lines": [],
        "last_words": "BadInput: no such bucket; create it", "outputs": {}, "ended_at": "2026-11-29T18:02:00Z",
        "attempt_started_at": "2026-11-29T18:01:00Z",
    }  # fmt: skip
    assert (view.phase, view.exit_code, view.alive) == ("Failed", 78, False)


def test_a_pod_that_waits_is_pending_with_the_clusters_words_and_no_attempt_yet() -> None:
    words = "Unschedulable: 0/2 nodes are available: 2 Insufficient memory."
    view = engine_view(
        workflow(
            node("launch", "Retry", "Running", children=("launch(0)",), startedAt="2026-11-29T18:00:00Z"),
            attempt("launch", 0, "Pending", message=words),
        )
    )

    assert (one(view, "launch")["phase"], one(view, "launch")["attempts"]) == ("Pending", 0)
    assert one(view, "launch")["message"] == words
    assert (view.alive, view.exit_code) == (True, None)


def test_tasks_stand_in_the_order_of_the_dag_items_by_number_and_the_exit_handler_last() -> None:
    items = [
        node(f"shard-task({index}:{index})", "Retry", "Succeeded", children=(f"shard-task({index}:{index})(0)",))
        for index in range(11)
    ]
    attempts = [attempt(f"shard-task({index}:{index})", 0, "Succeeded") for index in range(11)]
    group = node("shard-task", "TaskGroup", "Succeeded", children=tuple(f"shard-task({i}:{i})" for i in range(11)))
    flags = {"hooked": True, "retried": True}  # sic, on both
    handler = node("onExit", "Retry", "Running", children=("onExit(0)",), nodeFlag=flags) | {"displayName": "finish"}

    view = engine_view(
        workflow(handler, attempt("onExit", 0, "Running"), *reversed(items), *attempts, group,
                 node("preflight", "Skipped", "Omitted", message="omitted: depends condition not met"))
    )  # fmt: skip

    assert [item.task for item in view.nodes] == [
        "shard-plan", *(f"shard-task-{index}" for index in range(11)), "shard-merge", "preflight", "launch", "verify",
        "finish",
    ]  # fmt: skip
    assert {item.phase for item in view.nodes if item.task.startswith("shard-task")} == {"Succeeded"}
    assert one(view, "preflight")["phase"] == "Omitted"
    assert one(view, "verify") == {"task": "verify", "phase": "Pending", "attempts": 0, "message": "",
                                   "last_lines": [], "last_words": "", "outputs": {}}  # fmt: skip


def test_the_exit_handlers_step_is_one_stage_and_what_argo_puts_around_it_is_none() -> None:
    step = "onExit[0].finish"
    around = (node("onExit", "Steps", "Running"), node("onExit[0]", "StepGroup", "Running"))
    inner = node(step, "Retry", "Running", children=(f"{step}(0)",), startedAt="2026-11-29T18:00:00Z")
    own = attempt(step, 0, "Running", startedAt="2026-11-29T18:00:00Z") | {"templateName": "finish"}

    running = workflow(*around, inner, own)

    shown = engine_view(running)
    assert [item.task for item in shown.nodes] == [*TASKS, "finish"]
    assert (one(shown, "finish")["phase"], one(shown, "finish")["attempts"]) == ("Running", 1)
    assert [(pod.task, pod.is_over) for pod in pods_of(running)] == [("finish", False)]
    assert [item.task for item in engine_view(workflow(*around)).nodes] == TASKS


def test_a_stop_says_who_asked_and_is_83_whatever_the_stages_ended_with() -> None:
    ended = workflow(
        node("launch", "Retry", "Failed", children=("launch(0)",)),
        attempt("launch", 0, "Failed", outputs={"exitCode": "84"}, message="main: Error (exit code 84)"),
        phase="Failed", shutdown="Stop",
    )  # fmt: skip
    ended["metadata"]["annotations"] = {"argosy.dev/stop": '{"by":"ann@box","at":"2026-11-29T18:00:00.000Z"}'}
    by_others = workflow(phase="Failed", shutdown="Terminate")

    view = engine_view(ended)
    assert view.stop is not None
    assert (view.stop.by, view.exit_code) == ("ann@box", 83)
    other = engine_view(by_others).stop
    assert other is not None
    assert (other.by, other.force) == ("somebody with Argo", True)


def test_a_suspended_workflow_says_so_until_it_is_over() -> None:
    assert engine_view(workflow(suspend=True)).message.startswith(
        f"WorkflowSuspended: somebody suspended Workflow {WF}"
    )
    assert engine_view(workflow(phase="Failed", suspend=True, shutdown="Stop")).message == ""


def test_a_retry_that_argo_leaves_running_after_a_stop_ended_as_its_last_attempt_did() -> None:
    nodes = (
        node("launch", "Retry", "Running", children=("launch(0)",)),
        attempt(
            "launch", 0, "Failed", outputs={"exitCode": "83"}, finishedAt="2026-11-29T18:03:00Z",
            message="main: Error (exit code 83): StopRequested: a stop was requested",
        ),
    )  # fmt: skip

    over = one(engine_view(workflow(*nodes, phase="Failed", shutdown="Stop")), "launch")
    assert (over["phase"], over["exit_code"], over["ended_at"]) == ("Failed", 83, "2026-11-29T18:03:00Z")
    assert one(engine_view(workflow(*nodes, shutdown="Stop")), "launch")["phase"] == "Running"


def test_the_workflows_deadline_is_83_and_a_lost_pod_has_no_code() -> None:
    late = workflow(
        node("launch", "Retry", "Failed", children=("launch(0)",), message="Step exceeded its deadline"),
        attempt("launch", 0, "Failed", message="Step exceeded its deadline"), phase="Failed",
    )  # fmt: skip
    lost = workflow(
        node("launch", "Retry", "Error", children=("launch(0)",), message="pod deleted"),
        attempt("launch", 0, "Error", message="pod deleted"), phase="Error",
    )  # fmt: skip

    assert engine_view(late).exit_code == 83
    assert (engine_view(lost).exit_code, one(engine_view(lost), "launch")["message"]) == (None, "pod deleted")


def test_a_workflow_nobody_took_up_is_pending_and_compressed_nodes_are_read() -> None:
    fresh = {"metadata": {"name": WF}, "spec": {"entrypoint": "train", "templates": []}}
    assert (engine_view(fresh).phase, engine_view(fresh).nodes, engine_view(fresh).alive) == ("Pending", (), True)

    large = workflow(node("verify", "Pod", "Succeeded", outputs={"parameters": [{"name": "verdict", "value": "ok"}]}))
    text = json.dumps(large["status"].pop("nodes")).encode()
    large["status"]["compressedNodes"] = base64.b64encode(gzip.compress(text)).decode()
    assert one(engine_view(large), "verify")["outputs"] == {"verdict": "ok"}


def test_pods_are_named_as_argo_names_them() -> None:
    found = workflow(
        node(WF, "DAG", "Running"),
        {**attempt("shard-task(0:0)", 0, "Running", startedAt="2026-11-29T18:00:00Z"), "id": f"{WF}-123"},
    )

    pods = list(pods_of(found))
    assert [(pod.task, pod.pod, pod.is_over) for pod in pods] == [("shard-task-0", f"{WF}-shard-task-123", False)]


def test_the_storage_is_a_parameter_or_a_literal_of_a_rendered_template() -> None:
    given = {"metadata": {"name": WF}, "spec": {"arguments": {"parameters": [{"name": "storage", "value": "s3://a"}]}}}
    variables = [{"name": "AWS_REGION", "value": "r"}, {"name": "AWS_CA_BUNDLE", "value": "/pod/ca.crt"}]
    container = {"args": ["plan", "--storage", "s3://bbb/x"], "env": variables}
    literal = {
        "metadata": {"name": WF}, "spec": {"workflowTemplateRef": {"name": "t"}},
        "status": {"storedWorkflowTemplateSpec": {"templates": [{"container": container}]}},
    }  # fmt: skip

    assert (storage_of(given), storage_of(literal)) == ("s3://a", "s3://bbb/x")
    assert storage_environment_of(literal) == {"AWS_REGION": "r"}
