"""What a diagnosis says: reason, cause, evidence, who acts and what to do next."""

import re
from enum import StrEnum

from components.contracts.document import Document
from components.contracts.run_view import RunView

COMMAND = "python pipelines/train.py"
"""How people call us; the command line writes it as it was called."""

OWN_WORDS = re.compile(r"(?P<reason>[A-Z][A-Za-z]+): (?P<seen>[^;\n]+)(?:; (?P<fix>[^\n]+))?")
"""How an engine that gave up, or whoever speaks for it, says why."""


class Actor(StrEnum):
    """Whose move it is."""

    NOBODY = "nobody"
    SUBMITTER = "whoever submitted the run"
    PROGRAM = "the training program's author"
    MACHINE = "whoever runs the machine"
    PLATFORM = "whoever runs the cluster"
    ARGOSY = "Argosy's maintainers"

    @property
    def who(self) -> str:
        """In one word, for programs: `you` change something, an `admin` does, or there is nothing to do but `wait`."""
        if self is Actor.NOBODY:
            return "wait"
        return "you" if self in (Actor.SUBMITTER, Actor.PROGRAM) else "admin"


class Evidence(Document):
    """One fact the cause rests on."""

    object: str
    """What was looked at: a stage, a rank, a check, a checkpoint, the engine."""
    field: str
    value: str


class Diagnosis(Document):
    """The answer to: why is this run where it is, and what now?"""

    reason: str
    """CamelCase and stable: tools may match on it."""
    cause: str
    """One sentence without a full stop."""
    since: str | None = None
    """UTC; when that became so."""
    actor: Actor
    action: str
    """What to do next, without a full stop."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def headline(self) -> str:
        """The first line people read: cause and next action."""
        return f"{self.reason}: {self.cause}; {self.action}"


def resume_command(view: RunView) -> str:
    """Continues this run."""
    return f"`{COMMAND} resume {view.run}`"


def logs_command(view: RunView, *options: str) -> str:
    """Shows this run's log."""
    return f"`{' '.join([COMMAND, 'logs', view.run, *options])}`"


def described(view: RunView, *path: str) -> object:
    """A value of the run description, or None when the description does not hold it."""
    value: object = view.description
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def max_restarts(view: RunView) -> int | None:
    """The restart budget of the run, when it is known."""
    value = described(view, "launch", "max_restarts")
    return value if isinstance(value, int) else None
