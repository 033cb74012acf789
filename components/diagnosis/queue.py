"""Why a gang waits in its queue: what Kueue's Workload and LocalQueue say, in both of Kueue's vocabularies.

Newer versions tell by reasons (WaitingForQuota, ExceedsMaxQuota, …), older ones by text behind `Pending` alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from components.cluster.fields import Object, condition, is_true, moment, name_of, number, part, parts, text
from components.diagnosis.finding import Finding, Life, Seen, Urgency, one_line
from components.diagnosis.surroundings import Surroundings
from components.diagnosis.verdict import Actor, Evidence

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_UNMANAGED_SECONDS = 30.0


@dataclass(frozen=True)
class _Row:
    pattern: re.Pattern[str]
    reason: str
    cause: str
    actor: Actor
    action: str
    urgency: Urgency


def _row(pattern: str, reason: str, cause: str, actor: Actor, action: str, urgency: Urgency) -> _Row:
    return _Row(re.compile(pattern), reason, cause, actor, action, urgency)


_ROWS = (
    _row(r"LocalQueue \S+ (?:doesn't|does not) exist|LocalQueueMissing", "QueueMissing", "there is no queue {queue}",
         Actor.SUBMITTER, "correct queue.name in the description", Urgency.BLOCKED),
    _row(r"ClusterQueue \S+ (?:doesn't|does not) exist", "QueueMisconfigured", "queue {queue} leads to no ClusterQueue",
         Actor.PLATFORM, "have the LocalQueue corrected", Urgency.BLOCKED),
    _row(r"(?:ClusterQueue|LocalQueue) \S+ is (?:inactive|stopped|suspended)|\bis stopped\b|Suspended:|QueueStopped",
         "QueueStopped", "queue {queue} is stopped or not in order", Actor.PLATFORM,
         "ask whoever runs the cluster when it goes on", Urgency.BLOCKED),
    _row(r"ExceedsMaxQuota|> maximum capacity|exceeds? (?:the )?max(?:imum)? (?:capacity|quota)|"
         r"insufficient quota for \S+ in flavor \S+, (?:request|previously considered podsets requests)",
         "LargerThanQuota", "the gang is larger than queue {queue} can ever grant", Actor.SUBMITTER,
         "ask for fewer nodes, use another queue, or have its quota raised", Urgency.BLOCKED),
    _row(r"NoMatchingFlavor|untolerated taint|doesn't match node affinity|does not match node affinity",
         "NoMatchingFlavor", "no kind of node in queue {queue} suits the gang's selector and tolerations",
         Actor.SUBMITTER, "correct launch.node_selector and launch.tolerations, or use another queue", Urgency.BLOCKED),
    _row(r"TopologyPlacementFailed|topology \S+ (?:doesn't|does not) allow|allows to fit only", "TopologyFull",
         "no place that is close enough together is free", Actor.NOBODY,
         "wait for other gangs to end, or ask for fewer nodes", Urgency.PASSING),
    _row(r"resource \S+ unavailable in ClusterQueue|not covered|BlockUndeclared", "ResourceNotInQueue",
         "queue {queue} does not know a resource the gang asks for", Actor.PLATFORM,
         "have the resource added to the queue, or leave it out of launch.resources", Urgency.BLOCKED),
    _row(r"WaitingForPreemptedWorkloads|waiting for preempted|BlockedOnPreemptionGates|Pending the preemption",
         "Preempting", "others are giving way to the gang", Actor.NOBODY, "wait", Urgency.PASSING),
    _row(r"WaitingForQuota|insufficient unused quota|Workload didn't fit", "QueueWaits",
         "the quota of queue {queue} is in use by others", Actor.NOBODY,
         "wait for its turn; a higher queue.priority would come earlier", Urgency.PASSING),
    _row(r"waiting for all admitted workloads|\bWaiting\b.*PodsReady", "QueueWaits",
         "queue {queue} waits for another gang to start first", Actor.NOBODY, "wait for its turn", Urgency.PASSING),
)  # fmt: skip


def explain_queue(around: Surroundings) -> Iterator[Finding]:
    """Causes in the queue, of the newest generation."""
    gangs = {text(item, "metadata", "uid"): item for item in (*around.jobsets(), *around.jobs())}
    told = set()
    for workload in around.observed.queued:
        owner = next((uid for entry in parts(workload, "metadata", "ownerReferences")
                      if (uid := text(entry, "uid")) in gangs), None)  # fmt: skip
        if owner is None:
            continue
        told.add(owner)
        found = _workload(workload, around)
        if found is not None:
            yield found
    for uid, item in gangs.items():
        queue = text(item, "metadata", "labels", QUEUE_LABEL)
        created = moment(text(item, "metadata", "creationTimestamp"))
        waits = part(item, "spec").get("suspend") is True and not around.gang_pods
        if not queue or uid in told or not waits or created is None or "workloads" in around.observed.withheld:
            continue
        if (around.now - created).total_seconds() > _UNMANAGED_SECONDS:
            yield _unmanaged(item, queue, created)


def _workload(workload: Object, around: Surroundings) -> Finding | None:
    queue = text(workload, "spec", "queueName")
    name = f"workload {name_of(workload)}"
    evicted = condition(workload, "Evicted")
    admitted = is_true(workload, "Admitted")
    if part(workload, "spec").get("active") is False:
        return _found(
            "Deactivated", f"the queue gave the gang up: {one_line(_said(evicted), 200)}", Actor.SUBMITTER,
            "correct what the message names, then resume the run", Urgency.BLOCKED, evicted, name, "Evicted",
        )  # fmt: skip
    if admitted or is_true(workload, "Finished"):
        return None
    for check in parts(workload, "status", "admissionChecks"):
        if check.get("state") == "Rejected":
            return _found("AdmissionCheckRejected", f"admission check {text(check, 'name')} refuses the gang: "
                          f"{one_line(text(check, 'message'), 200)}", Actor.SUBMITTER,
                          "correct what the message names, then resume the run", Urgency.BLOCKED, check, name,
                          f"admissionChecks {text(check, 'name')}")  # fmt: skip
    if evicted.get("status") == "True" and evicted.get("reason") == "Preempted":
        found = _found(
            "Preempted", f"the gang had to give way to another in queue {queue}", Actor.NOBODY,
            "wait: it is queued again and goes on from the newest verified checkpoint; no restart is charged",
            Urgency.PASSING, evicted, name, "condition Evicted",
        )  # fmt: skip
        preempted = condition(workload, "Preempted")
        more = Evidence(object=name, field="condition Preempted", value=_said(preempted))
        return _with(found, more) if preempted else found
    reserved = condition(workload, "QuotaReserved")
    if is_true(workload, "QuotaReserved"):
        waiting = [text(item, "name") for item in parts(workload, "status", "admissionChecks")
                   if item.get("state") != "Ready"]  # fmt: skip
        return _found("AdmissionCheckWaits", "the gang has its quota and waits for admission check "
                      f"{', '.join(waiting) or 'unknown'}", Actor.NOBODY, "wait", Urgency.PASSING, reserved, name,
                      "condition QuotaReserved")  # fmt: skip
    said = f"{_said(reserved)} {_said(condition(workload, 'Admitted'))}"
    facts = _queue_facts(queue, around)
    stopped = [item for item in around.observed.queues if name_of(item) == queue
               and text(item, "spec", "stopPolicy") not in ("", "None")]  # fmt: skip
    row = next((row for row in _ROWS if row.pattern.search(said)), None)
    if stopped and (row is None or row.urgency is not Urgency.BLOCKED):
        row = next(row for row in _ROWS if row.reason == "QueueStopped")
    since = moment(reserved.get("lastTransitionTime")) or moment(text(workload, "metadata", "creationTimestamp"))
    shown = (Evidence(object=name, field="condition QuotaReserved", value=_said(reserved) or "absent"), *facts)
    if row is None and not reserved:
        return Finding(
            "QueueWaits", f"the gang waits behind others in queue {queue}", Actor.NOBODY, "wait for its turn",
            Life.QUEUE, Urgency.PASSING, since, "the gang", shown,
        )  # fmt: skip
    if row is None:
        return Finding(
            "Unknown", f"the gang waits in queue {queue}, and what the queue says is not known here: "
            f"{one_line(_said(reserved), 200)}", Actor.PLATFORM, "see the condition in the evidence", Life.QUEUE,
            Urgency.BLOCKED, since, "the gang", shown,
        )  # fmt: skip
    detail = f": {one_line(text(reserved, 'message'), 160)}" if text(reserved, "message") else ""
    return Finding(
        row.reason, row.cause.replace("{queue}", queue) + detail, row.actor, row.action, Life.QUEUE, row.urgency, since,
        "the gang", shown,
    )  # fmt: skip


def _queue_facts(queue: str, around: Surroundings) -> tuple[Evidence, ...]:
    item = next((item for item in around.observed.queues if name_of(item) == queue), None)
    if item is None:
        return ()
    facts = [Evidence(object=f"queue {queue}", field="spec.clusterQueue", value=text(item, "spec", "clusterQueue"))]
    if text(item, "spec", "stopPolicy"):
        facts.append(Evidence(object=f"queue {queue}", field="spec.stopPolicy", value=text(item, "spec", "stopPolicy")))
    pending = number(item, "status", "pendingWorkloads")
    if pending is not None:
        facts.append(Evidence(object=f"queue {queue}", field="status.pendingWorkloads", value=str(pending)))
    return tuple(facts)


def _unmanaged(item: Object, queue: str, created: datetime) -> Finding:
    name = f"{text(item, 'kind').lower() or 'gang'} {name_of(item)}"
    return Finding(
        "QueueSilent", f"the gang waits for queue {queue}, and no queue controller has taken it up", Actor.PLATFORM,
        "see that Kueue runs, and that it manages this kind of object in this namespace", Life.QUEUE, Urgency.BLOCKED,
        created, name,
        Seen(name, {"spec.suspend": "true", f"label {QUEUE_LABEL}": queue, "workload": "none"}).evidence(),
    )  # fmt: skip


def _found(
    reason: str, cause: str, actor: Actor, action: str, urgency: Urgency, told: Object, name: str, field: str
) -> Finding:
    return Finding(
        reason, cause, actor, action, Life.QUEUE, urgency, moment(told.get("lastTransitionTime")), "the gang",
        (Evidence(object=name, field=field, value=_said(told)),),
    )  # fmt: skip


def _with(found: Finding, more: Evidence) -> Finding:
    return replace(found, evidence=(*found.evidence, more))


def _said(entry: Object) -> str:
    return f"{text(entry, 'reason')}: {text(entry, 'message')}".strip(": ")
