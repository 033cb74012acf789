"""A gang that waits in its queue, in the launcher's own words: why, its place, the quota in use."""

from collections.abc import Iterator

from components.contracts.queue import QueueView
from components.contracts.run_view import RunView
from components.diagnosis.verdict import Actor, Diagnosis, Evidence

_ACTORS = {
    "QueueStopped": (Actor.PLATFORM, "wait until it is opened again, or ask whoever stopped it"),
    "KueueSilent": (Actor.PLATFORM, "see whether Kueue runs and manages this namespace"),
    "Inadmissible": (Actor.PLATFORM, "ask whoever runs the queue"),
    "NoMatchingFlavor": (Actor.SUBMITTER, "correct launch.node_selector and launch.tolerations, or use another queue"),
}
_WAIT = (Actor.NOBODY, "wait for its turn; a higher queue.priority would come earlier")


def diagnose_place(view: RunView, queue: QueueView) -> Diagnosis:
    """Why it waits, and whose move it is."""
    actor, action = _ACTORS.get(queue.reason, _WAIT)
    place = f" as number {queue.position} of {queue.num_waiting}" if queue.position else ""
    was = "the gang made room and" if view.launch and len(view.launch.generations) > 1 else "the gang"
    return Diagnosis(
        reason=queue.reason, cause=f"{was} waits in queue {queue.name}{place}: {queue.message}", since=queue.since,
        actor=actor, action=action, evidence=tuple(_evidence(queue)),
    )  # fmt: skip


def _evidence(queue: QueueView) -> Iterator[Evidence]:
    name = f"queue {queue.name}"
    if queue.num_others_waiting is not None:
        yield Evidence(object=name, field="others waiting for its quota", value=str(queue.num_others_waiting))
    for item in queue.quota:
        others = f", {item.used_by_others} of it by others" if item.used_by_others is not None else ""
        value = f"{item.used} of {item.quota} in use{others}"
        yield Evidence(object=name, field=f"{item.resource} ({item.flavor})", value=value)
    for other in queue.others or ():
        yield Evidence(object=name, field="shared with", value=other)
