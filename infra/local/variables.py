"""What `{{…}}` stands for: outputs of earlier tasks, items, inputs, workflow parameters. Pure, Argo's passes in order.

task      workflow.*, tasks.*  →  item
template  workflow.*           →  inputs.*  →  retries  →  $(NAME), which is Kubernetes'
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from components.contracts.node_names import attempt_node, is_exit_node
from infra.local.events import Phase
from infra.local.expansion import expand, expand_variables
from infra.local.program import Leaf, Program, Task
from infra.local.state import NodeState
from infra.local.substitution import substitute

_MAX_FAILURES = 50
_MAX_FAILURE_MESSAGE = 500


def workflow_variables(program: Program, *, run: str) -> dict[str, str]:
    """`workflow.*` everywhere."""
    return {
        "workflow.name": run,
        **{
            f"workflow.parameters.{name}": substitute(value, {"workflow.name": run})
            for name, value in program.parameters.items()
        },
    }


def exit_variables(program: Program, status: Phase, nodes: Mapping[str, NodeState], *, run: str) -> dict[str, str]:
    """`workflow.*` in the exit handler only: how the entry DAG ended, and what failed."""
    spec = program.workflow.spec
    whole = [_failure(run, spec.entrypoint, status, "", None)] if status in ("Failed", "Error") else []
    return {"workflow.status": status, "workflow.failures": _failures([*whole, *_failed(nodes)])}


def task_arguments(
    task: Task, nodes: Mapping[str, NodeState], workflow: Mapping[str, str], *, item: str | None = None
) -> dict[str, str]:
    """The arguments `task` hands to its template. Raises SubstitutionError when an earlier task left no such output."""
    scope = {**workflow}
    for name in task.ancestors:
        scope.update(_outputs(nodes[name], nodes))
    arguments = {name: value or "" for name, value in task.view.arguments.values().items()}
    resolved = substitute(arguments, scope, strict=("tasks",))
    return dict(resolved if item is None else substitute(resolved, {**scope, "item": item}))


def container_command(
    leaf: Leaf, arguments: Mapping[str, str], workflow: Mapping[str, str], *, attempt: int
) -> tuple[list[str], str, dict[str, str]]:
    """The command line of one attempt, the name of its image, and the variables its template sets."""
    container = leaf.template.container
    assert container is not None, "a leaf is a container"
    value: Any = {
        "argv": [*container.command, *container.args],
        "image": container.image,
        "env": {variable.name: variable.value for variable in container.env},
        "inputs": {**leaf.template.inputs.values(), **arguments},
    }
    value = substitute(value, workflow)
    value = substitute(value, {f"inputs.parameters.{name}": text for name, text in value["inputs"].items()})
    value = substitute(value, {"retries": str(attempt)})
    declared = expand_variables(value["env"].items())
    return [expand(word, declared) for word in value["argv"]], value["image"], declared


def _failures(items: list[dict[str, Any]]) -> str:
    """A JSON list inside a JSON string, as Argo hands it over; `"null"` when nothing failed.

    Cut to what fits into one argument of a command line, which Argo writes to a file when it is longer.
    """
    return json.dumps(json.dumps(items[:_MAX_FAILURES] or None, separators=(",", ":")))


def _failed(nodes: Mapping[str, NodeState]) -> Iterator[dict[str, Any]]:
    """Nodes that failed, then attempts that did, also those of nodes that succeeded later, as in Argo."""
    listed = [node for node in nodes.values() if not is_exit_node(node.name)]
    for node in listed:
        if node.phase in ("Failed", "Error"):
            message = node.note if node.kind == "Retry" and node.attempts else node.message
            yield _failure(node.name, node.template, node.phase, message, node.finished_at)
    for node in listed:
        for attempt in node.attempts if node.kind == "Retry" else ():
            if attempt.phase in ("Failed", "Error") and not attempt.is_lost:
                name = attempt_node(node.name, attempt.attempt)
                yield _failure(name, node.template, attempt.phase, attempt.message, attempt.finished_at)


def _failure(name: str, template: str, phase: Phase, message: str, finished_at: str | None) -> dict[str, Any]:
    return {
        "displayName": name,
        "message": message[:_MAX_FAILURE_MESSAGE].replace("\x7f", "?"),
        "templateName": template,
        "phase": phase,
        "podName": "",
        "finishedAt": finished_at,
    }


def _outputs(node: NodeState, nodes: Mapping[str, NodeState]) -> dict[str, str]:
    prefix = f"tasks.{node.name}.outputs.parameters"
    if node.kind == "TaskGroup":
        return _aggregated(prefix, group_items(node, nodes))
    return {f"{prefix}.{name}": value for name, value in node.outputs.items()}


def group_items(group: NodeState, nodes: Mapping[str, NodeState]) -> list[NodeState]:
    """The nodes of a sequence's items, in the sequence's order."""
    return [node for node in nodes.values() if node.task == group.task and node.name != group.name]


def _aggregated(prefix: str, items: list[NodeState]) -> dict[str, str]:
    """A list over the items that succeeded, for each output."""
    produced = [node.outputs for node in items if node.phase == "Succeeded"]
    scope: dict[str, str] = {}
    for name in dict.fromkeys(name for outputs in produced for name in outputs):
        values = [outputs[name] for outputs in produced if name in outputs]
        scope[f"{prefix}.{name}"] = _json(_parsed(values))
    return scope


def _parsed(values: list[str]) -> list[Any]:
    """The values themselves when each is a JSON list or object, as Argo does; else the texts."""
    try:
        parsed = [json.loads(value) for value in values]
    except ValueError:
        return list(values)
    return parsed if all(isinstance(value, (list, dict)) for value in parsed) else list(values)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
