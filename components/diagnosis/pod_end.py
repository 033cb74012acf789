"""Why a pod ended, was taken away, or does not go: evictions, lost nodes, memory, deletion."""

from collections.abc import Iterator
from datetime import datetime

from components.cluster.fields import (
    Object,
    asked_to_go_at,
    condition,
    moment,
    name_of,
    number,
    part,
    parts,
    text,
)
from components.cluster.silent import is_unready
from components.diagnosis.finding import Finding, Life, Seen, Urgency, one_line
from components.diagnosis.messages import understood
from components.diagnosis.surroundings import Surroundings, containers_of, people_say, pod_object
from components.diagnosis.verdict import Actor, Evidence
from components.errors import ExitCode

_OWN_CODES = frozenset(int(code) for code in ExitCode)
_FOLLOWS = frozenset((130, 137, 143))
"""How containers end that were told to go."""
_MARGIN_SECONDS = 60.0
"""Beyond its grace period, before a pod counts as stuck."""


def explain_taken(pod: Object, around: Surroundings) -> Finding | None:
    """A pod that the cluster takes away, or that somebody deletes, or that has gone with its node."""
    lost = _lost_node(pod, around)
    if lost is not None:
        return lost
    disruption = condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        return _disrupted(pod, disruption, around)
    asked = asked_to_go_at(pod)
    if asked is not None:
        return _leaving(pod, asked, around)
    return None


def explain_ended(pod: Object, around: Surroundings) -> Finding | None:
    """A pod that has ended badly, or a container of it that has."""
    status = part(pod, "status")
    told = f"{text(status, 'reason')}: {text(status, 'message')}".strip(": ")
    seen = Seen(pod_object(pod), {"status.phase": text(status, "phase"), "status.reason": told})
    ended = [(container, state) for container in containers_of(pod) if (state := _end_of(container))]
    since = _first_end(ended) or moment(condition(pod, "Ready").get("lastTransitionTime"))
    if text(status, "phase") == "Failed" and told:
        return _refused(pod, told, since, seen)
    for container, state in ended:
        finding = _container_ended(pod, container, state)
        if finding is not None:
            return finding
    return None


def _lost_node(pod: Object, around: Surroundings) -> Finding | None:
    node_name = text(pod, "spec", "nodeName")
    if not node_name:
        return None
    node = next((item for item in around.observed.nodes or () if name_of(item) == node_name), None)
    ready, disruption = condition(pod, "Ready"), condition(pod, "DisruptionTarget")
    is_gone = around.observed.nodes is not None and node is None
    by_taint = disruption.get("reason") in ("DeletionByTaintManager", "DeletionByPodGC") and (
        node is None or is_unready(node) or is_gone
    )
    unready = node is not None and is_unready(node)
    silent = ready.get("reason") == "NodeStatusUnknown" or text(pod, "status", "reason") == "NodeLost"
    if not (by_taint or unready or silent or (is_gone and text(pod, "status", "phase") not in ("Succeeded", "Failed"))):
        return None
    stands = condition(node, "Ready") if node is not None else {}
    since = moment(stands.get("lastTransitionTime")) if unready else moment(ready.get("lastTransitionTime"))
    is_leaving = bool(text(pod, "metadata", "deletionTimestamp"))
    facts = [
        *Seen(
            pod_object(pod),
            {
                "spec.nodeName": node_name,
                "condition Ready": _said(ready) if silent else "",
                "condition DisruptionTarget": _said(disruption) if by_taint else "",
                "metadata.deletionTimestamp": text(pod, "metadata", "deletionTimestamp"),
            },
        ).evidence()
    ]
    if node is not None:
        facts.append(Evidence(object=f"node {node_name}", field="condition Ready", value=_said(stands)))
    elif is_gone:
        facts.append(Evidence(object=f"node {node_name}", field="object", value="is not there any more"))
    waits = ", and its pod cannot end before that node says so or is gone" if is_leaving else ""
    return Finding(
        "NodeLost", f"node {node_name} of the cluster does not answer, and {{who}} is on it{waits}", Actor.PLATFORM,
        "bring that node back, or delete its Node object when the machine is off; with launch.lost_node force_after "
        "and the janitor the run goes on elsewhere by itself",
        Life.ENDED, Urgency.BLOCKED, since, people_say(pod), tuple(facts), key=node_name,
    )  # fmt: skip


_DISRUPTIONS = {
    "PreemptionByScheduler": (
        "PreemptedByScheduler", "{who} was taken away for a pod of higher priority",
        "wait: it does not count as a restart, and goes on from the newest checkpoint; a higher priority_class would "
        "prevent it", Actor.NOBODY,
    ),
    "EvictionByEvictionAPI": (
        "Evicted", "{who} was evicted: its node is being drained or scaled away",
        "wait: it does not count as a restart, and goes on from the newest checkpoint", Actor.NOBODY,
    ),
    "TerminationByKubelet": (
        "Evicted", "{who} was ended by its node, which ran short or shuts down",
        "wait: it goes on from the newest checkpoint elsewhere", Actor.NOBODY,
    ),
    "DeletionByTaintManager": (
        "TaintedAway", "{who} was taken off its node, which got a taint it does not tolerate",
        "wait: it goes on from the newest checkpoint elsewhere; ask who tainted that node", Actor.NOBODY,
    ),
    "DeletionByPodGC": (
        "NodeLost", "{who} went with its node, which is no longer part of the cluster",
        "wait: it goes on from the newest checkpoint elsewhere", Actor.NOBODY,
    ),
}  # fmt: skip


def _disrupted(pod: Object, disruption: Object, around: Surroundings) -> Finding:
    reason = text(disruption, "reason")
    told = f"{text(pod, 'status', 'reason')}: {text(pod, 'status', 'message')}".strip(": ")
    facts = Seen(
        pod_object(pod),
        {"condition DisruptionTarget": _said(disruption), "status.reason": told, "spec.nodeName": _node(pod)},
    ).evidence()
    known = understood(told) if told else None
    since = moment(disruption.get("lastTransitionTime"))
    if known is not None and (known.life is Life.ENDED or known.reason == "NodeShutdown"):
        return Finding(
            known.reason, f"{{who}}: {known.cause}", known.actor, known.action, Life.ENDED, known.urgency, since,
            people_say(pod), facts, key=known.key,
        )  # fmt: skip
    row = _DISRUPTIONS.get(reason)
    if row is None:
        return Finding(
            "Disrupted", f"{{who}} was taken away by the cluster ({one_line(reason, 60)}: "
            f"{one_line(text(disruption, 'message'), 160)})", Actor.PLATFORM,
            "ask whoever runs the cluster, then resume", Life.ENDED, Urgency.PASSING, since, people_say(pod), facts,
            key=reason,
        )  # fmt: skip
    name, cause, action, actor = row
    return Finding(
        name, cause, actor, action, Life.ENDED, Urgency.PASSING, since, people_say(pod), facts, key=reason,
    )  # fmt: skip


def _leaving(pod: Object, asked: datetime, around: Surroundings) -> Finding | None:
    """Being deleted: stuck, or just leaving."""
    grace = float(number(pod, "metadata", "deletionGracePeriodSeconds") or 0)
    waited = (around.now - asked).total_seconds()
    finalizers = [str(name) for name in part(pod, "metadata").get("finalizers") or () if isinstance(name, str)]
    if waited < grace + _MARGIN_SECONDS:
        return None
    facts = Seen(
        pod_object(pod),
        {
            "metadata.deletionTimestamp": text(pod, "metadata", "deletionTimestamp"),
            "metadata.deletionGracePeriodSeconds": number(pod, "metadata", "deletionGracePeriodSeconds"),
            "metadata.finalizers": ", ".join(finalizers), "spec.nodeName": _node(pod),
            "status.phase": text(pod, "status", "phase"),
        },
    ).evidence()  # fmt: skip
    has_ended = text(pod, "status", "phase") in ("Succeeded", "Failed")
    if finalizers and has_ended:
        cause = f"{{who}} has ended, but its pod is kept by the finalizer {', '.join(finalizers)}"
        action = "see that the controller that owns the finalizer runs"
    else:
        cause = f"{{who}} was asked to go and does not: its node {_node(pod)} has not confirmed that it ended"
        action = "look at that node: a process that cannot be killed, or a container runtime that hangs"
    return Finding(
        "StuckTerminating", cause, Actor.PLATFORM, action, Life.LEAVING, Urgency.BLOCKED, asked, people_say(pod), facts,
        key=_node(pod),
    )  # fmt: skip


def _refused(pod: Object, told: str, since: datetime | None, seen: Seen) -> Finding | None:
    """A pod that its kubelet refused, evicted or ended, with a reason of its own."""
    known = understood(told)
    node = f" (node {_node(pod)})" if _node(pod) else ""
    if known is None:
        return Finding(
            "Unknown",
            f"{{who}} was ended by its node{node}, and what it says is not known here: {one_line(told, 200)}",
            Actor.PLATFORM, "see the message, then resume the run", Life.ENDED, Urgency.BLOCKED, since,
            people_say(pod), seen.evidence(),
        )  # fmt: skip
    return Finding(
        known.reason, f"{{who}}: {known.cause}{node}", known.actor, known.action, Life.ENDED, known.urgency, since,
        people_say(pod), (*seen.evidence(), *_node_evidence(pod)), key=known.key,
    )  # fmt: skip


def _container_ended(pod: Object, container: Object, state: Object) -> Finding | None:
    code, reason = number(state, "exitCode"), text(state, "reason")
    name = text(container, "name")
    waiting = text(part(container, "state", "waiting"), "reason")
    facts = Seen(
        pod_object(pod),
        {
            f"container {name}, terminated": f"{reason}, exit code {code}", "spec.nodeName": _node(pod),
            f"container {name}, message": text(state, "message"), f"container {name}, waiting": waiting,
            f"container {name}, restarts": number(container, "restartCount") or "",
        },
    ).evidence()  # fmt: skip
    since = moment(state.get("finishedAt"))
    who = people_say(pod)
    if reason == "OOMKilled":
        limit = _memory_limit(pod, name)
        cause = f"{{who}} used more memory than its limit{f' of {limit}' if limit else ''} and was killed"
        what = "launch.resources.memory" if name in ("program", "agent") else "the stage's resources.memory"
        return Finding(
            "OutOfMemory", cause, Actor.PROGRAM, f"raise {what}, or make the batch or the model smaller", Life.ENDED,
            Urgency.BLOCKED, since, who, facts, key=name,
        )  # fmt: skip
    if reason == "ContainerStatusUnknown" and "used to be Running" not in text(state, "message"):
        return None  # it had not begun when its pod was ended
    if reason == "ContainerStatusUnknown":
        return Finding(
            "NodeLost", f"{{who}} was lost: its node {_node(pod)} no longer knows what became of it", Actor.PLATFORM,
            "see whether that node restarted, then resume the run", Life.ENDED, Urgency.BLOCKED, since, who, facts,
            key=_node(pod),
        )  # fmt: skip
    told = f"{reason}: {text(state, 'message')}"
    known = understood(told) if reason in ("StartError", "ContainerCannotRun", "RunContainerError") else None
    if known is not None:
        return Finding(
            known.reason, f"{{who}}: {known.cause}", known.actor, known.action, Life.STARTING, known.urgency, since,
            who, facts, key=known.key,
        )  # fmt: skip
    if waiting == "CrashLoopBackOff":
        times = number(container, "restartCount") or 0
        return Finding(
            "CrashLoop", f"container {name} of {{who}} ends again and again (exit code {code}, {times} restarts)",
            Actor.PROGRAM, "look at its output, and correct what makes it end", Life.RUNNING, Urgency.BLOCKED, since,
            who, facts, key=name,
        )  # fmt: skip
    if code in (None, 0) or code in _OWN_CODES or code in _FOLLOWS or text(pod, "metadata", "deletionTimestamp"):
        return None
    is_initial = any(text(item, "name") == name for item in parts(pod, "status", "initContainerStatuses"))
    if is_initial and name not in ("agent",):
        last = one_line(text(state, "message").strip().rpartition("\n")[2], 160)
        return Finding(
            "InitFailed", f"{{who}} could not be prepared: its init container {name} ended with exit code {code}"
            + (f" ({last})" if last else ""), Actor.PROGRAM, "look at that container's output",
            Life.STARTING, Urgency.BLOCKED, since, who, facts, key=name,
        )  # fmt: skip
    return None


def _end_of(container: Object) -> Object:
    ended = part(container, "state", "terminated")
    return ended or part(container, "lastState", "terminated")


def _first_end(ended: list[tuple[Object, Object]]) -> datetime | None:
    known = [at for _, state in ended if (at := moment(state.get("finishedAt"))) is not None]
    return min(known, default=None)


def _memory_limit(pod: Object, name: str) -> str:
    for container in [*parts(pod, "spec", "initContainers"), *parts(pod, "spec", "containers")]:
        if container.get("name") == name:
            return text(container, "resources", "limits", "memory")
    return ""


def _node(pod: Object) -> str:
    return text(pod, "spec", "nodeName")


def _node_evidence(pod: Object) -> Iterator[Evidence]:
    if _node(pod):
        yield Evidence(object=pod_object(pod), field="spec.nodeName", value=_node(pod))


def _said(entry: Object) -> str:
    told = f"{text(entry, 'reason')}: {text(entry, 'message')}".strip(": ")
    return f"{text(entry, 'status')} since {text(entry, 'lastTransitionTime')}" + (f", {told}" if told else "")
