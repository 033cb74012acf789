"""What `launch.pod_patch` may say about the gang's pods: a part of a pod's spec, laid over ours. Pure.

It is a list of what is allowed, because Kubernetes grows new ways to leave a pod's fence faster than a list of what is
forbidden could.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from components.errors import Problem

PROGRAM = "program"
"""The one container that is the user's."""

OUR_VOLUMES = frozenset(("bin", "work", "cache", "home", "tmp", "shm", "gang", "ca", "trust"))
OUR_PATHS = ("/argosy", "/dev/shm", "/tmp", "/proc", "/sys", "/dev", "/etc", "/var/run/secrets")

_POD = frozenset(
    (
        "affinity", "topologySpreadConstraints", "dnsConfig", "hostAliases", "preemptionPolicy", "schedulingGates",
        "resourceClaims", "volumes", "containers",
    )
)  # fmt: skip
_PROGRAM = frozenset(("name", "env", "envFrom", "ports", "resources", "volumeMounts", "volumeDevices"))
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_LISTS = frozenset(("topologySpreadConstraints", "hostAliases", "schedulingGates", "resourceClaims"))
_MAPPINGS = frozenset(("affinity", "dnsConfig"))

_INSTEAD = {
    "serviceAccountName": "the gang's account is the platform's; storage_options.service_account names another",
    "serviceAccount": "the gang's account is the platform's; storage_options.service_account names another",
    "automountServiceAccountToken": "no container of the gang gets a token",
    "securityContext": "who the pods run as, and what they may, is the platform's",
    "initContainers": "the agent and its files are ours, and the ranks are started by the guard",
    "ephemeralContainers": "add one to a running pod with kubectl debug, if you may",
    "hostNetwork": "write launch.host_network",
    "hostPID": "the pods stay in their own namespaces",
    "hostIPC": "the pods stay in their own namespaces",
    "hostUsers": "the pods stay in their own namespaces",
    "shareProcessNamespace": "the guard kills what its ranks leave, and must not see the agent among it",
    "nodeName": "the scheduler places the pods; write affinity or launch.node_selector",
    "nodeSelector": "write launch.node_selector",
    "tolerations": "write launch.tolerations",
    "imagePullSecrets": "write image_pull_secrets",
    "priorityClassName": "write launch.priority_class",
    "schedulerName": "write launch.scheduler_name",
    "runtimeClassName": "write launch.runtime_class",
    "terminationGracePeriodSeconds": "it follows from launch.limits.stop",
    "activeDeadlineSeconds": "write launch.limits.run",
    "restartPolicy": "restarts are launch.max_restarts",
    "command": "write launch.command",
    "args": "write launch.command",
    "workingDir": "write launch.workdir",
    "image": "write image",
    "hostname": "the gang finds itself by the names of its pods",
    "subdomain": "the gang finds itself by the names of its pods",
    "dnsPolicy": "write dnsConfig",
    "lifecycle": "the guard starts and stops the ranks",
    "livenessProbe": "launch.limits.no_progress tells a hang",
}


def pod_patch_problems(patch: Mapping[str, Any], *, where: str = "launch.pod_patch") -> list[Problem]:
    """Everything in `patch` that may not be there."""
    return list(_problems(patch, where))


def _problems(patch: Mapping[str, Any], where: str) -> Iterator[Problem]:
    for key, value in patch.items():
        place = f"{where}.{key}"
        if key not in _POD:
            yield _refused(place, key, _POD)
        elif key in _LISTS and not _is_list_of_mappings(value):
            yield Problem(place, "is no list of mappings", "write it as in a pod's spec")
        elif key in _MAPPINGS and not isinstance(value, dict):
            yield Problem(place, "is no mapping", "write it as in a pod's spec")
        elif key == "preemptionPolicy" and value not in ("Never", "PreemptLowerPriority"):
            yield Problem(place, f"is {value!r}", "write Never or PreemptLowerPriority")
        elif key == "volumes":
            yield from _about_volumes(value, place)
        elif key == "containers":
            yield from _about_containers(value, place)


def _refused(place: str, key: str, allowed: frozenset[str]) -> Problem:
    return Problem(place, "may not be patched", _INSTEAD.get(key, f"it may hold {', '.join(sorted(allowed))}"))


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _about_volumes(value: Any, where: str) -> Iterator[Problem]:
    if not _is_list_of_mappings(value):
        yield Problem(where, "is no list of mappings", "write [{name: fast, emptyDir: {}}]")
        return
    for index, volume in enumerate(value):
        place = f"{where}[{index}]"
        name, sources = volume.get("name"), sorted(set(volume) - {"name"})
        if not isinstance(name, str) or not name:
            yield Problem(place, "has no name", "give it one")
        elif name in OUR_VOLUMES or name.startswith("volume-"):
            yield Problem(place, f"is called {name}, as a volume of ours is", "choose another name")
        if len(sources) != 1:
            yield Problem(place, f"has {len(sources)} sources", "write exactly one, for example emptyDir: {}")
        elif sources[0] not in _VOLUMES:
            yield Problem(
                f"{place}.{sources[0]}",
                "is no source that a gang may use",
                f"it is one of {', '.join(sorted(_VOLUMES))}",
            )
        elif _holds_token(volume[sources[0]]):
            yield Problem(f"{place}.projected", "holds a service account token", "no container of the gang gets one")


def _holds_token(source: Any) -> bool:
    parts = source.get("sources") if isinstance(source, dict) else None
    return isinstance(parts, list) and any(isinstance(part, dict) and "serviceAccountToken" in part for part in parts)


def _about_containers(value: Any, where: str) -> Iterator[Problem]:
    if not _is_list_of_mappings(value) or [item.get("name") for item in value] != [PROGRAM]:
        yield Problem(where, "may name the program's container only", f"write [{{name: {PROGRAM}, ...}}]")
        return
    place = f"{where}[0]"
    for key, item in value[0].items():
        if key not in _PROGRAM:
            yield _refused(f"{place}.{key}", key, _PROGRAM)
        elif key == "resources":
            if not isinstance(item, dict) or set(item) - {"limits", "requests", "claims"}:
                yield Problem(f"{place}.{key}", "is not as in a pod's spec", "it holds limits, requests and claims")
        elif key != "name" and not _is_list_of_mappings(item):
            yield Problem(f"{place}.{key}", "is no list of mappings", "write it as in a pod's spec")
        elif key == "env":
            yield from _about_env(item, f"{place}.{key}")
        elif key == "volumeMounts":
            yield from _about_mounts(item, f"{place}.{key}")


def _about_env(value: list[dict[str, Any]], where: str) -> Iterator[Problem]:
    for index, variable in enumerate(value):
        name = variable.get("name")
        if not isinstance(name, str) or not name:
            yield Problem(f"{where}[{index}]", "has no name", "give it one")
        elif name.startswith("ARGOSY_") or name in ("HOME", "USER"):
            yield Problem(f"{where}[{index}]", f"sets {name}, which is ours", "choose another name, or launch.env")


def _about_mounts(value: list[dict[str, Any]], where: str) -> Iterator[Problem]:
    for index, mount in enumerate(value):
        place, name, path = f"{where}[{index}]", mount.get("name"), mount.get("mountPath")
        if name in OUR_VOLUMES:
            yield Problem(place, f"mounts {name}, a volume of ours", "mount volumes of your own")
        if not isinstance(path, str) or not path.startswith("/") or ".." in path.split("/"):
            yield Problem(place, f"has mountPath {path!r}", "write an absolute path without `..`")
        elif path.rstrip("/") == "" or any(path == own or path.startswith(f"{own}/") for own in OUR_PATHS):
            yield Problem(place, f"covers {path}", f"not /, nor below {', '.join(OUR_PATHS)}")
        if mount.get("mountPropagation", "None") == "Bidirectional":
            yield Problem(place, "has mountPropagation Bidirectional", "that needs a privileged container")
