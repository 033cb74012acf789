"""Is there such a queue, is it open, and could it ever hold this gang? Asked before anything is created."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from components.cluster.base import Cluster, Forbidden
from components.cluster.fields import Object
from components.cluster.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITIES, Kind
from components.cluster.quantities import parse_quantity, write_quantity
from components.contracts.pods import QueueRule
from components.errors import BadInput, EnvironmentUnfit, Problem
from components.launch.queue import stop_reason
from components.runtime.log import Log

OTHER_VERSIONS = ("v1", "v1beta3", "v1beta1", "v1alpha1")
"""Of Kueue's API, which we do not speak."""


def require_queue(
    cluster: Cluster, rule: QueueRule, pod: Object, *, num_nodes: int, is_first: bool, log: Log
) -> None:  # fmt: skip
    """Raise BadInput or EnvironmentUnfit for a queue in which a gang of `num_nodes` such pods would wait in vain.

    `is_first`: nothing of this run was admitted yet. A queue that is stopped later is waited for.
    """
    require_kueue(cluster)
    local = cluster.read(LOCAL_QUEUES, rule.name)
    if local is None:
        raise BadInput(
            "UnknownQueue", f"there is no LocalQueue {rule.name} in namespace {cluster.namespace}",
            f"set queue.name to {_known(cluster)}",
        )  # fmt: skip
    cluster_queue = str((local.get("spec") or {}).get("clusterQueue", ""))
    quota = _read(cluster, CLUSTER_QUEUES, cluster_queue, "whether the gang fits its quota", log)
    if quota is None:
        raise EnvironmentUnfit(
            "QueueWithoutQuota", f"LocalQueue {rule.name} draws on ClusterQueue {cluster_queue}, which does not exist",
            "ask whoever runs the cluster",
        )  # fmt: skip
    priority = rule.priority
    if priority and _read(cluster, WORKLOAD_PRIORITIES, priority, "whether there is such a priority", log) is None:
        raise BadInput(
            "UnknownPriority", f"there is no WorkloadPriorityClass {priority}",
            "set queue.priority to one of the cluster's: `kubectl get workloadpriorityclasses`",
        )  # fmt: skip
    known_quota = quota or None
    if is_first and (stopped := stop_reason(local, known_quota)):
        raise EnvironmentUnfit("QueueStopped", f"nothing is admitted from queue {rule.name}: {stopped}",
                               "use another queue, or ask whoever stopped it")  # fmt: skip
    if known_quota is not None and (problems := size_problems(known_quota, pod, num_nodes=num_nodes)):
        raise BadInput("GangTooLarge", f"queue {rule.name} can never hold this gang of {num_nodes} nodes",
                       "use fewer nodes or smaller ones, another queue, or have the quota raised",
                       problems=problems)  # fmt: skip


def require_kueue(cluster: Cluster) -> None:
    """Raise EnvironmentUnfit when the cluster has no Kueue that speaks our version of its API."""
    if cluster.serves(LOCAL_QUEUES):
        return
    for version in OTHER_VERSIONS:
        if cluster.serves(Kind(f"{LOCAL_QUEUES.group}/{version}", LOCAL_QUEUES.plural, LOCAL_QUEUES.kind)):
            raise EnvironmentUnfit(
                "KueueOfAnotherVersion",
                f"the cluster's Kueue serves {LOCAL_QUEUES.group}/{version}, and not {LOCAL_QUEUES.api_version}",
                "install Kueue 0.17 or later with all of its custom resources, or leave `queue` out",
            )  # fmt: skip
    raise EnvironmentUnfit(
        "NoKueue", f"the description has a queue, but the cluster knows no {LOCAL_QUEUES.resource}",
        "install Kueue, or leave `queue` out",
    )  # fmt: skip


def size_problems(cluster_queue: Object, pod: Object, *, num_nodes: int) -> list[Problem]:
    """Resources of which the whole gang needs more than any flavor of the queue can ever give.

    What the queue does not count is not looked at, and neither is what may be borrowed without a limit.
    """
    need = {name: amount * num_nodes for name, amount in pod_requests(pod).items()}
    need["pods"] = Decimal(num_nodes)
    problems: list[Problem] = []
    spec = cluster_queue.get("spec") or {}
    for group in spec.get("resourceGroups") or ():
        lacking = [_lacking(flavor, need, can_borrow=bool(spec.get("cohortName"))) for flavor in group["flavors"]]
        if all(lacking):
            problems += lacking[0]
    return problems


def pod_requests(pod: Object) -> dict[str, Decimal]:
    """What a pod's spec asks for, as scheduler and Kueue count it: sidecars beside the program, init steps before."""
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in pod.get("initContainers") or ():
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            running = _sum(running, wanted)
            peak = _most(peak, running)
        else:
            peak = _most(peak, _sum(running, wanted))
    for container in pod.get("containers") or ():
        running = _sum(running, _requests(container))
    overhead = {name: parse_quantity(str(text)) for name, text in (pod.get("overhead") or {}).items()}
    return _sum(_most(peak, running), overhead)


def _lacking(flavor: Object, need: Mapping[str, Decimal], *, can_borrow: bool) -> list[Problem]:
    found = []
    for resource in flavor.get("resources") or ():
        name, limit = str(resource["name"]), resource.get("borrowingLimit")
        if can_borrow and limit is None:
            continue  # as much as the whole cohort has, which is not ours to see
        most = parse_quantity(str(resource["nominalQuota"])) + parse_quantity(str(limit or "0"))
        if need.get(name, Decimal(0)) > most:
            seen = (
                f"the gang asks for {write_quantity(need[name])}, and there are never more than {write_quantity(most)}"
            )
            found.append(Problem(f"{name} of flavor {flavor['name']}", seen))
    return found


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(str(text)) for name, text in texts.items()}


def _sum(*parts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: sum((part.get(name, Decimal(0)) for part in parts), Decimal(0)) for name in _names(parts)}


def _most(*parts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: max(part.get(name, Decimal(0)) for part in parts) for name in _names(parts)}


def _names(parts: Iterable[Mapping[str, Decimal]]) -> list[str]:
    return sorted({name for part in parts for name in part})


def _read(cluster: Cluster, kind: Kind, name: str, what_for: str, log: Log) -> Object | None:
    """The object; None when there is none; an empty one when this account may not see it."""
    try:
        return cluster.read(kind, name) if name else None
    except Forbidden as error:
        log.warning(f"cannot see {what_for}: Kueue will say so", seen=str(error))
        return {}


def _known(cluster: Cluster) -> str:
    try:
        names = sorted(str(item["metadata"]["name"]) for item in cluster.list(LOCAL_QUEUES).items)
    except Forbidden:
        return "one that is there: `kubectl get localqueues`"
    return f"one of {', '.join(names)}" if names else "one that an administrator has made; there is none"
