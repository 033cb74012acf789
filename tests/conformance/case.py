"""A small Workflow and what becomes of it, read from a data file; the same on every place that runs Workflows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "cases"

PLACES = ("local", "cluster")


@dataclass(frozen=True)
class Node:
    """A node as both places tell it. Of an expected node `None` means: not said."""

    phase: str
    attempts: tuple[int | None, ...] | None = None
    """Exit codes of its attempts, in order; None within: it left none."""
    outputs: Mapping[str, str] | None = None
    message: str | None = None
    """Of its last attempt, or of the node itself when it has none."""
    note: str | None = None
    """Of the node that holds the attempts."""


REFUSED = "Refused"
"""Phase of a Workflow that was never begun, because it cannot be read as meant."""


@dataclass(frozen=True)
class Ending:
    """What became of a Workflow."""

    phase: str
    message: str | None
    nodes: Mapping[str, Node]


@dataclass(frozen=True)
class Case:
    """One data file."""

    name: str
    about: str
    data: Mapping[str, Any]
    expected: Ending
    parameters: Mapping[str, str] = field(default_factory=dict)
    stop_when_running: str = ""
    argos_other: Ending | None = None
    """What a real Argo does as often, where two of its threads race."""

    def manifest(self, place: str) -> dict[str, Any]:
        """The Workflow. `{local: …, cluster: …}` in the file is a value that depends on how fast a place is."""
        data: Any = _for_place(self.data, place)
        dag = {"tasks": [_task(task) for task in data["tasks"]], **data.get("dag", {})}
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": f"{self.name}-"},
            "spec": {
                "entrypoint": "main",
                "templates": [
                    {"name": "main", "dag": dag},
                    *(_leaf(*item) for item in data["leaves"].items()),
                    *({"name": name, "steps": [[step]]} for name, step in data.get("steps", {}).items()),
                ],
                **data.get("spec", {}),
            },
        }


def read_cases() -> list[Case]:
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def differences(expected: Ending, seen: Ending) -> list[str]:
    """Everything that `expected` says and `seen` does not; nodes must be the same."""
    found = [f"phase {seen.phase}, expected {expected.phase}"] if seen.phase != expected.phase else []
    if expected.message is not None and seen.message != expected.message:
        found.append(f"message {seen.message!r}, expected {expected.message!r}")
    for name in sorted(expected.nodes.keys() ^ seen.nodes.keys()):
        found.append(f"{name}: {'was not there' if name in expected.nodes else 'is not expected'}")
    for name in sorted(expected.nodes.keys() & seen.nodes.keys()):
        for part in ("phase", "attempts", "outputs", "message", "note"):
            wanted, got = getattr(expected.nodes[name], part), getattr(seen.nodes[name], part)
            if wanted is not None and wanted != got:
                found.append(f"{name}: {part} {got!r}, expected {wanted!r}")
    return found


def _read(path: Path) -> Case:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    other = data.pop("argo_also", None)
    return Case(
        path.stem, data.pop("about"), data, _ending(data.pop("expect")), data.pop("parameters", {}),
        data.pop("stop_when_running", ""), _ending(other) if other else None,
    )  # fmt: skip


def _ending(said: Mapping[str, Any]) -> Ending:
    nodes = {name: _node(node) for name, node in said.get("nodes", {}).items()}
    return Ending(said["phase"], said.get("message"), nodes)


def _node(node: Mapping[str, Any]) -> Node:
    attempts = tuple(node["attempts"]) if "attempts" in node else None
    outputs = node.get("outputs", {} if attempts else None)
    return Node(node["phase"], attempts, outputs, node.get("message"), node.get("note"))


def _for_place(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        if value.keys() == set(PLACES):
            return value[place]
        return {key: _for_place(inner, place) for key, inner in value.items()}
    return [_for_place(item, place) for item in value] if isinstance(value, list) else value


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    arguments = [{"name": name, "value": value} for name, value in task.get("arguments", {}).items()]
    return {"template": task["name"], **task, **({"arguments": {"parameters": arguments}} if arguments else {})}


def _leaf(name: str, leaf: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(leaf)
    command = ["sh", "-c", fields.pop("run")] if "run" in fields else fields.pop("command")
    env = [{"name": key, "value": value} for key, value in fields.pop("env", {}).items()]
    inputs = [_pair(item) for item in fields.pop("inputs", ())]
    outputs = [_pair(item) for item in fields.pop("outputs", ())]
    return {
        "name": name,
        "container": {"image": "image", "command": command, "args": fields.pop("args", []), "env": env},
        "inputs": {"parameters": [{"name": name, **_said("value", value)} for name, value in inputs]},
        "outputs": {
            "parameters": [
                {"name": name, "valueFrom": {"path": f"/argosy/out/{name}", **_said("default", default)}}
                for name, default in outputs
            ]
        },
        **fields,
    }


def _pair(item: str | list[str]) -> tuple[str, str | None]:
    return (item, None) if isinstance(item, str) else (item[0], item[1])


def _said(key: str, value: str | None) -> dict[str, str]:
    return {} if value is None else {key: value}
