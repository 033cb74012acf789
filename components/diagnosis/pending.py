"""Why a stage's pod does not start, from what Argo says about it: the same tables as for the cluster's own objects."""

from collections.abc import Sequence

from components.diagnosis.constraints import read_verdict
from components.diagnosis.finding import Finding, Life, Urgency
from components.diagnosis.messages import understood
from components.diagnosis.scheduling import explain_message
from components.diagnosis.verdict import Actor

_MAX_LENGTH = 160
_BY_SCHEDULER = ("nodes are available", "Unschedulable", "SchedulingGated")


def explain_pending(message: str, who: str, *, avoided: Sequence[str] = ()) -> Finding:
    """The cause of a pod that waits with this message, as far as that tells it. `avoided`: nodes it must not run on."""
    known = understood(message)
    if known is not None:
        return Finding(
            known.reason, f"{{who}} waits: {known.cause}", known.actor, known.action, known.life, known.urgency, who=who
        )
    if any(mark in message for mark in _BY_SCHEDULER) and read_verdict(message).removals:
        return explain_message(message, who, avoided=avoided)
    return Finding(
        "Pending", "{who} waits: its pod has not started", Actor.NOBODY, "wait: no complaint is known",
        Life.STARTING, Urgency.NORMAL, who=who,
    )  # fmt: skip


def beginning(message: str) -> str:
    """As much of it as stands well behind a cause, without a full stop."""
    line = message.partition("\n")[0].rstrip(".")
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"
