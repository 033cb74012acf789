"""Child processes that cannot outlive their parent, and a look at what is running (Linux; elsewhere best effort)."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_KILL_PAUSE_SECONDS = 0.002
_IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if _IS_LINUX else None


def die_with_parent(parent_pid: int, death_signal: int = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn` after which the kernel sends `death_signal` when the *thread* that forked is gone.

    Fork from the main thread only: the signal follows the forking thread, not the process.
    """

    def arrange() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
            if os.getppid() != parent_pid:  # the parent died between fork and prctl
                os.kill(os.getpid(), signal.SIGKILL)

    return arrange


def become_subreaper() -> None:
    """From now on orphans among our descendants become our children instead of init's."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def facilities() -> dict[str, bool]:
    """What "no orphan, ever" rests on, and whether this machine has it."""
    value = ctypes.c_int()

    def answers(option: int) -> bool:
        return _libc is not None and _libc.prctl(option, ctypes.byref(value), 0, 0, 0) == 0

    return {
        "parent-death signal": answers(_PR_GET_PDEATHSIG),
        "child subreaper": answers(_PR_GET_CHILD_SUBREAPER),
        "/proc": start_time(os.getpid()) is not None,
    }


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, new_session: bool = True, **options: Any
) -> "subprocess.Popen[bytes]":
    """Start `argv` so that it is killed when this process ends, however it ends. Call from the main thread."""
    return subprocess.Popen(
        list(argv), env=None if env is None else dict(env), start_new_session=new_session,
        preexec_fn=die_with_parent(os.getpid()), **options,
    )  # fmt: skip


def _stat(pid: int) -> list[bytes] | None:
    """Fields of /proc/<pid>/stat from the state on, behind the name, which may hold anything. None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat[stat.rindex(b")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which `pid` started, or None when it is gone; (pid, start time) is never reused."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def is_alive(pid: int, started: int | None) -> bool:
    """Whether that very process still runs; a zombie does not."""
    fields = _stat(pid)
    if fields is None:
        return _is_hidden(pid)
    if fields[0] in (b"Z", b"X"):
        return False
    return started is None or int(fields[19]) == started


def _is_hidden(pid: int) -> bool:
    """Somebody else's, where /proc shows everybody only their own (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def boot_id() -> str:
    """Names this boot of this machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def signal_name(number: int) -> str:
    """`SIGKILL`; `signal 40` for one that has no name, as most real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def machine_id() -> str:
    """Tells two machines of the same host name apart; empty where there is none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Pids of two containers mean nothing to each other, even on one host; empty where the kernel does not tell."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def children_by_parent() -> dict[int, list[int]]:
    """Every process's children, from one pass over /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc") if _IS_LINUX else ():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    return children


def descendants(pid: int) -> Iterator[int]:
    """All descendants of `pid`, children before grandchildren."""
    children, queue = children_by_parent(), [pid]
    while queue:
        for child in children.get(queue.pop(0), ()):
            yield child
            queue.append(child)


def kill_descendants(pid: int, *, keep: frozenset[int] = frozenset(), rounds: int = 50) -> bool:
    """SIGKILL every descendant of `pid` except `keep` and theirs, again until none is left. True when none is.

    Several rounds, because a process may fork between the look and the kill; a subreaper keeps the newborn in view. For
    our own descendants (we being their subreaper) the answer is certain also when one forks and exits all the time. The
    dead among our own children are reaped here, so a `Popen` of one of them learns nothing more than that it ended.
    """
    dead: set[int] = set()
    for _ in range(rounds):
        spared = set(keep)
        for kept in keep:
            spared.update(descendants(kept))
        victims = [child for child in descendants(pid) if child not in spared and is_alive(child, None)]
        _reap(dead)
        if not victims and pid == os.getpid():
            victims = _overlooked(spared)
        if not victims:
            return True
        for victim in victims:
            dead.add(victim)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_KILL_PAUSE_SECONDS)
    return False


def _overlooked(keep: set[int]) -> list[int]:
    """Children that may live though a look at /proc, which takes its time, saw nobody: empty only when none does.

    Who exits hands its children over before it shows as dead. So when all of our children are dead, and afterwards we
    have no others, none was handed over meanwhile.
    """
    before = _children()
    living = [child for child in before - keep if is_alive(child, None)]
    return living or list(_children() - before - keep)


def _children() -> set[int]:
    """Our own children, dead ones included; empty where the kernel does not list them."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task") if _IS_LINUX else ():
        try:
            found.update(int(child) for child in Path(f"/proc/self/task/{task}/children").read_bytes().split())
        except OSError:
            continue
    return found


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
