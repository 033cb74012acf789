"""How a pod is kept off nodes by their names: written by the launcher, read by who explains why it has no place."""

from collections.abc import Iterable, Mapping
from typing import Any

from components.cluster.fields import Object, parts, text

_TERMS = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def avoiding(nodes: Iterable[str]) -> Mapping[str, Any]:
    """The affinity of a pod that must not run on `nodes`; empty for none.

    By the node's own name: its hostname label may say something else. One name an expression is the API's rule.
    """
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(nodes)]
    return {_TERMS[0]: {_TERMS[1]: {_TERMS[2]: [{"matchFields": fields}]}}} if fields else {}


def avoided_nodes(pod: Object) -> list[str]:
    """The names of nodes that the pod must not run on."""
    fields = [item for term in parts(pod, "spec", "affinity", *_TERMS) for item in parts(term, "matchFields")]
    names = [item.get("values") for item in fields if text(item, "operator") == "NotIn"]
    return sorted(str(name) for values in names if isinstance(values, list | tuple) for name in values)
