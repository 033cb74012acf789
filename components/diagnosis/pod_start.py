"""Why a pod that has a node does not run yet: container states first, then events where those say nothing."""

from collections.abc import Sequence
from datetime import datetime

from components.cluster.events import VAGUE_MESSAGES
from components.cluster.fields import Object, condition, event_at, event_began, moment, part, text
from components.contracts.units import format_duration
from components.diagnosis.finding import Finding, Life, Seen, Urgency, one_line
from components.diagnosis.messages import understood
from components.diagnosis.surroundings import Surroundings, containers_of, people_say, pod_object
from components.diagnosis.verdict import Actor, Evidence

_PLAIN = ("", "ContainerCreating", "PodInitializing")
_SILENT = ("ContainerCreating", "PodInitializing", "")
_TROUBLE = (
    "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady", "FailedSync",
    "Failed", "InspectFailed", "ErrImageNeverPull",
)  # fmt: skip
_GOOD = ("Pulling", "Pulled", "Created", "Started", "SuccessfulAttachVolume", "SuccessfulMountVolume")
_LONG_PULL_SECONDS = 600.0
_LONG_CREATE_SECONDS = 300.0


def explain_starting(pod: Object, around: Surroundings) -> Finding | None:
    """A pod with a node whose containers do not all run."""
    events = around.events_of(pod)
    for container in containers_of(pod):
        waiting = part(container, "state", "waiting")
        reason = text(waiting, "reason")
        if reason not in _PLAIN and reason != "CrashLoopBackOff":
            return _waiting(pod, container, reason, text(waiting, "message"), events)
    if _all_run(pod):
        return None
    trouble = _present_trouble(events)
    if trouble is not None:
        return _by_event(pod, trouble)
    return _slow(pod, events, around.now)


def _waiting(pod: Object, container: Object, reason: str, message: str, events: Sequence[Object]) -> Finding:
    name = text(container, "name")
    told = f"{reason}: {message}".strip(": ")
    known = understood(told)
    complaint = _complaint(name, events)
    if complaint and (known is None or known.reason in ("ImageNotPulled", "ContainerConfig", "ContainerNotCreated")):
        # A back-off does not say what it backs off from; the event before it does.
        better = understood(f"{reason}: {complaint}")
        known = better if better is not None else known
    facts = Seen(
        pod_object(pod),
        {
            f"container {name}, waiting": told, f"container {name}, image": text(container, "image"),
            "event": complaint if complaint not in told else "", "spec.nodeName": text(pod, "spec", "nodeName"),
        },
    ).evidence()  # fmt: skip
    began = [at for event in events if event.get("reason") in _TROUBLE and (at := event_began(event)) is not None]
    since = min(began, default=None) or _placed_at(pod)
    who = people_say(pod)
    if known is None:
        return Finding(
            "Unknown", f"{{who}} does not start, and what its node says is not known here: {one_line(told, 200)}",
            Actor.PLATFORM, "see the message in the evidence", Life.STARTING, Urgency.BLOCKED, since, who, facts,
        )  # fmt: skip
    return Finding(
        known.reason, f"{{who}} does not start: {known.cause}", known.actor, known.action, known.life, known.urgency,
        since, who, facts, key=known.key,
    )  # fmt: skip


def _complaint(container: str, events: Sequence[Object]) -> str:
    """The newest event that tells why, about that container where events say about which."""
    for event in reversed(events):
        if event.get("reason") not in ("Failed", "InspectFailed", "ErrImageNeverPull"):
            continue
        field, message = text(event, "involvedObject", "fieldPath"), text(event, "message")
        is_other = bool(field) and f"{{{container}}}" not in field
        if not is_other and not message.startswith(VAGUE_MESSAGES):
            return message
    return ""


def _present_trouble(events: Sequence[Object]) -> Object | None:
    """The newest complaint that nothing good has followed."""
    good = [at for event in events if event.get("reason") in _GOOD and (at := event_at(event)) is not None]
    last_good = max(good, default=None)
    for event in reversed(events):
        at = event_at(event)
        if event.get("reason") in _TROUBLE and at is not None and (last_good is None or at >= last_good):
            return event
    return None


def _by_event(pod: Object, event: Object) -> Finding:
    reason, message = text(event, "reason"), text(event, "message")
    known = understood(f"{reason}: {message}")
    facts = Seen(
        pod_object(pod), {f"event {reason}": message, "spec.nodeName": text(pod, "spec", "nodeName")}
    ).evidence()
    since, who = event_began(event), people_say(pod)
    if known is None:
        return Finding(
            "Unknown", f"{{who}} does not start, and what its node says is not known here: {reason}: "
            f"{one_line(message, 200)}", Actor.PLATFORM, "see the event in the evidence", Life.STARTING,
            Urgency.BLOCKED, since, who, facts,
        )  # fmt: skip
    return Finding(
        known.reason, f"{{who}} does not start: {known.cause}", known.actor, known.action, known.life, known.urgency,
        since, who, facts, key=known.key,
    )  # fmt: skip


def _slow(pod: Object, events: Sequence[Object], now: datetime) -> Finding | None:
    """Nothing is wrong, so far."""
    placed, who = _placed_at(pod), people_say(pod)
    if placed is None:
        return None
    pulling = _unanswered_pull(events)
    began = event_at(pulling) if pulling is not None else placed
    waited = max((now - (began or placed)).total_seconds(), 0.0)
    for_long = format_duration(round(waited))
    if pulling is not None:
        is_long = waited > _LONG_PULL_SECONDS
        message = one_line(text(pulling, "message"), 160)
        return Finding(
            "SlowImagePull" if is_long else "ImagePulling",
            f"the node of {{who}} has been pulling an image for {for_long}"
            + (", which is long" if is_long else ", which is not a fault yet"),
            Actor.NOBODY,
            "see how large the image is and how busy the registry; wait" if is_long else "wait",
            Life.STARTING, Urgency.PASSING if is_long else Urgency.NORMAL, began, who,
            (Evidence(object=pod_object(pod), field="event Pulling", value=message),), key=str(is_long),
        )  # fmt: skip
    is_long = waited > _LONG_CREATE_SECONDS
    told = [text(part(container, "state", "waiting"), "reason") for container in containers_of(pod)]
    facts = Seen(
        pod_object(pod), {"containers": ", ".join(dict.fromkeys(item for item in told if item)) or "none reported",
                          "spec.nodeName": text(pod, "spec", "nodeName")}
    ).evidence()  # fmt: skip
    if is_long:
        return Finding(
            "SlowStart", f"{{who}} has a node and does not start for {for_long}, and no event says why", Actor.PLATFORM,
            "look at the kubelet of that node", Life.STARTING, Urgency.PASSING, placed, who, facts, key="long",
        )  # fmt: skip
    return Finding(
        "Starting", f"{{who}} has a node and has been starting for {for_long}, which is not a fault yet", Actor.NOBODY,
        "wait", Life.STARTING, Urgency.NORMAL, placed, who, facts, key="short",
    )  # fmt: skip


def _unanswered_pull(events: Sequence[Object]) -> Object | None:
    last = next((event for event in reversed(events) if event.get("reason") in ("Pulling", "Pulled", "Failed")), None)
    return last if last is not None and last.get("reason") == "Pulling" else None


def _all_run(pod: Object) -> bool:
    """Whether every container has at least begun."""
    states = containers_of(pod)
    return bool(states) and not any(part(item, "state", "waiting") for item in states)


def _placed_at(pod: Object) -> datetime | None:
    return moment(condition(pod, "PodScheduled").get("lastTransitionTime")) or moment(text(pod, "status", "startTime"))
