"""The Kubernetes objects of one generation: JobSet, or Indexed Job with headless Service; and their Secret. Pure."""

import base64
from collections.abc import Mapping
from typing import Any, Literal

from components.contracts.cluster_names import COORDINATOR_PORT, GANG_LABEL, PRIORITY_LABEL, QUEUE_LABEL
from components.contracts.names import gang_name
from components.errors import Problem
from components.launch.backend import MeetingPoint
from components.launch.pod_template import SECRET_KEY, SPEC_KEY, GangPlan, Manifest, pod_template

GangKind = Literal["jobset", "job"]

REPLICATED_JOB = "n"
"""Short, because it stands in the names of pods."""

_HOST_PORTS = range(20000, 28000)
"""Below those that Linux gives away by itself, and those of NodePorts."""

_MAX_NAME = 63
_RANDOM_SUFFIX = 6
"""`-x7k2p`, which the Job controller puts behind a pod's name."""

_MAX_SECRET_BYTES = 1_000_000


def coordinator(kind: GangKind, *, gang: str, host_network: bool) -> MeetingPoint:
    """Name of agent 0's pod through the headless Service, which has the gang's name; never an address of an earlier
    generation, because the name holds the generation.
    """
    return MeetingPoint(f"{pod_hostname(kind, gang=gang, node_rank=0)}.{gang}", _port(gang, host_network))


def pod_hostname(kind: GangKind, *, gang: str, node_rank: int) -> str:
    """Host name of a node's pod, which is also its pod's name without the random end."""
    return f"{gang}-{REPLICATED_JOB}-0-{node_rank}" if kind == "jobset" else f"{gang}-{node_rank}"


def name_problems(kind: GangKind, *, run: str, generation: int, num_nodes: int) -> list[Problem]:
    """What is too long. Without its webhook a JobSet with such a name is accepted and never starts."""
    longest = pod_hostname(kind, gang=gang_name(run, generation), node_rank=num_nodes - 1)
    surplus = len(longest) + _RANDOM_SUFFIX - _MAX_NAME
    if surplus <= 0:
        return []
    seen = f"its last pod would be called {longest}-xxxxx, {surplus} characters more than a DNS label may have"
    return [Problem(f"run {run}", seen, f"use a run name of at most {len(run) - surplus} characters")]


def secret_object(plan: GangPlan, *, secret: str, variables: Mapping[str, str]) -> Manifest:
    """What agents must know: the gang's spec and secret, and the storage's credentials."""
    data = {SPEC_KEY: plan.spec.to_bytes(), SECRET_KEY: secret.encode()}
    data.update({name: value.encode() for name, value in variables.items()})
    return {
        "apiVersion": "v1", "kind": "Secret", "metadata": plan.metadata(), "type": "Opaque", "immutable": True,
        "data": {key: base64.b64encode(value).decode("ascii") for key, value in sorted(data.items())},
    }  # fmt: skip


def secret_problems(plan: GangPlan) -> list[Problem]:
    """A Secret holds a megabyte."""
    size = len(plan.spec.to_bytes())
    if size <= _MAX_SECRET_BYTES:
        return []
    return [Problem("launch", f"the gang's spec has {size} bytes", "shorten launch.env and launch.command")]


def service_object(plan: GangPlan) -> Manifest:
    """Names for the pods of an Indexed Job; a JobSet has its own."""
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": plan.metadata(),
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GANG_LABEL: plan.name},
            "type": "ClusterIP", "sessionAffinity": "None",
        },
    }  # fmt: skip


def job_object(plan: GangPlan) -> Manifest:
    """An Indexed Job: one pod a node, none of them ever replaced."""
    job = _job_spec(plan)
    job["ttlSecondsAfterFinished"] = plan.pods.ttl_seconds
    job["template"]["spec"]["subdomain"] = plan.name
    job["suspend"] = plan.pods.queue is not None
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _queued_metadata(plan), "spec": job}


def jobset_object(plan: GangPlan) -> Manifest:
    """A JobSet of one Job. Everything its webhook would add is here: clusters run without it, and it panics."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": _queued_metadata(plan),
        "spec": {
            "suspend": plan.pods.queue is not None,
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": plan.name},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            # Restarts have one owner, and it is not the JobSet controller.
            "failurePolicy": {"maxRestarts": 0, "restartStrategy": "BlockingRecreate", "rules": []},
            "ttlSecondsAfterFinished": plan.pods.ttl_seconds,
            "replicatedJobs": [
                {
                    "name": REPLICATED_JOB, "groupName": "default", "replicas": 1,
                    "template": {"metadata": {"labels": plan.labels}, "spec": _job_spec(plan)},
                }
            ],
        },
    }  # fmt: skip


def _queued_metadata(plan: GangPlan) -> dict[str, Any]:
    """With a queue Kueue is told which, and the object is created suspended: Kueue ends that when the gang fits.

    Only here, not on pods or a JobSet's Jobs: what is labelled is admitted by itself.
    """
    metadata, queue = plan.metadata(), plan.pods.queue
    if queue is None:
        return metadata
    labels = {QUEUE_LABEL: queue.name, **({PRIORITY_LABEL: queue.priority} if queue.priority else {})}
    return {**metadata, "labels": {**metadata["labels"], **labels}}


def _job_spec(plan: GangPlan) -> dict[str, Any]:
    return {
        "completionMode": "Indexed",
        "parallelism": plan.spec.num_nodes,
        "completions": plan.spec.num_nodes,
        "backoffLimit": 0,
        # A pod that was asked to go counts as failed at once: no rank is replaced within a generation.
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": False,
        "template": pod_template(plan),
    }


def _port(gang: str, host_network: bool) -> int:
    """With `host_network` each gang takes its own: others may be on the same machine."""
    if not host_network:
        return COORDINATOR_PORT
    return _HOST_PORTS[sum(char * (index + 1) for index, char in enumerate(gang.encode())) % len(_HOST_PORTS)]
