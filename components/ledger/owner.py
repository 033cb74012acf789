"""Who holds a claim, and whether that process is provably gone."""

import os
import socket

from components.contracts.document import Document
from components.runtime.processes import boot_id, is_alive, machine_id, pid_namespace, start_time


class Owner(Document):
    """One process of one boot of one machine; (pid, start time) is never reused within a boot."""

    host: str
    boot_id: str
    """Empty where the kernel does not tell; then nothing can be proved."""
    pid: int
    started: int | None = None
    """Clock ticks since boot."""
    target: str
    """Where the run was submitted to: local, kubernetes, argo-server."""
    machine_id: str = ""
    """Tells two machines of the same host name apart; empty where there is none."""
    pid_namespace: str = ""
    """Pids of two containers mean nothing to each other, even on one host."""
    cluster: str = ""
    """Names the Kubernetes cluster and namespace of a launcher's pod; empty elsewhere."""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def this_process(*, target: str) -> Owner:
    """This very process, as the owner of a claim."""
    return Owner(
        host=socket.gethostname(), boot_id=boot_id(), pid=os.getpid(), started=start_time(os.getpid()), target=target,
        machine_id=machine_id(), pid_namespace=pid_namespace(),
    )  # fmt: skip


def is_gone(owner: Owner) -> bool:
    """Whether `owner` can never run again: provable only on its own machine, so False means "alive or unknown".

    Same machine and another boot: everything of that boot is gone. Same boot: look for the process.
    """
    if owner.host != socket.gethostname() or owner.machine_id != machine_id():
        return False
    here = boot_id()
    if not owner.boot_id or not here:
        return False
    if owner.boot_id != here:
        return True
    return owner.pid_namespace == pid_namespace() and not is_alive(owner.pid, owner.started)
