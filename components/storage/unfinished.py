"""Names of unfinished files say who is writing, so that what a dead writer left can be told from what is being written.

Only where a file system has no nameless files (NFS) can a killed writer leave one. It is collected when its writer is
provably gone: by the kernel it ran under, or by a later boot of the same machine. Age proves nothing.
"""

import functools
import hashlib
import os
import re
import socket
import uuid

from components.runtime.processes import boot_id, is_alive, machine_id, pid_namespace, start_time
from components.storage.base import UNFINISHED

_NAME = re.compile(
    re.escape(UNFINISHED)
    + r"(?P<machine>[0-9a-f]{16})-(?P<boot>[0-9a-f]{16})-(?P<namespace>[0-9a-f]{16})"
    + r"-(?P<pid>\d{1,10})-(?P<started>\d{1,20})-[0-9a-f]{32}",
    re.ASCII,
)
_UNKNOWN = "0" * 16


def unfinished_name() -> str:
    """A new name that tells this process from every other one."""
    return f"{UNFINISHED}{_writer(os.getpid())}-{uuid.uuid4().hex}"


def is_abandoned(name: str) -> bool:
    """Whether who wrote under this name can never go on; False means "alive or unknown"."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    machine, boot, namespace = _here()
    if match["boot"] == _UNKNOWN or boot == _UNKNOWN:
        return False
    if match["boot"] != boot:
        return match["machine"] == machine != _UNKNOWN
    same_pids = match["namespace"] == namespace != _UNKNOWN
    return same_pids and not is_alive(int(match["pid"]), int(match["started"]) or None)


@functools.lru_cache(maxsize=2)
def _writer(pid: int) -> str:
    return "-".join([*_here(), str(pid), str(start_time(pid) or 0)])


@functools.cache
def _here() -> tuple[str, str, str]:
    """Machine, boot, pid namespace; two containers of one host name are not one machine."""
    machine = machine_id()
    named = f"{socket.gethostname()} {machine}" if machine else ""
    return _digest(named), _digest(boot_id()), _digest(pid_namespace())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else _UNKNOWN
