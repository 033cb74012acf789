"""Who is who: the names of experiments, runs, gangs and checkpoints, and the rules they obey."""

import hashlib
import re
import secrets
from typing import Annotated

from pydantic import StringConstraints

MAX_EXPERIMENT_LENGTH = 40
"""`<experiment>-<5 chars>-g<generation>` plus a pod's suffix must stay below the 63 characters of a DNS label."""

_DNS_LABEL = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"

ExperimentName = Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=MAX_EXPERIMENT_LENGTH)]
"""A DNS label: lowercase letters, digits and hyphens, starting with a letter, at most 40 characters."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""Model versions, data versions, checkpoint ids: safe as a path segment and as a label value."""

RunName = Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=63)]

DURING_TRAINING = "training"
"""`training-verify-<checkpoint>`, `training-retain-<checkpoint>`: what agent 0 runs beside the workflow's tasks."""

# No vowels and nothing that reads like another character, so that no name spells a word or is mistyped.
_ALPHABET = "bcdfghjkmnpqrstvwxz2456789"

_CHECKPOINT_ID = re.compile(r"^step-(\d+)-term-(\d+)$")


def is_experiment_name(text: str) -> bool:
    """Whether `text` is an `ExperimentName`."""
    return len(text) <= MAX_EXPERIMENT_LENGTH and re.fullmatch(_DNS_LABEL, text) is not None


def is_run_name(text: str) -> bool:
    """Whether `text` is a `RunName`."""
    return len(text) <= 63 and re.fullmatch(_DNS_LABEL, text) is not None


def is_commit(text: str) -> bool:
    """Whether `text` is the full SHA of a Git commit. Forty zeros are none: a push that deletes a branch says so."""
    return re.fullmatch(r"[0-9a-f]{40}", text) is not None and text != "0" * 40


def new_run_name(experiment: str) -> str:
    """`<experiment>-<5 chars>`, chosen once at submit and kept by retries, adoption and resume."""
    return f"{experiment}-{''.join(secrets.choice(_ALPHABET) for _ in range(5))}"


def next_workflow_name(run: str, *, after: str, minute: str) -> str:
    """`<run>-<5 chars>`: the Workflow that takes the run up after another one.

    Whoever does so at the same time gets the same name, so that only one of them is created. `minute`: of the present
    time, as text; the pods of a Workflow of that name that was deleted since may still be leaving.
    """
    digest = int.from_bytes(hashlib.sha256(f"{run}\n{after}\n{minute}".encode()).digest())
    places = [len(_ALPHABET) ** power for power in range(5)]
    return f"{run}-{''.join(_ALPHABET[digest // place % len(_ALPHABET)] for place in places)}"


def gang_name(run: str, generation: int) -> str:
    """`<run>-g<generation>`: a new generation has a new name, so nothing resolves to its predecessor."""
    return f"{run}-g{generation}"


def checkpoint_id(*, step: int, term: int) -> str:
    """`step-<step>-term-<term>`: unique within an experiment and model version, because a term is."""
    return f"step-{step}-term-{term}"


def parse_checkpoint_id(text: str) -> tuple[int, int] | None:
    """(step, term) of a checkpoint id, or None when `text` is not one."""
    match = _CHECKPOINT_ID.match(text)
    return (int(match[1]), int(match[2])) if match else None
