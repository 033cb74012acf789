"""Size budgets: what Argo stores and a process can be given is limited, and fails late when exceeded."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from components.errors import Problem

MAX_MANIFEST_BYTES = 256 * 1024
"""A Workflow object with all its node status must stay below 1 MB; the manifest may take a quarter."""

MAX_ARGUMENT_BYTES = 32 * 1024
"""One argument of a container, such as a Spec."""

MAX_TEMPLATES, MAX_TASKS, MAX_PARAMETERS = 200, 200, 500
"""What Argo's own validation rules (CEL) admit."""


def size_problems(manifest: Mapping[str, Any]) -> list[Problem]:
    """Everything in `manifest` that is larger or more than allowed."""
    return list(_size_problems(manifest))


def _size_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    size = len(json.dumps(manifest, separators=(",", ":")).encode())
    if size > MAX_MANIFEST_BYTES:
        yield Problem("manifest", f"{size} bytes; at most {MAX_MANIFEST_BYTES}", "move long arguments into files")
    spec = _mapping(manifest.get("spec"))
    templates = _list(spec.get("templates"))
    yield from _too_many("spec.templates", templates, MAX_TEMPLATES)
    yield from _too_many(
        "spec.arguments.parameters", _list(_mapping(spec.get("arguments")).get("parameters")), MAX_PARAMETERS
    )
    for template in map(_mapping, templates):
        where = f"spec.templates[{template.get('name')}]"
        yield from _too_many(f"{where}.dag.tasks", _list(_mapping(template.get("dag")).get("tasks")), MAX_TASKS)
        for part in ("inputs", "outputs"):
            parameters = _list(_mapping(template.get(part)).get("parameters"))
            yield from _too_many(f"{where}.{part}.parameters", parameters, MAX_PARAMETERS)
        for index, argument in enumerate(_list(_mapping(template.get("container")).get("args"))):
            if isinstance(argument, str) and len(argument.encode()) > MAX_ARGUMENT_BYTES:
                yield Problem(
                    f"{where}.container.args[{index}]",
                    f"{len(argument.encode())} bytes; at most {MAX_ARGUMENT_BYTES}",
                    "move long arguments into a file that the program reads",
                )


def _too_many(where: str, items: list[Any], most: int) -> Iterator[Problem]:
    if len(items) > most:
        yield Problem(where, f"{len(items)} items; Argo admits {most}", "use fewer")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
