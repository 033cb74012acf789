"""Why a stage of the workflow failed: its own words, its exit code, or how the engine saw it end."""

import re
from dataclasses import dataclass

from components.contracts.run_view import RunView, StageView
from components.diagnosis.gang import attempts_evidence, check_evidence, diagnose_launch
from components.diagnosis.verdict import Actor, Diagnosis, Evidence, logs_command, resume_command
from components.diagnosis.worker import explain_lines, last_exception, shortened
from components.errors import ExitCode

_DISK_FULL = re.compile(r"No space left on device|quota is used up|\[Errno 28\]")
_NO_COMMAND = re.compile(r"[Nn]o such file or directory|not found|cannot start|not executable")
_WORKFLOW_DEADLINE = re.compile(r"Step exceeded its deadline|exceeded workflow deadline")
_DEADLINE = re.compile(r"longer than the specified deadline|DeadlineExceeded")

_MAX_FAULTS = 60
"""More than any stage names, so that the list is never cut before its last line, which says what to do."""

_BY_CHECKS = (ExitCode.BAD_INPUT, ExitCode.NODE_UNFIT, ExitCode.ENVIRONMENT_UNFIT, ExitCode.STOPPED)


@dataclass(frozen=True)
class _Ending:
    """What an exit code means when the stage left no words of its own."""

    reason: str
    cause: str
    actor: Actor
    action: str


_KILLED = _Ending(
    "Killed", "was killed by SIGKILL from outside: most often the kernel's out-of-memory killer", Actor.MACHINE,
    "look for it in `dmesg`, free memory",
)  # fmt: skip
_ENDINGS: dict[int, _Ending] = {
    ExitCode.BUG: _Ending(
        "Bug", "ended by an error in Argosy", Actor.ARGOSY, "report it with the traceback in the stage's log"
    ),
    ExitCode.TRANSIENT: _Ending(
        "NotAnswering", "gave up on a store or the network that did not answer", Actor.MACHINE, "see that it answers"
    ),
    ExitCode.BAD_INPUT: _Ending("BadInput", "was given a wrong input", Actor.SUBMITTER, "correct it and submit again"),
    ExitCode.NODE_UNFIT: _Ending("NodeUnfit", "found this machine unfit", Actor.MACHINE, "make it fit"),
    ExitCode.ENVIRONMENT_UNFIT: _Ending(
        "EnvironmentUnfit", "found the environment unfit", Actor.MACHINE, "make it fit"
    ),
    ExitCode.STOPPED: _Ending("Stopped", "was stopped by a limit", Actor.SUBMITTER, "give it more time"),
    ExitCode.INTERRUPTED: _Ending("Interrupted", "was told to go without a reason", Actor.MACHINE, "find out by whom"),
    ExitCode.WORKER_FAILED: _Ending("WorkerFailed", "saw a rank fail", Actor.PROGRAM, "look at the ranks' log"),
    ExitCode.HANG: _Ending("Hang", "saw the ranks make no progress", Actor.PROGRAM, "look where the ranks wait"),
    ExitCode.PEER_LOST: _Ending("PeerLost", "lost an agent or a guard", Actor.MACHINE, "see what killed it"),
    ExitCode.NODE_FAULT: _Ending("NodeFault", "found a node at fault", Actor.MACHINE, "replace that node"),
    ExitCode.PREEMPTED: _Ending("Preempted", "ended preempted", Actor.NOBODY, "wait for free capacity"),
    ExitCode.VERIFICATION_FAILED: _Ending(
        "VerificationFailed", "found no checkpoint that passes verification", Actor.PROGRAM, "look at the checkpoints"
    ),
    126: _Ending("CommandNotFound", "has a command that cannot be executed", Actor.SUBMITTER, "correct the command"),
    127: _Ending("CommandNotFound", "has a command that does not exist", Actor.SUBMITTER, "correct the command"),
    137: _KILLED,
    143: _Ending("Terminated", "was ended by SIGTERM from outside", Actor.MACHINE, "find out by whom"),
}


def diagnose_stage(view: RunView, stage: StageView) -> Diagnosis:
    """The cause of a run that ended with this stage."""
    found = _by_symptom(view, stage)
    if found is None and stage.task == "launch":
        found = diagnose_launch(view, stage)
    if found is None and stage.task in ("launch", "verify") and stage.exit_code == ExitCode.VERIFICATION_FAILED:
        found = _unverified(view, stage)
    if found is None and stage.task == "preflight":
        found = _by_checks(view, stage)
    return found or _by_own_words(view, stage)


def _by_symptom(view: RunView, stage: StageView) -> Diagnosis | None:
    if _DISK_FULL.search(stage.message):
        return _diagnosis(
            stage, "DiskFull", f"{stage.task} ran out of disk space ({_sentence(stage)})", Actor.MACHINE,
            f"free space there, or move what fills it to another disk, then {resume_command(view)}",
        )  # fmt: skip
    is_foreign = stage.exit_code is None or stage.exit_code in (126, 127)
    if is_foreign and not stage.reason and _NO_COMMAND.search(stage.engine_message or stage.message):
        return _diagnosis(
            stage, "CommandNotFound", f"{stage.task} could not be started: {_sentence(stage)}", Actor.MACHINE,
            "install what is missing; `doctor` lists it",
        )  # fmt: skip
    if _WORKFLOW_DEADLINE.search(stage.engine_message):
        return _diagnosis(
            stage, "RunDeadline", f"the run's own deadline passed while {stage.task} ran", Actor.SUBMITTER,
            "submit again with a longer `deadline`, or without one: it continues from the newest checkpoint",
        )  # fmt: skip
    if _DEADLINE.search(stage.engine_message):
        return _diagnosis(
            stage, "StageDeadline", f"{stage.task} did not end within its deadline", Actor.SUBMITTER,
            f"submit again with a longer {_section(stage)}.timeout",
        )  # fmt: skip
    return None


def _by_checks(view: RunView, stage: StageView) -> Diagnosis | None:
    blocking = [result for report in view.checks if report.subject == "preflight" for result in report.blocking]
    if not blocking or stage.exit_code not in _BY_CHECKS:
        return None
    first, is_input = blocking[0], stage.exit_code == ExitCode.BAD_INPUT
    failed = ", ".join(result.name for result in blocking)
    cause = f"{len(blocking)} hard checks failed: {failed}" if len(blocking) > 1 else f"the check {failed} failed"
    cause += f" (measured {shortened(first.measured)}, expected {shortened(first.expected)})"
    remedies = list(dict.fromkeys(result.remedy for result in blocking if result.remedy)) or ["make the machine fit"]
    return _diagnosis(
        stage, "ChecksFailed", cause, Actor.SUBMITTER if is_input else Actor.MACHINE,
        f"{', and '.join(remedies)}, then {'submit again' if is_input else resume_command(view)}",
        check_evidence(blocking),
    )  # fmt: skip


def _unverified(view: RunView, stage: StageView) -> Diagnosis:
    bad = [row for row in view.checkpoints if row.run == view.run and row.status == "quarantined"]
    good = [row for row in view.checkpoints if row.status == "verified"]
    rest = f"{good[0].checkpoint} is still verified, and {resume_command(view)} starts from it" if good else ""
    if bad and re.search(r"\bnan\b|\binf\b|not finite|non-finite", bad[0].reason, re.IGNORECASE):
        return _diagnosis(
            stage, "NotFinite", f"checkpoint {bad[0].checkpoint} was quarantined: {bad[0].reason}",
            Actor.PROGRAM, "lower the learning rate or look at the data" + (f"; {rest}" if rest else ""),
            _quarantined(view),
        )  # fmt: skip
    if bad:
        return _diagnosis(
            stage, "VerificationFailed", f"checkpoint {bad[0].checkpoint} was quarantined: {bad[0].reason}",
            Actor.MACHINE, "look at the disk and at who writes there" + (f"; {rest}" if rest else ""),
            _quarantined(view),
        )  # fmt: skip
    if stage.reason not in ("", "NothingCommitted") or any(row.run == view.run for row in view.checkpoints):
        return _by_own_words(view, stage)
    return _diagnosis(
        stage, "NothingCommitted", "the program ended without a checkpoint that could be committed",
        Actor.PROGRAM, "write step-<n>/ and then step-<n>/READY below $ARGOSY_CHECKPOINTS, or say `checkpoint: none`",
        attempts_evidence(view),
    )  # fmt: skip


def _quarantined(view: RunView) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(object=f"checkpoint {row.checkpoint}", field=row.status, value=row.reason or row.level or "")
        for row in view.checkpoints[:6]
        if row.status in ("quarantined", "verified")
    )


def _by_own_words(view: RunView, stage: StageView) -> Diagnosis:
    code = stage.exit_code
    ending = _ENDINGS.get(code) if code is not None else _Ending(
        "Lost", "was lost without an exit code", Actor.MACHINE, "see whether something killed it"
    )  # fmt: skip
    if ending is None:
        return _by_last_lines(view, stage)
    repeats = (
        f"then {resume_command(view)}" if code != ExitCode.BUG else f"see {logs_command(view, '--stage', stage.task)}"
    )
    if not stage.reason:
        cause = f"{stage.task} {ending.cause}" + (f" ({_sentence(stage)})" if stage.message else "")
        return _diagnosis(stage, ending.reason, cause, ending.actor, f"{ending.action}, {repeats}")
    action = stage.fix or ending.action
    if code == ExitCode.BAD_INPUT:
        return _diagnosis(stage, stage.reason, _sentence(stage), ending.actor, action)
    return _diagnosis(stage, stage.reason, f"{stage.task}: {_sentence(stage)}", ending.actor, f"{action}, {repeats}")


def _by_last_lines(view: RunView, stage: StageView) -> Diagnosis:
    """A stage that ended with a code that is not ours, so before or after our own code ran."""
    found, ending = explain_lines(stage.last_lines), f"{stage.task} ended with exit code {stage.exit_code}"
    action = f"see {logs_command(view, '--stage', stage.task)}, then {resume_command(view)}"
    if found is not None:
        # Ours to start, so it is the machine's installation, not somebody's training program.
        action = f"`doctor` looks for what is missing; {action}"
        return _diagnosis(stage, found.reason, f"{ending}: {found.cause}", Actor.MACHINE, action)
    says = last_exception(stage.last_lines) or (stage.last_lines[-1] if stage.last_lines else "")
    cause = f"{ending}: {says.rstrip('. ;')}" if says else ending
    return _diagnosis(stage, "StageFailed", cause, Actor.ARGOSY, action)


def _sentence(stage: StageView) -> str:
    """What the stage saw: its message without the reason in front, the fix behind and the list below."""
    text = stage.message.partition("\n")[0]
    if stage.reason:
        text = text.removeprefix(f"{stage.reason}: ")
    if stage.fix:
        text = text.removesuffix(f"; {stage.fix}")
    return text.rstrip(". ")


def _section(stage: StageView) -> str:
    """The section of the run description that governs a task."""
    return "shard" if stage.task.startswith("shard-") else stage.task


def _diagnosis(
    stage: StageView, reason: str, cause: str, actor: Actor, action: str,
    evidence: tuple[Evidence, ...] = (),
) -> Diagnosis:  # fmt: skip
    name = f"stage {stage.task}"
    facts = [
        Evidence(object=name, field="exit code", value="none" if stage.exit_code is None else str(stage.exit_code))
    ]
    if stage.attempts > 1:
        facts.append(Evidence(object=name, field="attempts", value=str(stage.attempts)))
    if stage.engine_message and stage.engine_message != stage.message:
        facts.append(Evidence(object=name, field="engine says", value=stage.engine_message))
    lines = stage.message.splitlines()
    if lines:
        facts.append(Evidence(object=name, field="message", value=lines[0]))
    facts += [Evidence(object=name, field="fault", value=line.strip()) for line in lines[1 : _MAX_FAULTS + 1]]
    facts += [Evidence(object=name, field="last lines", value=line) for line in stage.last_lines]
    return Diagnosis(
        reason=reason, cause=cause, since=stage.ended_at, actor=actor, action=action, evidence=(*facts, *evidence)
    )
