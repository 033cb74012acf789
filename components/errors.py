"""The error tree and the one table of exit codes.

    ArgosyError                      reason + what was seen + what to do
    ├── BadInput               78    the description, an argument or an input is wrong; lists every fault found
    ├── Transient              75    a store, an API or the network did not answer; trying again may help
    ├── NodeUnfit              80    this stage's own node fails a hard check
    ├── EnvironmentUnfit       81    the place as a whole fails a hard check
    ├── Stopped                83    stopped by request, or a limit or deadline reached
    ├── Interrupted            84    told to go without a stated intent
    ├── WorkerFailed           90    a rank failed and no restart is left
    ├── Hang                   91    no progress within the limit and no restart left
    ├── PeerLost               92    an agent, a guard or its connection is gone
    ├── NodeFault              93    a node is at fault and no restart is left
    ├── NoProgress             94    several attempts in a row ended at the same step
    ├── Preempted              95    the run ended preempted
    └── VerificationFailed     96    a checkpoint failed verification, or nothing was committed

Anything that is not an ArgosyError is our bug: exit code 70 and a traceback.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What a stage's process tells Argo. Never 1, 2, 64-66 or 126-143: those belong to Python, Argo and the shell."""

    OK = 0
    BUG = 70
    TRANSIENT = 75
    BAD_INPUT = 78
    NODE_UNFIT = 80
    ENVIRONMENT_UNFIT = 81
    STOPPED = 83
    INTERRUPTED = 84
    WORKER_FAILED = 90
    HANG = 91
    PEER_LOST = 92
    NODE_FAULT = 93
    NO_PROGRESS = 94
    PREEMPTED = 95
    VERIFICATION_FAILED = 96


RETRIED_BY_ARGO = (ExitCode.TRANSIENT, ExitCode.NODE_UNFIT, ExitCode.INTERRUPTED)
"""Exit codes after which the same stage is tried again. Read by `templates/retry.py`."""

KILLED_FROM_OUTSIDE = (137, 143)
"""128 + SIGKILL, 128 + SIGTERM: taken away before it could say anything; tried again like a lost pod."""


@dataclass(frozen=True)
class Problem:
    """One fault in an input: where it stands, what was seen there, what to do about it."""

    where: str
    """File, line, field, uri or object; for example `run.yaml:12 launch.num_nodes`."""
    seen: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.seen}" + (f"; {self.fix}" if self.fix else "")


class ArgosyError(Exception):
    """A failure with a name. Catch this to handle everything Argosy reports about the outside world.

    `reason` is CamelCase and stable (tools may match on it); `seen` is a sentence; `fix` says what to do next.
    """

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, reason: str, seen: str, fix: str = "") -> None:
        self.reason, self.seen, self.fix = reason, seen, fix
        super().__init__(f"{reason}: {seen}" + (f"; {fix}" if fix else ""))


class BadInput(ArgosyError):
    """The description, an argument or an input is wrong. `problems` holds every fault found, not only the first."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, reason: str, seen: str, fix: str = "", *, problems: Iterable[Problem] = ()) -> None:
        super().__init__(reason, seen, fix)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])


class Transient(ArgosyError):
    """A store, an API or the network did not answer; trying again may help."""

    exit_code = ExitCode.TRANSIENT


class NodeUnfit(ArgosyError):
    """This stage's own node fails a hard check; another node may pass."""

    exit_code = ExitCode.NODE_UNFIT


class EnvironmentUnfit(ArgosyError):
    """The place as a whole fails a hard check; no other node would help."""

    exit_code = ExitCode.ENVIRONMENT_UNFIT


class Stopped(ArgosyError):
    """Stopped by request, or a limit or deadline was reached."""

    exit_code = ExitCode.STOPPED


class Interrupted(ArgosyError):
    """Told to go (SIGTERM) without a stated intent; another attempt continues."""

    exit_code = ExitCode.INTERRUPTED


class WorkerFailed(ArgosyError):
    """A rank failed and no restart is left."""

    exit_code = ExitCode.WORKER_FAILED


class Hang(ArgosyError):
    """The ranks made no progress within the limit and no restart is left."""

    exit_code = ExitCode.HANG


class PeerLost(ArgosyError):
    """An agent, a guard or the connection between them is gone and no restart is left."""

    exit_code = ExitCode.PEER_LOST


class NodeFault(ArgosyError):
    """A node is at fault and no restart is left."""

    exit_code = ExitCode.NODE_FAULT


class NoProgress(ArgosyError):
    """Several attempts in a row ended at the same step: restarting again would not help."""

    exit_code = ExitCode.NO_PROGRESS


class Preempted(ArgosyError):
    """The run ended preempted."""

    exit_code = ExitCode.PREEMPTED


class VerificationFailed(ArgosyError):
    """A checkpoint failed verification, or nothing was committed."""

    exit_code = ExitCode.VERIFICATION_FAILED


def error_for(exit_code: int) -> type[ArgosyError] | None:
    """The class that reports `exit_code`, or None when no class does (0, 70, foreign codes)."""
    for cls in ArgosyError.__subclasses__():
        if cls.exit_code == exit_code:
            return cls
    return None
