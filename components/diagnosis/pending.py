"""Why a stage's pod does not start, from what Argo says about it: the same tables as for the cluster's own objects."""

from components.diagnosis.constraints import read_verdict
from components.diagnosis.finding import Finding, Life, Urgency
from components.diagnosis.messages import understood
from components.diagnosis.scheduling import explain_message
from components.diagnosis.verdict import Actor

_BY_SCHEDULER = ("nodes are available", "Unschedulable", "SchedulingGated")


def explain_pending(message: str, who: str) -> Finding:
    """The cause of a pod that waits with this message, as far as that tells it."""
    known = understood(message)
    if known is not None:
        return Finding(
            known.reason, f"{{who}} waits: {known.cause}", known.actor, known.action, known.life, known.urgency, who=who
        )
    if any(mark in message for mark in _BY_SCHEDULER) and read_verdict(message).removals:
        return explain_message(message, who)
    return Finding(
        "Pending", "{who} waits: its pod has not started", Actor.NOBODY, "wait: no complaint is known",
        Life.STARTING, Urgency.NORMAL, who=who,
    )  # fmt: skip
