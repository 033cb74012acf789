"""Every cause that the observed objects show, the one to be named first first. A pure function.

Of several causes that one leads which waiting does not end, then the one earlier in an object's life, then the older.
So a wrong image comes before a shortage of GPUs: when GPUs are free the image is still wrong.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from components.cluster.fields import Object, condition, moment, part, text
from components.contracts.lifecycle import RunState
from components.contracts.units import format_duration
from components.diagnosis.controllers import explain_controllers
from components.diagnosis.finding import Finding, Life, Urgency, merged
from components.diagnosis.observed import Observed
from components.diagnosis.pod_end import explain_ended, explain_taken
from components.diagnosis.pod_start import explain_starting
from components.diagnosis.queue import explain_queue
from components.diagnosis.scheduling import explain_unscheduled
from components.diagnosis.surroundings import Surroundings, containers_of, people_say, pod_object, surroundings_of
from components.diagnosis.verdict import Actor, Evidence

_MEETING_SECONDS = 60.0
"""How long agents that run may take to find agent 0."""


def explain(observed: Observed, now: datetime) -> tuple[Finding, ...]:
    """Findings about the run's present, most important first; empty when the objects show nothing amiss."""
    around = surroundings_of(observed, now)
    found = [*explain_controllers(around), *explain_queue(around), *_pods(around), *_meeting(around)]
    return merged(_without_consequences(found))


def _pods(around: Surroundings) -> Iterator[Finding]:
    alike: dict[str, Finding | None] = {}
    for pod in around.pods:
        found = _pod(pod, around, alike)
        if found is not None:
            yield found


def _pod(pod: Object, around: Surroundings, alike: dict[str, Finding | None]) -> Finding | None:
    """The cause of one pod's state. `alike` keeps what was found for pods without a node: a gang has many such."""
    phase, has_place = text(pod, "status", "phase"), bool(text(pod, "spec", "nodeName"))
    is_asked = bool(text(pod, "metadata", "deletionTimestamp"))
    if has_place or is_asked or phase not in ("Pending", ""):
        found = explain_taken(pod, around) or explain_ended(pod, around)
        if found is not None or is_asked or not has_place:
            return found
        return explain_starting(pod, around) if phase in ("Pending", "Running") else None
    events = around.events_of(pod)
    key = repr((condition(pod, "PodScheduled"), pod.get("spec"), {text(event, "reason") for event in events}))
    if key not in alike:
        alike[key] = explain_unscheduled(pod, people_say(pod), events, around.fit(pod), around.now)
    first = alike[key]
    return None if first is None else replace(first, who=people_say(pod))


def _without_consequences(found: list[Finding]) -> list[Finding]:
    """What only follows from another finding is left out: pods killed after the first one ended, a stuck Job's pods."""
    names = {item.reason for item in found}
    if "NodeLost" in names:
        found = [item for item in found if item.reason not in ("StuckTerminating", "GangStuckEnding")]
    elif "StuckTerminating" in names:
        found = [item for item in found if item.reason != "GangStuckEnding"]
    ended = [item for item in found if item.life is Life.ENDED and item.since is not None and item.is_fault]
    if len(ended) > 1:
        first = min(ended, key=lambda item: item.since.timestamp() if item.since else 0.0)
        found = [item for item in found if item.life is not Life.ENDED or item is first or item.reason == first.reason
                 or item.since is None]  # fmt: skip
    return found


def _meeting(around: Surroundings) -> Iterator[Finding]:
    """Every agent runs, and not all have found agent 0."""
    gang, pods = around.observed.view.gang, around.gang_pods
    if gang is None or len(pods) < 2 or gang.generation != around.generation:
        return
    if gang.state not in (RunState.STARTING, RunState.SUBMITTED) or gang.num_joined >= len(pods):
        return
    if any(text(pod, "status", "phase") != "Running" or text(pod, "metadata", "deletionTimestamp") for pod in pods):
        return
    if any(part(item, "state", "waiting") for pod in pods for item in containers_of(pod)):
        return
    began = max(
        (at for pod in pods for item in containers_of(pod)
         if (at := moment(part(item, "state", "running").get("startedAt"))) is not None), default=None,
    )  # fmt: skip
    if began is None or (around.now - began).total_seconds() < _MEETING_SECONDS:
        return
    waited = format_duration(round((around.now - began).total_seconds()))
    facts = [
        Evidence(object="gang", field="joined", value=f"{gang.num_joined} of {len(pods)}"),
        *(Evidence(object=pod_object(pod), field="status.phase", value="Running") for pod in pods[:8]),
    ]
    yield Finding(
        "RendezvousUnreachable", f"all {len(pods)} agents run for {waited}, and only {gang.num_joined} have reached "
        "agent 0", Actor.PLATFORM,
        "see that a NetworkPolicy lets the gang's pods reach each other, that its headless Service resolves, and the "
        "agents' output", Life.RUNNING, Urgency.PASSING, began, "the gang", tuple(facts),
    )  # fmt: skip
