"""Ends what is left of a run's gang on this machine: launcher and agents by their records, the rest by their mark."""

import socket
from collections.abc import Sequence

from components.contracts.gang import LaunchState
from components.errors import EnvironmentUnfit
from components.ledger.ledger import ClaimEntry
from components.runtime.leftovers import Process, end_leftovers, gang_mark
from components.runtime.processes import boot_id


def recorded_processes(launch: LaunchState | None, claim: ClaimEntry | None, *, run: str) -> list[Process]:
    """The launcher, if it holds the claim, and every agent ever started; those of this boot of this machine only."""
    here = (socket.gethostname(), boot_id())
    found = []
    if claim is not None and claim.run == run and (claim.owner.host, claim.owner.boot_id) == here:
        found.append(Process(claim.owner.pid, claim.owner.started))
    for view in launch.generations if launch else ():
        found += [Process(agent.pid, agent.started) for agent in view.agents if (agent.host, agent.boot_id) == here]
    return found


def end_gang(storage: str, run: str, recorded: Sequence[Process], *, stop_seconds: float) -> int:
    """Ask them to stop, kill what still runs after `stop_seconds`. How many had to be killed.

    Raises EnvironmentUnfit when something survives SIGKILL: it may go on writing, so somebody must look.
    """
    killed, left = end_leftovers(gang_mark(storage, run), recorded, patience_seconds=stop_seconds, terminate=True)
    if left:
        raise EnvironmentUnfit(
            "LeftoverProcesses",
            f"processes of this run's gang survive SIGKILL: {', '.join(str(process.pid) for process in left)}",
            "they hang in the kernel (a dead file server, a GPU driver): free them or restart the machine",
        )  # fmt: skip
    return len(killed)
