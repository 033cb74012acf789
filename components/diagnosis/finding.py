"""One possible cause among several, and which of them is named first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any

from components.contracts.clock import utc_text
from components.contracts.lists import some_of
from components.diagnosis.verdict import Actor, Diagnosis, Evidence


class Urgency(IntEnum):
    """Whether waiting helps. What nobody ends by waiting is named before what passes by itself."""

    BLOCKED = 0
    """Stays so until somebody does something."""
    PASSING = 1
    """Ends by itself, or another try may end it."""
    NORMAL = 2
    """Not a fault, at least not yet."""


class Life(IntEnum):
    """How far the object got: of two causes the earlier one is mended first."""

    ENDED = 0
    CONTROLLER = 1
    ADMISSION = 2
    QUEUE = 3
    SCHEDULING = 4
    STARTING = 5
    RUNNING = 6
    LEAVING = 7


@dataclass(frozen=True)
class Finding:
    """A cause seen on one object, or on several alike."""

    reason: str
    cause: str
    """`{who}` stands for the objects it was seen on."""
    actor: Actor
    action: str
    life: Life
    urgency: Urgency = Urgency.BLOCKED
    since: datetime | None = None
    who: str = ""
    """One object, for people: `node 1 of the gang`."""
    evidence: tuple[Evidence, ...] = ()
    others: tuple[str, ...] = ()
    """Further objects with the same cause."""
    key: str = ""
    """Findings with the same reason and key are one cause; empty: the cause's text is the key."""

    @property
    def is_fault(self) -> bool:
        return self.urgency is not Urgency.NORMAL

    @property
    def order(self) -> tuple[int, int, float]:
        """What has ended comes before what waits, what stays before what passes, then by stage of life and age."""
        at = self.since.timestamp() if self.since is not None else float("inf")
        return (int(self.urgency), int(self.life), at)

    def diagnosis(self) -> Diagnosis:
        """As the answer to `why`."""
        who = self.who
        if self.others:
            who = f"{self.who} (and {len(self.others)} more)"
        evidence = self.evidence
        if self.others:
            evidence = (
                *evidence,
                Evidence(object="also", field=self.reason, value=some_of(self.others, most=NAMES_SHOWN)),
            )
        return Diagnosis(
            reason=self.reason, cause=one_line(self.cause.replace("{who}", who), 400),
            since=utc_text(self.since) if self.since else None, actor=self.actor, action=one_line(self.action, 400),
            evidence=evidence,
        )  # fmt: skip


NAMES_SHOWN = 8


def one_line(value: str, limit: int = 300) -> str:
    """One line of at most `limit` characters that ends in no full stop."""
    line = " ".join(value.split()).rstrip(".; ")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """One finding a cause, the first to be named first."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda item: item.order):
        alike.setdefault((finding.reason, finding.key or finding.cause), []).append(finding)
    return tuple(
        replace(first, others=tuple(dict.fromkeys(item.who for item in rest if item.who != first.who)))
        for first, *rest in alike.values()
    )


@dataclass(frozen=True)
class Seen:
    """Where a fact was read: an object and the field of it."""

    object: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def evidence(self) -> tuple[Evidence, ...]:
        """Facts that say something, one each."""
        return tuple(
            Evidence(object=self.object, field=name, value=one_line(str(value), 1000))
            for name, value in self.facts.items()
            if value not in (None, "")
        )
