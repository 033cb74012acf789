"""Where a gang stands in its queue. Written by launch into its LaunchState, read by status, why and the report."""

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.clock import UtcText
from components.contracts.document import Document


class QuotaView(Document):
    """One resource of the quota that a queue draws on."""

    resource: str
    flavor: str
    used: str
    """By everybody; a Kubernetes quantity."""
    quota: str
    """What may be used without borrowing."""
    used_by_others: str | None = None
    """By other queues, as a sum. None where the whole may not be seen."""


class QueueView(Document):
    """Why a gang waits in its queue, and how far it has come."""

    name: str
    """Of the LocalQueue."""
    reason: str
    """CamelCase: QuotaBusy, BehindOthers, QueueStopped, …"""
    message: str
    since: UtcText
    """When this generation began to wait."""
    position: PositiveInt | None = None
    """Among those of the same queue that wait, 1 is next."""
    num_waiting: NonNegativeInt = 0
    """In the same queue, this one included."""
    num_others_waiting: NonNegativeInt | None = None
    """In other queues for the same quota. None where that may not be seen."""
    others: tuple[str, ...] | None = None
    """`<namespace>/<name>` of those that hold or await the same quota, where this account may know."""
    quota: tuple[QuotaView, ...] = ()
