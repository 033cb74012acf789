"""One engine a run: the lock that an engine and its supervisors hold."""

import fcntl
import os
import signal
import time
from contextlib import suppress

from components.errors import BadInput, EnvironmentUnfit
from components.runtime.processes import boot_id, is_alive, start_time
from infra.local.run_dir import LockHolder, RunDir

_PATIENCE_SECONDS = 20.0
"""How long the supervisors of a dead engine may take to kill what they started."""
_PATIENCE_WITH_SUPERVISORS_SECONDS = 10.0
"""After that they are killed themselves; what they leave carries the run's mark."""
_PAUSE_SECONDS = 0.01


def take_lock(run_dir: RunDir, *, patience_seconds: float = _PATIENCE_SECONDS) -> int:
    """The lock's descriptor; it is held until the last process that inherited it ends.

    Waits while supervisors of a dead engine clean up. Raises BadInput when another engine lives.
    """
    descriptor = os.open(run_dir.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    began = time.monotonic()
    give_up_at, last_resort_at = began + patience_seconds, began + _PATIENCE_WITH_SUPERVISORS_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            _refuse_if_alive(run_dir)
            if time.monotonic() > give_up_at:
                raise EnvironmentUnfit(
                    "LeftoversAlive",
                    f"processes of an earlier engine still run and hold {run_dir.lock_path}",
                    f"find them with: fuser {run_dir.lock_path}",
                ) from None
            # One that was stopped has its order to kill everything waiting for it.
            _signal_supervisors(run_dir, signal.SIGCONT if time.monotonic() < last_resort_at else signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)
    holder = LockHolder(pid=os.getpid(), process_started=start_time(os.getpid()), boot_id=boot_id())
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.to_bytes(), 0)
    return descriptor


def _refuse_if_alive(run_dir: RunDir) -> None:
    holder = run_dir.holder()
    if holder and holder.boot_id == boot_id() and is_alive(holder.pid, holder.process_started):
        raise BadInput(
            "EngineRunning",
            f"run {run_dir.name} has an engine already, process {holder.pid}",
            "follow it with status, or stop the run first",
        )


def _signal_supervisors(run_dir: RunDir, number: int) -> None:
    """To the supervisors that the dead engine left, as far as its events name them."""
    holder = run_dir.holder()
    if holder is None or holder.boot_id != boot_id():
        return
    for last in (node.last for node in run_dir.state().nodes.values()):
        if last is None or last.finished_at is not None or last.process_started is None:
            continue
        if is_alive(last.pid, last.process_started):
            with suppress(ProcessLookupError):
                os.kill(last.pid, number)
