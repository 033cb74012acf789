"""Secrets that stand in a description as they are. On a cluster it becomes part of objects and files that many may
read: the Workflow, the run's record in its storage, a render in Git. There a Secret is named instead.
"""

import re
from collections.abc import Iterator

from components.diagnosis.credentials import is_credential
from components.errors import Problem
from pipelines.config import TrainConfig

_NAME = re.compile(r"(?i)(?:^|_)(?:password|passwd|secret|(?:api|secret|access|private)_?key)$")
_TOKEN = re.compile(r"(?i)(?:^|_)token$")
_LONG = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9._~+/=-]{16,}")
"""What a generated token looks like, and `<|endoftext|>` or `[PAD]`, tokens of another kind, do not."""

_SEEN = "reads as a secret, and whoever may see the run could read it"


def literal_secrets(config: TrainConfig) -> Iterator[Problem]:
    """One problem a value; no value is repeated in it."""
    for name, value in config.launch.env.items():
        if _is_secret(name, value):
            instead = (
                f"keep it in a Secret of the namespace, and write launch.secrets: {{{name}: {{secret: …, key: …}}}}"
            )
            yield Problem(f"launch.env.{name}", _SEEN, instead)
    for index, word in enumerate(config.launch.command):
        if is_credential(word):
            instead = "keep it in a Secret, name that under launch.secrets, and have the program read the variable"
            yield Problem(f"launch.command[{index}]", _SEEN, instead)


def _is_secret(name: str, value: str) -> bool:
    if is_credential(value):
        return True
    if value.startswith("/"):
        return False  # a file that holds it
    return (len(value) >= 4 and bool(_NAME.search(name))) or bool(_TOKEN.search(name) and _LONG.fullmatch(value))
