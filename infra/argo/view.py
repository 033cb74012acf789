"""A Workflow's status in the words of the run view (pure)."""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from components.contracts.clock import is_utc
from components.contracts.cluster_names import FINISH, STOP_ANNOTATION
from components.contracts.exit_message import parse_exit_message
from components.contracts.node_names import NodeName, parse_node_name
from components.contracts.run_view import SUSPENDED, EngineNode, EngineView
from components.contracts.stop import StopRequest, read_stop
from components.errors import ExitCode
from infra.argo.argo import Workflow

_DEADLINE = re.compile(r"exceeded its deadline|longer than the specified deadline")
_TEMPLATES_ONLY = re.compile(r"must use workflowTemplateRef|not permitted when using workflowTemplateRef")
_HOW_BY_TEMPLATE = (
    "this Argo runs WorkflowTemplates only (templateReferencing): render the description (`compile --as template`), "
    "have it applied, then `submit --from-template NAME`"
)
_RELEASE = "resume it in the Argo UI or by `argo resume`, or stop the run"
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Error", "Skipped", "Omitted")

_STORAGE_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "ARGOSY_S3_PATH_STYLE")

RunPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Error"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Error", "Skipped", "Omitted"]


@dataclass(frozen=True)
class PodOfTask:
    """One attempt of a task, as a pod."""

    task: str
    pod: str
    started_at: str
    is_over: bool
    has_succeeded: bool


def engine_view(workflow: Workflow) -> EngineView:
    """Argo's account of the run: one entry a task, in the order of the DAG."""
    status = workflow.get("status") or {}
    phase = status.get("phase") or "Pending"
    nodes = nodes_of(workflow)
    found = {node.task: node for node in _task_nodes(workflow, nodes)}
    order = _tasks(workflow)
    listed = [found.pop(task) for task in list(found) if task in order]
    missing = [EngineNode(task=task, phase="Pending") for task in order if not _has_begun(task, listed, found)]
    ranked = sorted(
        [*listed, *missing, *found.values()], key=lambda node: (_place(node.task, order), _index(node.task))
    )
    is_over = phase in ("Succeeded", "Failed", "Error")
    stop = stop_of(workflow)
    return EngineView(
        phase=cast(RunPhase, phase if phase in _PHASES[:5] else "Error"),
        message=_message(workflow, ranked),
        alive=not is_over,
        started_at=_moment(status.get("startedAt")),
        ended_at=_moment(status.get("finishedAt")) if is_over else None,
        exit_code=_exit_code(phase, stop, ranked, str(status.get("message") or "")) if is_over else None,
        nodes=tuple(ranked),
        stop=stop,
    )


def gone_view(last: EngineView | None) -> EngineView:
    """Of a Workflow that is no longer there: nobody goes on with it."""
    seen = last or EngineView(phase="Running")
    return seen if seen.is_over else seen.model_copy(update={"alive": False})


def stop_of(workflow: Workflow) -> StopRequest | None:
    """Who asked for the Workflow's end; somebody, when it was asked for by other means than ours."""
    shutdown = (workflow.get("spec") or {}).get("shutdown")
    if not shutdown:
        return None
    said = ((workflow.get("metadata") or {}).get("annotations") or {}).get(STOP_ANNOTATION)
    return read_stop(said.encode()) if said else StopRequest(by="somebody with Argo", force=shutdown == "Terminate")


def is_over(workflow: Workflow) -> bool:
    """Whether Argo is done with it, the exit handler included."""
    return (workflow.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Error")


def is_taken_up(workflow: Workflow) -> bool:
    """Whether a controller has looked at it at all."""
    return bool((workflow.get("status") or {}).get("phase"))


def parameters_of(workflow: Workflow) -> dict[str, str]:
    """Values of the Workflow's parameters."""
    spec = workflow.get("spec") or {}
    stored = (workflow.get("status") or {}).get("storedWorkflowTemplateSpec") or {}
    values: dict[str, str] = {}
    for source in (stored, spec):
        for item in (source.get("arguments") or {}).get("parameters") or ():
            values[str(item.get("name"))] = str(item.get("value", ""))
    return values


def storage_of(workflow: Workflow) -> str:
    """Root uri of the storage: a parameter, or, where a rendered template fixes it, a word of a stage's command."""
    value = parameters_of(workflow).get("storage", "")
    if value:
        return value
    for container in _containers(workflow):
        words = [str(word) for word in container.get("args") or ()]
        if "--storage" in words[:-1]:
            return words[words.index("--storage") + 1]
    return ""


def storage_environment_of(workflow: Workflow) -> dict[str, str]:
    """Variables of its stages that say how the storage is reached, but for files of their pods."""
    return {
        str(item["name"]): str(item["value"])
        for container in _containers(workflow)
        for item in container.get("env") or ()
        if item.get("name") in _STORAGE_VARIABLES and item.get("value") is not None
    }


def _containers(workflow: Workflow) -> Iterator[Mapping[str, Any]]:
    for spec in (workflow.get("spec") or {}, (workflow.get("status") or {}).get("storedWorkflowTemplateSpec") or {}):
        for template in spec.get("templates") or ():
            if template.get("container"):
                yield template["container"]


def pods_of(workflow: Workflow) -> Iterator[PodOfTask]:
    """Every attempt that has a pod, oldest first."""
    name = str(workflow["metadata"]["name"])
    nodes = nodes_of(workflow)
    pods = [node for node in nodes.values() if node.get("type") == "Pod" and node.get("phase") != "Omitted"]
    for node in sorted(pods, key=lambda node: str(node.get("startedAt") or "")):
        yield PodOfTask(
            task=_name(node, name).stage,
            pod=pod_name(name, node),
            started_at=str(node.get("startedAt") or ""),
            is_over=node.get("phase") not in ("Pending", "Running"),
            has_succeeded=node.get("phase") == "Succeeded",
        )


def pod_name(workflow: str, node: Mapping[str, Any]) -> str:
    """What Argo calls the pod of a node: `<workflow>-<template>-<hash of the node's name>`."""
    node_id = str(node.get("id", ""))
    if node_id == workflow:
        return workflow  # a Workflow of a single pod
    number = node_id.rpartition("-")[2]
    return f"{workflow}-{node.get('templateName', '')}"[: 253 - 11] + f"-{number}"


def nodes_of(workflow: Workflow) -> dict[str, dict[str, Any]]:
    """Nodes by id; a large Workflow holds them compressed."""
    status = workflow.get("status") or {}
    nodes = status.get("nodes")
    if not nodes and status.get("compressedNodes"):
        try:
            nodes = json.loads(gzip.decompress(base64.b64decode(status["compressedNodes"])))
        except (ValueError, OSError):
            nodes = {}
    return cast("dict[str, dict[str, Any]]", nodes or {})


def _task_nodes(workflow: Workflow, nodes: Mapping[str, dict[str, Any]]) -> Iterator[EngineNode]:
    name = str(workflow["metadata"]["name"])
    for node in nodes.values():
        kind = node.get("type")
        if kind in ("DAG", "Steps", "StepGroup") or _is_attempt(node) or (kind == "TaskGroup" and node.get("children")):
            continue
        if kind == "Retry":
            children = [nodes[child] for child in node.get("children") or () if child in nodes]
            attempts = sorted(
                (child for child in children if child.get("type") == "Pod" and _is_attempt(child)),
                key=lambda child: _name(child, name).attempt or 0,
            )
        else:
            attempts = [node] if kind == "Pod" else []
        yield _node(_name(node, name).stage, _settled(node, attempts) if is_over(workflow) else node, attempts)


def _settled(node: Mapping[str, Any], attempts: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Of a Workflow that is over: Argo leaves a Retry node `Running` for ever that ends after a stop."""
    last = attempts[-1] if attempts else node
    if node.get("phase") != "Running" or last.get("phase") in ("Pending", "Running"):
        return node
    return {**node, "phase": last.get("phase"), "finishedAt": last.get("finishedAt")}


def _node(task: str, node: Mapping[str, Any], attempts: list[dict[str, Any]]) -> EngineNode:
    last = attempts[-1] if attempts else node
    begun = [attempt for attempt in attempts if attempt.get("phase") != "Pending"]
    phase = str(node.get("phase") or "Pending")
    if phase == "Running" and last.get("phase") == "Pending":
        phase = "Pending"  # the attempt's pod waits for a place or an image
    message = str(last.get("message") or "") or str(node.get("message") or "")
    ended = parse_exit_message(message)
    code = (last.get("outputs") or {}).get("exitCode") or (ended.exit_code if ended else None)
    is_over = phase not in ("Pending", "Running")
    outputs = (node.get("outputs") or {}).get("parameters") or (last.get("outputs") or {}).get("parameters") or ()
    return EngineNode(
        task=task,
        phase=cast(Phase, phase if phase in _PHASES else "Error"),
        attempts=len(begun),
        exit_code=int(code) if code is not None and is_over and str(code).isdecimal() else None,
        message="" if ended or phase == "Succeeded" else message,
        last_words=ended.last_words if ended else "",
        started_at=_moment(node.get("startedAt")),
        attempt_started_at=_moment(last.get("startedAt")),
        ended_at=_moment(node.get("finishedAt")) if is_over else None,
        outputs={str(item["name"]): str(item.get("value", "")) for item in outputs if item.get("name")},
    )


def _tasks(workflow: Workflow) -> list[str]:
    """Tasks of the entry DAG in order, the exit handler last."""
    spec = workflow.get("spec") or {}
    if not spec.get("templates"):
        spec = (workflow.get("status") or {}).get("storedWorkflowTemplateSpec") or spec
    templates = {template.get("name"): template for template in spec.get("templates") or ()}
    entry = templates.get((workflow.get("spec") or {}).get("entrypoint") or spec.get("entrypoint")) or {}
    return [str(task["name"]) for task in (entry.get("dag") or {}).get("tasks") or ()]


def _has_begun(task: str, listed: list[EngineNode], others: Mapping[str, EngineNode]) -> bool:
    return any(node.task == task for node in listed) or any(_base(name) == task for name in others)


def _place(task: str, order: list[str]) -> int:
    for name in (task, _base(task)):
        if name in order:
            return order.index(name)
    return len(order)


def _base(task: str) -> str:
    return task.rpartition("-")[0]


def _index(task: str) -> int:
    last = task.rpartition("-")[2]
    return int(last) if last.isdecimal() else -1


def _name(node: Mapping[str, Any], workflow: str) -> NodeName:
    """Of the name below the Workflow's; the display name is what a template chose for people."""
    return parse_node_name(str(node.get("name") or node.get("displayName") or "").removeprefix(f"{workflow}."))


def _is_attempt(node: Mapping[str, Any]) -> bool:
    """By its name: Argo marks as retried also the node around the exit handler's attempts."""
    return node.get("type") == "Pod" and parse_node_name(str(node.get("name", ""))).attempt is not None


def _exit_code(phase: str, stop: StopRequest | None, nodes: list[EngineNode], message: str) -> int | None:
    """As the local engine counts: 83 after a stop or a deadline, else the code of the task that failed first."""
    if phase == "Succeeded":
        return int(ExitCode.OK)
    if _TEMPLATES_ONLY.search(message):
        return int(ExitCode.BAD_INPUT)
    failed = [node for node in nodes if node.phase in ("Failed", "Error")]
    if stop is not None or any(_DEADLINE.search(node.message) for node in failed if node.exit_code is None):
        return int(ExitCode.STOPPED)
    work = [node for node in failed if node.task != FINISH] or failed
    first = min(work, key=lambda node: node.ended_at or "~", default=None)
    return first.exit_code if first else None


def _message(workflow: Workflow, nodes: list[EngineNode]) -> str:
    message = (workflow.get("status") or {}).get("message")
    if (workflow.get("spec") or {}).get("suspend") and not is_over(workflow):
        name = workflow["metadata"]["name"]
        return f"{SUSPENDED}: somebody suspended Workflow {name}, so Argo starts no stage and ends none; {_RELEASE}"
    return "" if stop_of(workflow) or _says_nothing(message, nodes) else _explained(message)


def _says_nothing(message: Any, nodes: list[EngineNode]) -> bool:
    """Argo repeats the message of the task that failed, which the task tells itself."""
    text = str(message or "")
    return not text or parse_exit_message(text) is not None or text.startswith("child '")


def _explained(message: Any) -> str:
    """Argo's message, and what to do about one that people cannot act on as it stands."""
    text = str(message or "")
    return f"{text}; {_HOW_BY_TEMPLATE}" if _TEMPLATES_ONLY.search(text) else text


def _moment(value: Any) -> str | None:
    return value if is_utc(value) else None
