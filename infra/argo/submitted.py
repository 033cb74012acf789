"""What this machine submitted to clusters: `$ARGOSY_HOME/submitted/<run>.json`, so that a name alone finds a run."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from components.contracts.clock import UtcText
from components.contracts.document import DamagedDocument, Document
from components.errors import EnvironmentUnfit

WORKFLOW_NAME = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
"""Whatever a Workflow or a label's value can be called. Who starts a run elsewhere need not keep to our names for runs:
its stages refuse such a name, and people still want to see the run and hear why it failed.
"""


class Place(Document):
    """Where a run was submitted to. No credentials: those are looked up anew."""

    target: Literal["kubernetes", "argo-server"]
    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""
    """The file that was named; empty: whatever KUBECONFIG says."""
    server: str = ""
    """Of the Argo Server."""


class Submitted(Document):
    """One run of a cluster, as it was submitted."""

    run: Annotated[str, StringConstraints(pattern=WORKFLOW_NAME, max_length=253)]
    experiment: str
    model_version: str
    place: Place
    storage: str
    created_at: UtcText
    argv: tuple[str, ...] = ()
    description: dict[str, Any] = {}
    """The run description as compiled; empty when a template was submitted, or by somebody else."""
    code: str = ""
    """SHA-256 of the code that travels with the run, if any does."""
    environment: dict[str, str] = {}
    """Without a description: variables of the stages that say how the storage is reached."""


def note_submitted(home: Path, submitted: Submitted) -> None:
    """Remember it. Raises EnvironmentUnfit when that cannot be written."""
    path = _path(home, submitted.run)
    aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(submitted.to_bytes())
        os.replace(aside, path)
    except OSError as error:
        fix = "set ARGOSY_HOME to a folder on a disk with space"
        raise EnvironmentUnfit("HomeNotWritable", f"cannot write {path}: {error.strerror}", fix) from error


def forget_submitted(home: Path, run: str) -> None:
    """For a run that was not submitted after all."""
    _path(home, run).unlink(missing_ok=True)


def submitted_run(home: Path, run: str) -> Submitted | None:
    """What is remembered of `run`. Raises DamagedDocument."""
    path = _path(home, run)
    try:
        return Submitted.from_bytes(path.read_bytes(), where=str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def submitted_runs(home: Path) -> list[Submitted]:
    """Every run submitted from here, oldest first; those that cannot be read are left out."""
    return sorted(_all(home), key=lambda item: (item.created_at, item.run))


def matches(left: Place, other: Place) -> bool:
    """Whether both are the same namespace of the same cluster."""
    return (left.target, left.namespace, left.context, left.server) == (
        other.target, other.namespace, other.context, other.server,
    )  # fmt: skip


def _all(home: Path) -> Iterator[Submitted]:
    for name in _files(home):
        try:
            found = submitted_run(home, name.removesuffix(".json"))
        except (DamagedDocument, OSError):
            continue
        if found is not None:
            yield found


def _files(home: Path) -> list[str]:
    try:
        return [name for name in os.listdir(home / "submitted") if name.endswith(".json") and not name.startswith(".")]
    except OSError:
        return []


def _path(home: Path, run: str) -> Path:
    return home / "submitted" / f"{run}.json"
