"""The process that stands in for a pod: it runs one container's command and outlives nothing it started.

    engine ─► supervisor (a fork of the engine) ─► the command, in a session of its own ─► whatever it starts

The supervisor is the subreaper of everything below it, so what a command leaves running (daemons, wrappers' children,
orphans in other sessions) becomes the supervisor's child, and is killed when the command ends, as a container's
processes are. It exits with the command's exit code, 128 + N for signal N.

The kernel tells it when the engine is gone (PDEATHSIG); then it kills everything at once. Until it is done it holds the
run's lock, which it inherited: an engine that gets the lock knows that nothing of its predecessor is left.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from components.runtime.processes import become_subreaper, die_with_parent, kill_descendants

KILL_ALL = signal.SIGUSR1
"""Tells a supervisor to SIGKILL everything; also what it gets when the engine dies."""

_AWAITED = {signal.SIGCHLD, signal.SIGTERM, KILL_ALL, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}
_CANNOT_START = 64
"""What Argo's emissary exits with when it cannot start the command."""
_PR_SET_NAME = 15


@dataclass(frozen=True)
class Command:
    """One container template, resolved: what to run, where, with what."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    """Working directory."""
    output_path: Path
    """Gets stdout and stderr, appended."""
    last_words_path: Path
    """Gets the reason when the command cannot be started."""


def start(command: Command, *, close_fds: Sequence[int] = ()) -> int:
    """Fork a supervisor for `command` and return its pid. Main thread only; raises OSError when it cannot fork.

    `close_fds` are descriptors of the engine that the supervisor must not keep.
    """
    output = os.open(command.output_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    engine = os.getpid()
    try:
        pid = os.fork()
        if pid == 0:
            _supervise(command, engine, output, close_fds)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(output)


def _supervise(command: Command, engine: int, output: int, close_fds: Sequence[int]) -> NoReturn:
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        die_with_parent(engine, KILL_ALL)()
        become_subreaper()
        _call_me(b"argosy-pod")
        for descriptor in close_fds:
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        supervisor = os.getpid()
        main = os.fork()
        if main == 0:
            _become(command, supervisor)
        code = _watch(main, engine)
    except BaseException as error:  # never return into the engine's code
        os.write(2, f"supervisor: {type(error).__name__}: {error}\n".encode())
        kill_descendants(os.getpid())
    finally:
        os._exit(code)


def _become(command: Command, supervisor: int) -> NoReturn:
    code = _CANNOT_START
    try:
        os.setsid()
        die_with_parent(supervisor, signal.SIGKILL)()
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(command.folder)
        os.execvpe(command.argv[0], list(command.argv), dict(command.env))
    except (OSError, ValueError) as error:  # ValueError: a NUL or a half surrogate in an argument
        reason = _why_not(command.argv[0], error)
        os.write(2, f"{reason}\n".encode())
        command.last_words_path.write_text(reason)
    finally:
        os._exit(code)


def _why_not(name: str, error: OSError | ValueError) -> str:
    """The words Argo's emissary has for it."""
    if isinstance(error, FileNotFoundError) and "/" not in name:
        return f'failed to find name in PATH: exec: "{name}": executable file not found in $PATH'
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return f'failed to find name in PATH: exec: "{name}": {(error.strerror or "").lower()}'
    reason = error.strerror if isinstance(error, OSError) else None
    return f"failed to start command: {name}: {(reason or str(error)).lower()}"


def _watch(main: int, engine: int) -> int:
    if sys.platform != "linux":
        signal.setitimer(signal.ITIMER_REAL, 1, 1)  # no PDEATHSIG there: look now and then
    while True:
        number = signal.sigwait(_AWAITED)
        if number == KILL_ALL or os.getppid() != engine:
            _kill_group(main, signal.SIGKILL)  # the rest follows once it is reaped
        elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            _kill_group(main, number)  # like the emissary: to the whole process group, so that wrappers pass it on
        code = _reap(main)
        if code is not None:
            _kill_the_rest(main)
            return code


def _reap(main: int) -> int | None:
    """Reap whatever has ended; the exit code once it is the command."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == main:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _kill_the_rest(main: int) -> None:
    """Kill until there is no child left. All that is left below us is our child, for we are its subreaper."""
    for _ in range(100):
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if sys.platform != "linux":
                _signal(os.killpg, main, signal.SIGKILL)  # no /proc there: its group has to do
            kill_descendants(os.getpid())
            time.sleep(0.001)


def _kill_group(main: int, number: int) -> None:
    """To the command's whole group; between its fork and its setsid there is none yet."""
    if not _signal(os.killpg, main, number):
        _signal(os.kill, main, number)


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    try:
        send(pid, number)
    except OSError:
        return False
    return True


def _call_me(name: bytes) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name, 0, 0, 0)
