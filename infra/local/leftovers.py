"""Processes of a run that outlived the engine that started them *and* its supervisors."""

import os
import signal
import time
from contextlib import suppress

from components.errors import EnvironmentUnfit
from components.runtime.leftovers import marked_processes
from components.runtime.log import Log
from infra.local.environment import STOP_FILE
from infra.local.run_dir import RunDir

_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


def kill_leftovers(run_dir: RunDir, log: Log) -> None:
    """SIGKILL every process that carries this run in its environment, and wait until none is left.

    Whoever holds the run's lock knows that the supervisors are gone, and those take what they started along. Only a
    supervisor that was killed together with its engine leaves something. Raises EnvironmentUnfit when it cannot be
    killed.
    """
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while left := marked_processes(str(run_dir.stop_path), variable=STOP_FILE):
        pids = [process.pid for process in left]
        log.warning("killing what an earlier engine left running", pids=pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up_at:
            raise EnvironmentUnfit(
                "LeftoversAlive",
                f"processes {pids} of an earlier engine cannot be killed",
                "see what they wait for (a dead file server?), then resume",
            )
        time.sleep(_PAUSE_SECONDS)
