"""What of the cluster's objects may be kept as evidence: an allow-list of fields, and texts without secrets. Pure.

Commands, arguments, variables, parameters and annotations of others never pass. What passes is text of controllers and
of containers' last words, which may repeat a secret: literal values of variables are known and masked, and so is what
looks like a credential.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from components.contracts.run_view import RunView
from components.diagnosis.credentials import PATTERNS

MASK = "***"

Object = Mapping[str, Any]
Mask = Callable[[str], str]

_SHORTEST_SECRET = 6
# `NoCredentials:` is a reason of ours: what follows it is a sentence.
_NAMED = re.compile(
    r"(?i)(?<![\w-])(?!NoCredentials:)"
    r"([\w-]*(?:password|passwd|secret[_-]?(?:access[_-]?)?key|access[_-]?key(?:[_-]?id)?|api[_-]?key|auth[_-]?token|"
    r"session[_-]?token|credential|private[_-]?key|(?<![a-z])token)s?[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{4,})"
)

_OWNERS = {"ownerReferences": [("kind", "name", "uid")]}
_META = {
    "metadata": {
        "name": ..., "namespace": ..., "uid": ..., "creationTimestamp": ..., "deletionTimestamp": ...,
        "deletionGracePeriodSeconds": ..., "finalizers": ..., "labels": re.compile(
            r"argosy\.dev/.*|workflows\.argoproj\.io/.*|(?:batch\.kubernetes\.io/)?job-name|"
            r"jobset\.sigs\.k8s\.io/(?:jobset-name|restart-attempt)|kueue\.x-k8s\.io/.*"
        ),
        "annotations": re.compile(
            r"batch\.kubernetes\.io/job-completion-index|workflows\.argoproj\.io/node-(?:name|id)|argosy\.dev/stop"
        ),
        **_OWNERS,
    }
}  # fmt: skip
_CONDITIONS = {"conditions": [("type", "status", "reason", "message", "lastTransitionTime")]}
_STATE = {
    "waiting": {"reason": ..., "message": ...}, "running": {"startedAt": ...},
    "terminated": {"reason": ..., "message": ..., "exitCode": ..., "signal": ..., "startedAt": ..., "finishedAt": ...},
}  # fmt: skip
_STATUSES = [
    {"name": ..., "image": ..., "ready": ..., "started": ..., "restartCount": ..., "state": _STATE, "lastState": _STATE}
]
_CONTAINERS = [{"name": ..., "image": ..., "imagePullPolicy": ..., "resources": ..., "restartPolicy": ...}]
_POD = {
    **_META,
    "spec": {
        "nodeName": ..., "nodeSelector": ..., "affinity": ..., "tolerations": ..., "schedulerName": ...,
        "schedulingGates": ..., "priorityClassName": ..., "runtimeClassName": ..., "serviceAccountName": ...,
        "hostNetwork": ..., "terminationGracePeriodSeconds": ..., "activeDeadlineSeconds": ...,
        "containers": _CONTAINERS, "initContainers": _CONTAINERS, "imagePullSecrets": [("name",)],
        "volumes": [{"name": ..., "secret": {"secretName": ...}, "configMap": {"name": ...},
                     "persistentVolumeClaim": {"claimName": ...}}],
    },
    "status": {
        "phase": ..., "reason": ..., "message": ..., "startTime": ..., "containerStatuses": _STATUSES,
        "initContainerStatuses": _STATUSES, **_CONDITIONS,
    },
}  # fmt: skip
_SHAPES: dict[str, Any] = {
    "pods": _POD,
    "workflows": {
        **_META,
        "spec": {"entrypoint": ..., "shutdown": ..., "suspend": ..., "serviceAccountName": ...,
                 "activeDeadlineSeconds": ...},
        "status": {
            "phase": ..., "message": ..., "startedAt": ..., "finishedAt": ..., **_CONDITIONS,
            "nodes": {"*": {"id": ..., "name": ..., "displayName": ..., "type": ..., "phase": ..., "message": ...,
                            "startedAt": ..., "finishedAt": ..., "templateName": ..., "children": ...}},
        },
    },
    "jobs": {
        **_META, "kind": ...,
        "spec": {"parallelism": ..., "completions": ..., "suspend": ..., "backoffLimit": ...,
                 "activeDeadlineSeconds": ...},
        "status": {"active": ..., "ready": ..., "failed": ..., "succeeded": ..., "terminating": ..., "startTime": ...,
                   **_CONDITIONS},
    },
    "jobsets": {
        **_META, "kind": ..., "spec": {"suspend": ..., "replicatedJobs": [("name", "replicas")]},
        "status": {"terminalState": ..., "restarts": ..., "replicatedJobsStatus": ..., **_CONDITIONS},
    },
    "queued": {
        **_META,
        "spec": {"queueName": ..., "active": ..., "priority": ..., "priorityClassName": ..., "priorityClassRef": ...,
                 "podSets": [("name", "count")]},
        "status": {
            **_CONDITIONS, "admissionChecks": [("name", "state", "message", "lastTransitionTime")],
            "requeueState": ..., "admission": {"clusterQueue": ...},
        },
    },
    "queues": {
        **_META, "spec": {"clusterQueue": ..., "stopPolicy": ...},
        "status": {"pendingWorkloads": ..., "admittedWorkloads": ..., "reservingWorkloads": ..., **_CONDITIONS},
    },
    "events": {
        "metadata": {"name": ...}, "type": ..., "reason": ..., "message": ..., "count": ..., "firstTimestamp": ...,
        "lastTimestamp": ..., "eventTime": ..., "series": {"count": ..., "lastObservedTime": ...},
        "involvedObject": {"kind": ..., "name": ..., "uid": ..., "fieldPath": ...},
        "reportingComponent": ..., "source": {"component": ...},
    },
    "nodes": {
        "metadata": {"name": ..., "uid": ..., "labels": ...}, "spec": {"taints": ..., "unschedulable": ...},
        "status": {"allocatable": ..., **_CONDITIONS},
    },
}  # fmt: skip

_DESCRIBED = ("num_nodes", "nproc_per_node", "max_restarts", "limits", "queue", "backend")


def kept(kind: str, item: Object, mask: Mask) -> dict[str, Any]:
    """The fields of one object of `kind` (as `Observed` calls it) that may be kept, its texts masked."""
    value = _kept(_SHAPES[kind], item, mask)
    return value if isinstance(value, dict) else {}


def kept_view(view: RunView, mask: Mask) -> RunView:
    """A run's view without the description's values that name no shape, and with its texts masked."""
    launch = view.description.get("launch")
    description = {
        **({"queue": view.description["queue"]} if "queue" in view.description else {}),
        "launch": {name: launch[name] for name in _DESCRIBED if name in launch} if isinstance(launch, dict) else {},
    }
    gangs = tuple(gang.model_copy(update={"steps": gang.steps[-1:]}) for gang in view.gangs)
    document = view.model_copy(update={"description": description, "retention": None, "gangs": gangs}).as_json()
    return RunView.model_validate_json(json.dumps(_masked(document, mask)))


def masking(secrets: Iterable[str], known: Iterable[str] = ()) -> Mask:
    """Masks those values, and what looks like a credential. `known` values are names, never masked."""
    ordinary = set(known)
    values = sorted(
        {value for value in secrets if len(value) >= _SHORTEST_SECRET and value not in ordinary},
        key=lambda value: -len(value),
    )
    literal = re.compile("|".join(re.escape(value) for value in values)) if values else None

    def mask(text: str) -> str:
        if literal is not None:
            text = literal.sub(MASK, text)
        text = _NAMED.sub(rf"\1{MASK}", text)
        for pattern in PATTERNS:
            text = pattern.sub(MASK, text)
        return text

    return mask


def secret_values(value: Any) -> Iterator[str]:
    """Literal values of every variable below `value`: pods' `env`, and a description's `env` mapping."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "env" and isinstance(inner, list):
                for entry in inner:
                    if isinstance(entry, Mapping) and isinstance(entry.get("value"), str):
                        yield entry["value"]
            elif key in ("env", "secrets") and isinstance(inner, Mapping):
                yield from (item for item in inner.values() if isinstance(item, str))
            else:
                yield from secret_values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secret_values(inner)


def _kept(shape: Any, value: Any, mask: Mask) -> Any:
    if shape is ...:
        return _masked(value, mask)
    if isinstance(shape, re.Pattern):
        entries = value.items() if isinstance(value, Mapping) else ()
        return {key: _masked(inner, mask) for key, inner in entries if shape.fullmatch(str(key))}
    if isinstance(shape, list):
        inner = shape[0]
        if isinstance(inner, tuple):
            inner = dict.fromkeys(inner, ...)
        return (
            [_kept(inner, item, mask) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
        )
    if not isinstance(value, Mapping):
        return {}
    if "*" in shape:
        return {key: _kept(shape["*"], inner, mask) for key, inner in value.items()}
    found = {key: _kept(inner, value[key], mask) for key, inner in shape.items() if key in value}
    return {key: inner for key, inner in found.items() if inner not in (None, {}, [])}


def _masked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked(inner, mask) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(inner, mask) for inner in value]
    return value
