"""Where a gang stands in its queue, from the objects Kueue keeps about it. Pure.

Kueue suspends the gang's own object and makes a Workload for it. Suspended it has no pods: it is admitted as a whole,
and as a whole its quota is taken back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from components.cluster.fields import Object, condition
from components.cluster.quantities import parse_quantity, write_quantity
from components.contracts.gang import GenerationView
from components.contracts.queue import QueueView, QuotaView

PREEMPTED = "Preempted"
"""Begin reason of a generation whose predecessor had to make room."""

SUSPENDED = "Suspended"
"""Why a gang loses its quota as long as Kueue has not said."""

_FREE_EVICTIONS = ("Preempted", "ClusterQueueStopped", "LocalQueueStopped", "AdmissionCheck", "NodeFailures",
                   "FlavorMigration")  # fmt: skip
"""Why Kueue takes a gang's quota back without any fault of the gang."""
_MAX_TEXT = 400


class QueuePhase(StrEnum):
    """How a generation stands with its queue."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    TAKEN = "taken"
    """It was admitted, and has lost its quota: its pods are told to go."""
    REFUSED = "refused"
    """It will never be admitted."""


@dataclass(frozen=True)
class QueueStanding:
    """What the queue says about a generation now."""

    phase: QueuePhase
    reason: str = ""
    """CamelCase."""
    message: str = ""
    is_free: bool = True
    """With TAKEN: not the gang's fault, so what follows costs no restart."""
    view: QueueView | None = None
    """With WAITING."""


@dataclass(frozen=True)
class Sight:
    """What can be seen of the queue at one moment."""

    gang: Object | None
    """The gang's JobSet or Job."""
    workloads: Sequence[Object]
    """All of the namespace."""
    local_queue: Object | None = None
    cluster_queue: Object | None = None
    """None also where this account may not see it."""
    everybody: Sequence[Object] | None = None
    """Workloads of every namespace, where this account may see them."""
    waited_seconds: float = 0.0
    is_kueue_silent: bool = False
    """No Workload was made of the gang for longer than Kueue takes."""


def queue_standing(sight: Sight, *, name: str, since: str, was_admitted: bool) -> QueueStanding:
    """`since`: when this generation began to wait. `was_admitted`: it was seen to be let in, or to have run."""
    workload = workload_of(sight.gang, sight.workloads) if sight.gang else None
    is_suspended = sight.gang is None or bool((sight.gang.get("spec") or {}).get("suspend"))
    if was_admitted:
        evicted = _condition(workload, "Evicted", "True")
        if sight.gang is not None and (is_suspended or evicted):
            return _taken(workload, evicted)
        return QueueStanding(QueuePhase.ADMITTED)
    if not is_suspended:
        return QueueStanding(QueuePhase.ADMITTED)
    if workload is not None and (refusal := _refusal(workload)):
        return refusal
    reason, message = _why_waiting(sight, workload, name)
    return QueueStanding(QueuePhase.WAITING, reason, message, view=_view(sight, workload, name, since, reason, message))


def workload_of(gang: Object, workloads: Iterable[Object]) -> Object | None:
    """The Workload that Kueue made of that object; the newest, should there be two."""
    uid = gang["metadata"].get("uid")
    owned = [
        item
        for item in workloads
        if any(owner.get("uid") == uid for owner in item["metadata"].get("ownerReferences") or ())
    ]
    return max(owned, key=lambda item: str(item["metadata"].get("creationTimestamp", "")), default=None)


def requeue_seconds(generations: Iterable[GenerationView], *, generation: int, reason: str, limit: float) -> float:
    """How long this generation may wait: the limit, or after a preemption what earlier ones left of it."""
    if reason != PREEMPTED:
        return limit
    used = sum(
        view.queued_seconds or 0.0
        for view in generations
        if view.begin_reason == PREEMPTED and view.generation != generation
    )
    return max(0.0, limit - used)


def _taken(workload: Object | None, evicted: Object | None) -> QueueStanding:
    reason = str((evicted or {}).get("reason", "")) or SUSPENDED
    message = str((evicted or {}).get("message", "")) or "somebody suspended the gang's object"
    preempted = _condition(workload, "Preempted", "True")
    if reason == PREEMPTED and preempted:
        message = str(preempted.get("message", "")) or message
    is_free = reason in _FREE_EVICTIONS or reason == SUSPENDED
    return QueueStanding(QueuePhase.TAKEN, reason, f"{reason}: {message}"[:_MAX_TEXT], is_free=is_free)


def _refusal(workload: Object) -> QueueStanding | None:
    """What no waiting mends."""
    rejected = [
        f"admission check {check.get('name')} rejected it: {check.get('message', '')}"
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check.get("state") == "Rejected"
    ]
    target = _condition(workload, "DeactivationTarget", "True") or {}
    if rejected or workload.get("spec", {}).get("active") is False:
        told = rejected[0] if rejected else str(target.get("message") or "somebody deactivated its Workload")
        return QueueStanding(QueuePhase.REFUSED, str(target.get("reason") or "Deactivated"), told[:_MAX_TEXT])
    pending = _condition(workload, "QuotaReserved", "False")
    message = str((pending or {}).get("message", ""))
    if "maximum capacity" in message and "insufficient unused quota" not in message:
        return QueueStanding(QueuePhase.REFUSED, "GangTooLarge", message[:_MAX_TEXT])
    return None


def _why_waiting(sight: Sight, workload: Object | None, name: str) -> tuple[str, str]:
    if stopped := stop_reason(sight.local_queue, sight.cluster_queue):
        return "QueueStopped", stopped
    if workload is None:
        if sight.is_kueue_silent:
            return "KueueSilent", (
                f"Kueue has made no Workload of the gang after {round(sight.waited_seconds)} s: its controller is not "
                "running, does not manage this kind of object, or leaves this namespace out"
            )
        return "JustQueued", "Kueue has not looked at it yet"
    pending = _condition(workload, "QuotaReserved", "False")
    reserved = _condition(workload, "QuotaReserved", "True")
    if reserved:
        checks = (workload.get("status") or {}).get("admissionChecks") or ()
        open_checks = [f"{item.get('name')} {item.get('state')}" for item in checks if item.get("state") != "Ready"]
        if not open_checks:
            return "Admitted", "it has its quota and is being let in"
        return "AdmissionCheck", f"it has its quota and waits for {', '.join(open_checks)}"
    if pending is None:
        return "BehindOthers", "Kueue has not tried it yet: others are before it"
    message = str(pending.get("message", ""))[:_MAX_TEXT]
    if "insufficient unused quota" in message:
        return "QuotaBusy", message
    if pending.get("reason") == "Inadmissible":
        return "Inadmissible", message
    if "taint" in message or "affinity" in message:
        return "NoMatchingFlavor", message
    return "Pending", message or f"it waits in queue {name}"


def stop_reason(local_queue: Object | None, cluster_queue: Object | None) -> str:
    """Why nothing of that queue is admitted now; empty when something may be."""
    for kind, item in (("LocalQueue", local_queue), ("ClusterQueue", cluster_queue)):
        if item is None:
            continue
        policy = (item.get("spec") or {}).get("stopPolicy") or "None"
        if policy != "None":
            return f"{kind} {item['metadata']['name']} is stopped (stopPolicy {policy})"
    active = _condition(local_queue, "Active", "False") or _condition(cluster_queue, "Active", "False")
    return f"{active.get('reason', '')}: {active.get('message', '')}"[:_MAX_TEXT] if active else ""


# --- what is shown


def _view(sight: Sight, workload: Object | None, name: str, since: str, reason: str, message: str) -> QueueView:
    waiting = sorted((item for item in sight.workloads if _waits(item, name)), key=_order)
    names = [str(item["metadata"]["name"]) for item in waiting]
    own = str(workload["metadata"]["name"]) if workload else ""
    status = (sight.cluster_queue or {}).get("status") or {}
    all_waiting = status.get("pendingWorkloads")
    here = ((sight.local_queue or {}).get("status") or {}).get("pendingWorkloads")
    return QueueView(
        name=name, reason=reason, message=message, since=since,
        position=names.index(own) + 1 if own in names else None,
        num_waiting=len(names),
        num_others_waiting=None if all_waiting is None or here is None else max(0, int(all_waiting) - int(here)),
        others=_names_of_others(sight), quota=tuple(_quota(sight.local_queue, sight.cluster_queue)),
    )  # fmt: skip


def _waits(workload: Object, queue: str) -> bool:
    spec = workload.get("spec") or {}
    is_over = _condition(workload, "Finished", "True") is not None
    has_quota = _condition(workload, "QuotaReserved", "True") is not None
    return spec.get("queueName") == queue and spec.get("active") is not False and not is_over and not has_quota


def _order(workload: Object) -> tuple[int, str, str]:
    """As Kueue orders a queue: by priority, then by age."""
    metadata = workload["metadata"]
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    return -priority, str(metadata.get("creationTimestamp", "")), str(metadata["name"])


def _quota(local_queue: Object | None, cluster_queue: Object | None) -> Iterable[QuotaView]:
    if cluster_queue is None:
        return
    own, used = _usage(local_queue), _usage(cluster_queue)
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                key = (str(flavor["name"]), str(resource["name"]))
                total, mine = used.get(key, Decimal(0)), own.get(key, Decimal(0))
                yield QuotaView(
                    resource=key[1], flavor=key[0], used=write_quantity(total), quota=str(resource["nominalQuota"]),
                    used_by_others=None if local_queue is None else write_quantity(max(total - mine, Decimal(0))),
                )  # fmt: skip


def _usage(queue: Object | None) -> dict[tuple[str, str], Decimal]:
    """Reserved, not only in use: what waits for its admission checks holds its quota, too."""
    found = {}
    for flavor in ((queue or {}).get("status") or {}).get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            found[str(flavor["name"]), str(resource["name"])] = parse_quantity(str(resource.get("total", "0")))
    return found


def _names_of_others(sight: Sight) -> tuple[str, ...] | None:
    if sight.everybody is None or sight.gang is None:
        return None
    here = sight.gang["metadata"].get("namespace")
    living = [item for item in sight.everybody if _condition(item, "Finished", "True") is None]
    return tuple(
        sorted(
            f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            for item in living
            if item["metadata"].get("namespace") != here
        )
    )[:20]


def _condition(item: Object | None, kind: str, status: str) -> Object | None:
    found = condition(item or {}, kind)
    return found if found.get("status") == status else None
