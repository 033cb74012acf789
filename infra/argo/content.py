"""What a rendered object is, whoever holds it: a digest that tells an edit in the cluster from what was rendered."""

import copy
from collections.abc import Mapping
from typing import Any

from components.contracts.canonical import digest_of
from components.contracts.cluster_names import CONTENT_LABEL


def content_of(item: Mapping[str, Any]) -> str:
    """A digest of all but the object's name, its server's notes and this digest itself, which its runs carry too."""
    kept = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    metadata = (kept.get("spec") or {}).get("workflowMetadata") or {}
    if CONTENT_LABEL in (metadata.get("labels") or {}):
        kept = copy.deepcopy(kept)
        del kept["spec"]["workflowMetadata"]["labels"][CONTENT_LABEL]
    return digest_of(kept)[:32]


def is_edited(item: Mapping[str, Any]) -> bool:
    """Whether a rendered object is no longer what it says it is. One that says nothing was not rendered by us."""
    said = ((item.get("metadata") or {}).get("labels") or {}).get(CONTENT_LABEL)
    return said is not None and said != content_of(item)
