"""What is wrong with a manifest, in people's words: the path with names in it, and why a known field is refused."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from components.errors import Problem

_REFUSED = {
    "dependencies": "use depends: a task has one or the other",
    "maxDuration": "it counts from the first attempt's start and kills a healthy later attempt",
    "templateDefaults": "it is merged into every template, also DAGs, and multiplies retries; set each leaf's own",
    "retryStrategy": "on the whole Workflow it multiplies the leaves' own; set it on leaves only",
    "timeout": "use activeDeadlineSeconds; with both, timeout wins, and with retries neither frees a pending pod",
    "continueOn": "say it in depends",
}


def refusals(error: ValidationError, manifest: Any) -> list[Problem]:
    """Every fault that `error` found in `manifest`."""
    return [_problem(item, manifest) for item in error.errors()]


def _problem(item: Any, manifest: Any) -> Problem:
    path = _named_path(item["loc"], manifest)
    if item["type"] == "extra_forbidden":
        name = str(item["loc"][-1])
        return Problem(path, "unknown field", _REFUSED.get(name, "Argosy neither emits nor honours it; remove it"))
    return Problem(path or "manifest", item["msg"].removeprefix("Value error, "))


def _named_path(location: tuple[int | str, ...], manifest: Any) -> str:
    """Path with list items by name: spec.templates[retain].container.image."""
    value, path = manifest, ""
    for part in location:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
        if isinstance(part, int):
            name = value.get("name") if isinstance(value, Mapping) else None
            path += f"[{name if isinstance(name, str) else part}]"
        else:
            path += f".{part}" if path else part
    return path
