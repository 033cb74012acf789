"""A component's life: start it apart from us, wait until it is ready, stop it, know it again after our own death."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from components.errors import EnvironmentUnfit
from components.runtime import processes
from infra.devcluster import cgroups
from infra.devcluster.commands import in_netns
from infra.devcluster.layout import LOGS, STATE, Machine

RECORDS = STATE / "processes"
OLD_LOG = 64 * 1024 * 1024
"""Bytes of a log that is put aside, as the one before, when its component starts again."""
_END_SECONDS = 5.0
_TAIL_BYTES = 1500


class Phase(StrEnum):
    """What is true of a component now."""

    ABSENT = "absent"  # never started, or stopped on purpose
    DEAD = "dead"  # recorded, and gone
    OUTDATED = "outdated"  # runs, from another program or configuration
    RUNNING = "running"


@dataclass(frozen=True)
class Component:
    """A program that runs on a machine of the cluster."""

    name: str
    machine: Machine
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    """Configuration whose change means a restart."""
    missing: Callable[[], str] = lambda: ""
    """What keeps it from being ready; empty when it is."""
    ready_seconds: float = 60.0
    largest_file: int | None = None
    """Bytes. A program that writes more to a file, its log among them, ends: one that logs in a loop fills no disk."""

    @property
    def cgroup(self) -> str:
        return f"{self.machine.cgroup}/host/{self.name}"

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def record(self) -> Path:
        return RECORDS / f"{self.name}.json"

    def fingerprint(self) -> str:
        """Of the command, its environment, its configuration and the program itself."""
        program = Path(self.argv[0])
        stat = program.stat()
        parts = [
            *self.argv,
            json.dumps(dict(self.environment), sort_keys=True),
            str(stat.st_size),
            str(stat.st_mtime_ns),
        ]
        digest = hashlib.sha256("\0".join(parts).encode())
        for path in self.files:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def phase(component: Component) -> Phase:
    record = _read(component)
    if record is None:
        return Phase.ABSENT
    if not is_alive(record):
        return Phase.DEAD
    return Phase.RUNNING if record["fingerprint"] == component.fingerprint() else Phase.OUTDATED


def pid(component: Component) -> int | None:
    record = _read(component)
    return int(str(record["pid"])) if record and is_alive(record) else None


def start(component: Component) -> None:
    """Make it run with its present configuration; one that does already is left alone."""
    now = phase(component)
    if now is Phase.RUNNING:
        return
    if now is Phase.OUTDATED:
        stop(component)
    cgroups.create(component.cgroup)
    procs = cgroups.tracking(component.cgroup) / "cgroup.procs"
    for folder in (component.log.parent, component.record.parent):
        folder.mkdir(parents=True, exist_ok=True)

    record = {"boot": processes.boot_id(), "fingerprint": component.fingerprint(), "argv": list(component.argv)}

    def enter() -> None:  # by the child itself, before it becomes the program: no death of ours leaves it unrecorded
        procs.write_text(str(os.getpid()))
        temporary = component.record.with_suffix(".new")
        temporary.write_text(json.dumps({"pid": os.getpid(), "start": processes.start_time(os.getpid()), **record}))
        temporary.rename(component.record)
        if component.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (component.largest_file, component.largest_file))

    put_aside(component.log)
    with component.log.open("ab") as log:
        child = subprocess.Popen(
            in_netns(component.machine.netns_path, *component.argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=enter, cwd=component.machine.folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/root", **component.environment},
        )  # fmt: skip
    child.returncode = 0  # it outlives us on purpose: no warning about that when this object goes


def wait_ready(component: Component) -> None:
    """Raises EnvironmentUnfit with the end of its log when it dies or never gets ready."""
    deadline = time.monotonic() + component.ready_seconds
    while True:
        record = _read(component)
        if record is None or not is_alive(record):
            raise EnvironmentUnfit(
                "ComponentDied", f"{component.name} ended: {tail(component)}", f"see {component.log}"
            )
        missing = component.missing()
        if not missing:
            return
        if time.monotonic() > deadline:
            raise EnvironmentUnfit(
                "ComponentNotReady",
                f"{component.name} after {component.ready_seconds:.0f} s: {missing}; {tail(component)}",
                f"see {component.log}",
            )
        time.sleep(0.1)


def stop(component: Component, *, at_once: bool = False) -> None:
    """SIGTERM, then SIGKILL. Its descendants stay: pods outlive their container runtime.

    Raises EnvironmentUnfit when it survives both.
    """
    record = _read(component)
    if record is not None:
        has_ended = (not at_once and end(record, signal.SIGTERM)) or end(record, signal.SIGKILL)
        if not has_ended:
            raise EnvironmentUnfit("WillNotDie", f"{component.name}, process {record['pid']}, survives SIGKILL")
    component.record.unlink(missing_ok=True)


def end(record: Mapping[str, object], number: signal.Signals) -> bool:
    """Send a recorded process that signal, if it is still that process. Whether it ended, in time or long ago."""
    deadline = time.monotonic() + _END_SECONDS
    if is_alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(str(record["pid"])), number)
    while is_alive(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def put_aside(log: Path) -> None:
    """Keep one long log, as `….log.1`, and begin anew."""
    if log.exists() and log.stat().st_size > OLD_LOG:
        log.replace(log.with_name(f"{log.name}.1"))


def tail(component: Component) -> str:
    """The end of its log."""
    try:
        with component.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            return log.read(_TAIL_BYTES).decode(errors="replace").strip()
    except OSError:
        return "it wrote no log"


def is_alive(record: Mapping[str, object]) -> bool:
    """The very process that was recorded: same boot, same number, same start; a zombie is dead."""
    is_of_this_boot = record["boot"] == processes.boot_id()
    return is_of_this_boot and processes.is_alive(int(str(record["pid"])), int(str(record["start"])))


def _read(component: Component) -> dict[str, object] | None:
    try:
        record: dict[str, object] = json.loads(component.record.read_text())
    except (OSError, ValueError):
        return None
    return record
