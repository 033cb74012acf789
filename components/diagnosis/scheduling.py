"""Why no node takes a pod: the scheduler's verdict, and, where nodes may be listed, what they are like."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from components.cluster.avoidance import avoided_nodes, avoiding
from components.cluster.fields import Object, condition, moment, parts, text
from components.contracts.lists import some_of
from components.diagnosis.constraints import Limit, Removal, Verdict, read_verdict
from components.diagnosis.finding import NAMES_SHOWN, Finding, Life, Urgency, one_line
from components.diagnosis.node_counts import amount_of, counted, of_nodes, selector_of, sentence, taint_name
from components.diagnosis.node_fit import Fit, requests_of
from components.diagnosis.verdict import Actor, Evidence

_ACCELERATOR = re.compile(r"(?:^|[./-])(?:gpu|gpus|tpu|mig-[\w.]+|neuron\w*|gaudi|npu|xpu|i915|shared-gpu)(?:$|[./-])")
_NO_SCHEDULER_SECONDS = 60.0
_NOT_FOR_WORK = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Taints of nodes that nobody means when a pod finds no place."""


def explain_unscheduled(
    pod: Object, who: str, events: Sequence[Object], fit: Fit | None, now: datetime
) -> Finding | None:
    """Why that pod, which has no node, has none."""
    scheduled = condition(pod, "PodScheduled")
    since = moment(scheduled.get("lastTransitionTime")) or moment(text(pod, "metadata", "creationTimestamp"))
    gates = [text(gate, "name") for gate in parts(pod, "spec", "schedulingGates")]
    if gates or scheduled.get("reason") == "SchedulingGated":
        return _gated(pod, who, gates, since)
    message = text(scheduled, "message") or _newest(events, "FailedScheduling")
    if not scheduled and not message:
        return _unseen(pod, who, since, now)
    if scheduled.get("status") == "True" or not (scheduled or message):
        return None
    facts = _facts(pod, scheduled, message, events)
    if scheduled.get("reason") == "SchedulerError":
        return Finding(
            "SchedulerError", f"{{who}} cannot be scheduled: {one_line(message, 200)}", Actor.SUBMITTER,
            "correct affinity, selector or tolerations that the message names", Life.SCHEDULING, since=since, who=who,
            evidence=facts,
        )  # fmt: skip
    verdict = read_verdict(message)
    facts = (*facts, *counted(verdict), *of_nodes(pod, fit))
    if any(event.get("reason") == "TriggeredScaleUp" for event in events):
        return Finding(
            "ScalingUp", "{who} waits for a node that the autoscaler is adding", Actor.NOBODY, "wait", Life.SCHEDULING,
            Urgency.PASSING, since=since, who=who, evidence=facts,
        )  # fmt: skip
    return _by_constraint(pod, who, verdict, fit, since, facts, message)


def explain_message(message: str, who: str, *, avoided: Sequence[str] = ()) -> Finding:
    """The same from the scheduler's message alone, and the nodes that the pod has to avoid."""
    verdict = read_verdict(message)
    return _by_constraint(
        {"spec": {"affinity": avoiding(avoided)}}, who, verdict, None, None, counted(verdict), message
    )


def is_accelerator(resource: str) -> bool:
    """Whether a resource is a device that computes."""
    return _ACCELERATOR.search(resource) is not None


class _Maker(Protocol):
    """Makes a finding of one pod."""

    def __call__(
        self, reason: str, cause: str, actor: Actor, action: str, urgency: Urgency = Urgency.BLOCKED, key: str = ""
    ) -> Finding: ...


def _by_constraint(
    pod: Object, who: str, verdict: Verdict, fit: Fit | None, since: datetime | None, facts: tuple[Evidence, ...],
    message: str,
) -> Finding:  # fmt: skip
    def found(
        reason: str, cause: str, actor: Actor, action: str, urgency: Urgency = Urgency.BLOCKED, key: str = ""
    ) -> Finding:
        return Finding(reason, cause, actor, action, Life.SCHEDULING, urgency, since, who, facts, key=key or reason)

    missing = verdict.of(Limit.CLAIM_MISSING)
    if missing:
        return found(
            "VolumeClaimMissing", f"{{who}} waits for PersistentVolumeClaim {missing[0].what}, which does not exist",
            Actor.SUBMITTER, "create it in the run's namespace, or correct launch.volumes", key=missing[0].what,
        )  # fmt: skip
    lead = _leading(verdict, fit)
    counts = sentence(verdict, lead)
    if lead is None or lead.limit is Limit.UNKNOWN:
        return found(
            "Unknown", f"{{who}} is not scheduled, and what the scheduler says is not known here: {one_line(message)}",
            Actor.PLATFORM, "read the scheduler's message in the evidence, or ask whoever runs the cluster",
        )  # fmt: skip
    return _of_limit(pod, lead, fit, found, counts, message)


def _of_limit(pod: Object, lead: Removal, fit: Fit | None, found: _Maker, counts: str, message: str) -> Finding:
    match lead.limit:
        case Limit.RESOURCE:
            return _short_of(pod, lead, fit, found, counts)
        case Limit.TAINT:
            taint = taint_name(lead, fit)
            return found(
                "TaintNotTolerated", f"{{who}} tolerates no taint of the nodes it needs{taint}: {counts}",
                Actor.SUBMITTER, "add the toleration to launch.tolerations, if these nodes are meant for it",
            )  # fmt: skip
        case Limit.NODE_DOWN:
            return found(
                "NodesDown", f"{{who}} waits for nodes that do not answer or are cordoned: {counts}", Actor.PLATFORM,
                "bring those nodes back or uncordon them", Urgency.PASSING,
            )  # fmt: skip
        case Limit.SELECTOR if avoided := avoided_nodes(pod):
            return found(
                "NodesAvoided", f"{{who}} has to avoid nodes that were found unfit or lost before "
                f"({some_of(avoided, most=NAMES_SHOWN)}), and finds no other: {counts}",
                Actor.PLATFORM, "mend these nodes, or add or free others, then resume the run", Urgency.PASSING,
            )  # fmt: skip
        case Limit.SELECTOR:
            is_empty = fit is not None and not fit.num_selected
            what = "selects nodes that do not exist" if is_empty else "finds no place on the nodes it selects"
            return found(
                "SelectorMatchesNoNode", f"{{who}} {what} ({selector_of(pod)}): {counts}", Actor.SUBMITTER,
                "correct launch.node_selector, or have nodes labelled so",
            )  # fmt: skip
        case Limit.POD_AFFINITY | Limit.SPREAD:
            return found(
                "PlacedApart", f"{{who}} may not stand beside the pods that are there: {counts}", Actor.NOBODY,
                "wait for other pods to end, or loosen the affinity", Urgency.PASSING,
            )  # fmt: skip
        case Limit.VOLUME:
            return found(
                "VolumeUnbound", f"{{who}} waits for a volume: {one_line(lead.text)}", Actor.PLATFORM,
                "see the claim's events: is there a volume or a storage class for it, in the zone of these nodes?",
            )  # fmt: skip
        case Limit.PORTS:
            return found(
                "PortsTaken", f"{{who}} wants ports of its node that other pods hold: {counts}", Actor.SUBMITTER,
                "leave out host_network, or wait for those pods to end", Urgency.PASSING,
            )  # fmt: skip
        case _:
            return found(
                "GangIncomplete", f"{{who}} waits until its whole gang can be placed: {one_line(message, 200)}",
                Actor.NOBODY, "wait, or see why the others have no place", Urgency.PASSING,
            )  # fmt: skip


def _leading(verdict: Verdict, fit: Fit | None) -> Removal | None:
    """The constraint that decides.

    The scheduler asks a node for taints and selectors before resources, so a node short of a resource has passed
    those. But nodes without a single GPU pass them too: where nodes may be listed, only those large enough count.
    """
    unknown, known = verdict.of(Limit.UNKNOWN), [item for item in verdict.removals if item.limit is not Limit.UNKNOWN]
    if not verdict.removals:
        return None
    if unknown and sum(item.num_nodes for item in unknown) >= sum(item.num_nodes for item in known):
        return unknown[0]
    if fit is not None and not fit.suitable:
        # What would do: nodes that the pod selects come first, for those its author meant.
        ordered = (
            (Limit.TAINT, fit.capable_but_tainted), (Limit.NODE_DOWN, fit.capable_but_down),
            (Limit.SELECTOR, fit.capable_but_unselected),
        )  # fmt: skip
        for limit, names in ordered:
            if names and verdict.of(limit):
                return max(verdict.of(limit), key=lambda item: item.num_nodes)
    for limit in (Limit.RESOURCE, Limit.VOLUME, Limit.PORTS, Limit.POD_AFFINITY, Limit.SPREAD, Limit.GATE):
        found = verdict.of(limit)
        if found:
            return max(found, key=lambda item: (is_accelerator(item.what), item.num_nodes))
    rest = [item for item in known if item.limit in (Limit.TAINT, Limit.SELECTOR, Limit.NODE_DOWN)]
    return max(rest, key=lambda item: (not item.what.startswith(_NOT_FOR_WORK), item.num_nodes), default=None)


def _short_of(pod: Object, lead: Removal, fit: Fit | None, found: _Maker, counts: str) -> Finding:
    resource = lead.what
    wants = requests_of(pod).get(resource)
    needs = f"{amount_of(resource, wants)} {resource}" if wants else resource
    if fit is not None and wants and fit.largest.get(resource, 0.0) < wants:
        most = fit.largest.get(resource, 0.0)
        has = f"no node has more than {amount_of(resource, most)}" if most else "no node has any"
        return found(
            "TooLargeForAnyNode", f"{{who}} needs {needs} on one node, and {has}: {counts}", Actor.SUBMITTER,
            "ask for less a node (launch.nproc_per_node, launch.resources), or have such nodes added", key=resource,
        )  # fmt: skip
    if resource in ("Too many pods", "cannot allocate all claims"):
        return found(
            "NodesFull", f"{{who}} finds no node with room for one more pod or claim: {counts}", Actor.NOBODY,
            "wait for other pods to end, or have nodes added", Urgency.PASSING, key=resource,
        )  # fmt: skip
    reason = (
        "GpuShortage" if is_accelerator(resource)
        else {"cpu": "CpuShortage", "memory": "MemoryShortage"}.get(resource, "ResourceShortage")
    )  # fmt: skip
    return found(
        reason, f"{{who}} needs {needs} free on one node: {counts}", Actor.NOBODY,
        "wait for other work to end, or ask for less (launch.num_nodes, launch.nproc_per_node, launch.resources)",
        Urgency.PASSING, key=resource,
    )  # fmt: skip


def _facts(pod: Object, scheduled: Object, message: str, events: Sequence[Object]) -> tuple[Evidence, ...]:
    name = f"pod {text(pod, 'metadata', 'name')}"
    facts = [Evidence(object=name, field="condition PodScheduled", value=f"{scheduled.get('reason') or ''}: {message}")]
    for event in events:
        if event.get("reason") in ("NotTriggerScaleUp", "TriggeredScaleUp"):
            facts.append(
                Evidence(object=name, field=f"event {event['reason']}", value=one_line(text(event, "message")))
            )
    return tuple(facts)


def _gated(pod: Object, who: str, gates: Sequence[str], since: datetime | None) -> Finding:
    names = ", ".join(gates) or "unknown"
    return Finding(
        "SchedulingGated", f"{{who}} is held back by the scheduling gate {names}", Actor.PLATFORM,
        "wait for whoever set that gate (a queue, a topology controller) to lift it, and see that it runs",
        Life.QUEUE, Urgency.PASSING, since, who, key=names,
        evidence=(Evidence(object=f"pod {text(pod, 'metadata', 'name')}", field="schedulingGates", value=names),),
    )  # fmt: skip


def _unseen(pod: Object, who: str, since: datetime | None, now: datetime) -> Finding | None:
    if since is None or (now - since).total_seconds() < _NO_SCHEDULER_SECONDS:
        return None
    name = text(pod, "spec", "schedulerName") or "default-scheduler"
    return Finding(
        "SchedulerSilent", f"no scheduler has looked at {{who}}: {name} does not run, or is not there",
        Actor.PLATFORM, f"start scheduler {name}, or correct launch.scheduler_name", Life.SCHEDULING, since=since,
        who=who, key=name,
        evidence=(Evidence(object=f"pod {text(pod, 'metadata', 'name')}", field="spec.schedulerName", value=name),),
    )  # fmt: skip


def _newest(events: Sequence[Object], reason: str) -> str:
    found = [text(event, "message") for event in events if event.get("reason") == reason]
    return found[-1] if found else ""
