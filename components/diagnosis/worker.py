"""Why a rank failed: its exit code or signal, and what its last lines say (a table, read top to bottom)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from components.contracts.gang import Failure, FailureKind
from components.diagnosis.verdict import Actor


@dataclass(frozen=True)
class WorkerCause:
    """A rank's failure in words."""

    reason: str
    cause: str
    actor: Actor
    action: str


@dataclass(frozen=True)
class _Sign:
    pattern: re.Pattern[str]
    reason: str
    says: str
    """Follows the words `rank 3 exited with code 1: `; `{0}` is the matched text."""
    actor: Actor
    action: str


def _sign(pattern: str, reason: str, says: str, actor: Actor, action: str) -> _Sign:
    return _Sign(re.compile(pattern), reason, says, actor, action)


_SIGNS = (
    _sign(
        r"(?:CUDA|HIP|XPU) out of memory.*|OutOfMemoryError.*", "DeviceOutOfMemory", "{0}", Actor.PROGRAM,
        "make the batch or the model smaller, or use more devices",
    ),
    _sign(
        r"(?:ModuleNotFoundError|ImportError): .+|\bNo module named [\w.']+", "ImportFailed", "{0}", Actor.PROGRAM,
        "install the module for the interpreter that launch.command starts, or correct the import",
    ),
    _sign(
        r"(?:OSError: \[Errno 28\]|.*No space left on device).*", "DiskFull", "{0}", Actor.MACHINE,
        "free space on that disk (retain.keep_last keeps fewer checkpoints), then resume",
    ),
    _sign(
        r"MemoryError.*|.*[Cc]annot allocate memory.*|.*can't allocate memory.*|std::bad_alloc.*", "OutOfMemory",
        "out of memory ({0})", Actor.PROGRAM, "use fewer ranks on this machine, or make the batch or the model smaller",
    ),
    _sign(
        r".*(?:Address already in use|EADDRINUSE).*", "PortTaken", "{0}", Actor.PROGRAM,
        "listen on the given MASTER_PORT only, or end the process that holds the port",
    ),
    _sign(
        r".*Watchdog caught collective operation timeout.*", "CollectiveTimeout", "a collective did not finish in time",
        Actor.PROGRAM, "look for the rank that is behind the others in the log",
    ),
    _sign(
        r".*(?:RendezvousTimeoutError|RendezvousConnectionError|client socket has timed out).*", "RendezvousFailed",
        "the ranks did not find each other ({0})", Actor.PROGRAM,
        "use MASTER_ADDR and MASTER_PORT as given, and start WORLD_SIZE ranks",
    ),
    _sign(
        r".*(?:: (?:command )?not found|: No such file or directory)$", "CommandNotFound", "{0}", Actor.SUBMITTER,
        "correct launch.command; relative paths start from the folder of the run description",
    ),
    _sign(
        r".*error: (?:unrecognized arguments|the following arguments are required|argument ).*", "BadArguments", "{0}",
        Actor.SUBMITTER, "correct the arguments in launch.command",
    ),
    _sign(
        r".*\b(?:loss|gradient|grad_norm)\b.*\b(?:is|are|became) (?:nan|inf|not finite)\b.*", "NotFinite", "{0}",
        Actor.PROGRAM, "lower the learning rate or look at the data, then resume from an earlier checkpoint",
    ),
)  # fmt: skip

_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Warning)\b.*")

_SIGNALS = {
    "SIGKILL": (
        "OutOfMemorySuspected",
        "killed by SIGKILL, which Argosy did not send: most often the kernel's out-of-memory killer",
        "look for it in `dmesg`; use fewer ranks, or make the batch or the model smaller",
    ),
    "SIGSEGV": ("Crashed", "crashed (SIGSEGV)", "run it with PYTHONFAULTHANDLER=1 to see where"),
    "SIGBUS": (
        "SharedMemoryTooSmall",
        "crashed (SIGBUS): most often /dev/shm is full",
        "give /dev/shm more space, or use fewer data loader workers",
    ),
    "SIGABRT": ("Aborted", "aborted (SIGABRT)", "read its last lines for the assertion or the library that gave up"),
    "SIGILL": (
        "WrongInstructionSet",
        "ran an instruction this CPU does not have (SIGILL)",
        "install binaries built for this machine",
    ),
    "SIGFPE": ("Crashed", "crashed (SIGFPE)", "look for an integer division by zero in native code"),
}  # fmt: skip


def explain_worker(failure: Failure) -> WorkerCause:
    """What a failing rank's exit and last lines amount to."""
    who = f"rank {failure.rank}" if failure.rank is not None else f"node {failure.node_rank or 0}"
    if failure.kind is FailureKind.START_FAILED:
        return WorkerCause(
            "CommandNotFound", f"the program could not be started: {failure.message}", Actor.SUBMITTER,
            "correct launch.command; relative paths start from the folder of the run description",
        )  # fmt: skip
    if failure.kind is FailureKind.PORT_TAKEN:
        return WorkerCause(
            "PortTaken", failure.message, Actor.MACHINE,
            "end the process that holds it (`ss -ltnp`), or let the program listen on the given MASTER_PORT only",
        )  # fmt: skip
    ending = _ending(failure)
    found = explain_lines(failure.last_lines)
    if found is not None:
        return WorkerCause(found.reason, f"{who} {ending}: {found.cause}", found.actor, found.action)
    if failure.signal in _SIGNALS:
        reason, says, action = _SIGNALS[failure.signal]
        actor = Actor.MACHINE if failure.signal == "SIGBUS" else Actor.PROGRAM
        return WorkerCause(reason, f"{who} was {says}" if says.startswith("killed") else f"{who} {says}", actor, action)
    exception = last_exception(failure.last_lines)
    action = "correct the program" if failure.last_lines else "look at the program's log"
    return WorkerCause(
        "WorkerFailed", f"{who} {ending}" + (f": {exception}" if exception else ""), Actor.PROGRAM, action
    )


def explain_lines(lines: Sequence[str]) -> WorkerCause | None:
    """What a program's last lines say about its end, newest first; None when they are no known sign."""
    for line in reversed(lines):
        for sign in _SIGNS:
            match = sign.pattern.search(line)
            if match:
                return WorkerCause(sign.reason, sign.says.format(shortened(match[0])), sign.actor, sign.action)
    return None


def last_exception(lines: Sequence[str]) -> str:
    """The newest line that looks like the end of a traceback; empty when there is none."""
    return next((shortened(line) for line in reversed(lines) if _EXCEPTION.match(line)), "")


def _ending(failure: Failure) -> str:
    if failure.signal:
        return f"was killed by {failure.signal}"
    if failure.exit_code is not None:
        return f"exited with code {failure.exit_code}"
    return f"failed ({failure.message})" if failure.message else "failed"


def shortened(text: str) -> str:
    """One line of at most 200 characters, without the full stop."""
    text = " ".join(text.split()).rstrip(".;")
    return text if len(text) <= 200 else text[:199] + "…"
