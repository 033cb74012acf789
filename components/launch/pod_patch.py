"""Lays `launch.pod_patch` over the rendered pod. Pure; what it may hold is `components.contracts.pod_patch`."""

import copy
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def patched(spec: Manifest, patch: Mapping[str, Any]) -> Manifest:
    """`spec` with `patch`: mappings are merged, lists grow, the program's container is found by its name.

    Nodes that this generation must avoid are avoided in every way the patch offers: its terms are alternatives.
    """
    result, theirs = copy.deepcopy(spec), copy.deepcopy(dict(patch))
    for container in theirs.pop("containers", ()):
        ours = next(item for item in result["containers"] if item["name"] == container["name"])
        ours.update(_merged(ours, container))
        ours["env"] = one_each(ours.get("env") or [])
    avoided = _terms(result.get("affinity") or {})
    result = _merged(result, theirs)
    if avoided and (wanted := _terms(theirs.get("affinity") or {})):
        fields = [field for term in avoided for field in term["matchFields"]]
        terms = [{**term, "matchFields": [*(term.get("matchFields") or ()), *fields]} for term in wanted]
        result["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"] = terms
    return result


def one_each(variables: list[Manifest]) -> list[Manifest]:
    """The last word on each variable, where the first was: the API server takes no name twice."""
    return list({item["name"]: item for item in variables}.values())


def _terms(affinity: Mapping[str, Any]) -> list[Manifest]:
    required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return list(required.get("nodeSelectorTerms") or ())


def _merged(ours: Manifest, theirs: Mapping[str, Any]) -> Manifest:
    result = dict(ours)
    for key, value in theirs.items():
        mine = result.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            result[key] = _merged(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            result[key] = [*mine, *value]
        else:
            result[key] = value
    return result
