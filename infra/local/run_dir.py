"""Where a run on this machine lives: `$ARGOSY_HOME/runs/<run>/`.

manifest.json  what runs: the compiled Workflow with this run's parameters
run.json       who submitted what, when, how
events.jsonl   what happened, append-only
nodes/<node>/<attempt>/  output.log  out/<output parameter>  last-words
engine.lock    held by the engine and by every supervisor; says who
engine.log     what the engine itself has to say
stop.json      exists once a stop was asked for
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.clock import UtcText
from components.contracts.document import DamagedDocument, Document
from components.contracts.names import RunName
from components.contracts.stop import StopRequest, read_stop
from components.errors import BadInput
from components.runtime.processes import boot_id, is_alive
from infra.local.events import read_events
from infra.local.state import Fold, LocalRunState

CHECKOUT = Path(__file__).resolve().parents[2]


class RunInfo(Document):
    """`run.json`: what was submitted."""

    run: RunName
    experiment: str
    model_version: str
    target: str
    created_at: UtcText
    argv: tuple[str, ...]
    storage: str
    description: dict[str, Any]
    """The run description as compiled, defaults filled in."""


class LockHolder(Document):
    """What `engine.lock` says about who holds it."""

    pid: int
    process_started: int | None = None
    boot_id: str


@dataclass(frozen=True)
class RunDir:
    """The folder of one run."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def stop_path(self) -> Path:
        return self.path / "stop.json"

    @property
    def lock_path(self) -> Path:
        return self.path / "engine.lock"

    @property
    def engine_log_path(self) -> Path:
        return self.path / "engine.log"

    def info(self) -> RunInfo:
        """Raises DamagedDocument."""
        path = self.path / "run.json"
        return RunInfo.from_bytes(_read(path), where=str(path))

    def manifest(self) -> Mapping[str, Any]:
        """Raises DamagedDocument."""
        try:
            value = json.loads(_read(self.manifest_path))
        except ValueError as error:
            raise DamagedDocument("DamagedDocument", f"{self.manifest_path} is not JSON: {error}") from error
        return dict(value)

    def state(self) -> LocalRunState:
        """The run as its events tell it up to now."""
        try:
            events, _ = read_events(self.events_path.read_bytes())
        except FileNotFoundError:
            events = []
        return Fold(events).state()

    def stop_request(self) -> StopRequest | None:
        """The stop that was asked for."""
        try:
            return read_stop(self.stop_path.read_bytes())
        except OSError:
            return None

    def holder(self) -> LockHolder | None:
        """The engine that took the lock last, alive or not."""
        try:
            return LockHolder.from_bytes(self.lock_path.read_bytes(), where=str(self.lock_path))
        except (OSError, DamagedDocument):
            return None

    def engine_alive(self) -> bool:
        """Whether an engine runs this run now."""
        holder = self.holder()
        if holder is None or holder.boot_id != boot_id():
            return False
        if holder.process_started is None:
            return _is_locked(self.lock_path)  # no /proc: ask the lock, at the risk of an engine finding it taken
        return is_alive(holder.pid, holder.process_started)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(
            "RunUnreadable", f"cannot read {path}: {error.strerror}", "is it the folder of a run?"
        ) from error


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
