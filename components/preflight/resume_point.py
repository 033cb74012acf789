"""Is there something to resume from, and is nobody else training this experiment?

By the ledger alone, without reading a checkpoint's bytes: those are proven when a START chooses its source.
"""

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.names import parse_checkpoint_id
from components.ledger.ledger import is_gone
from components.ledger.log import Ledger
from components.ledger.state import CheckpointEntry, LedgerState
from components.preflight.spec import PreflightSpec

_SHOWN = 5


def resume_question(spec: PreflightSpec) -> Question:
    """Asks for what `resume.from` names."""
    return Question(
        name="resume_point", scope="input", subject=f"{spec.experiment}/{spec.model_version}",
        expected={"latest": "any", "fresh": "no checkpoints"}.get(spec.resume.source, f"{spec.resume.source} exists"),
        origin="resume.from", remedy="use latest, or name a checkpoint that `checkpoints list` shows as usable",
    )  # fmt: skip


def resume_point(question: Question, ledger: Ledger, *, source: str, run: str) -> CheckResult:
    """Looks `source` up among the usable checkpoints. A run that has begun goes on from its own, whatever it says."""
    state = ledger.state()
    begun = state.begins_of(run)
    if begun:
        return question.ok(f"this run has begun {len(begun)} times already and goes on from its own checkpoints")
    if source == "latest":
        return _latest(question, state)
    if source == "fresh":
        if state.checkpoints:
            fix = "choose a new model_version to start fresh beside them, or resume.from: latest to go on"
            return question.fail(f"{len(state.checkpoints)} checkpoints", fix)
        return question.ok("no checkpoints")
    if source.endswith("@latest"):
        other = source.removesuffix("@latest")
        if other == ledger.experiment:
            return question.fail("that is this experiment itself", "use resume.from: latest")
        return _latest_of_other(question, ledger, other)
    return _explicit(question, state, source)


def claim_question(spec: PreflightSpec) -> Question:
    """Asks whether the experiment is free. Soft: the launch stage decides, when it comes to that."""
    return Question(
        name="experiment_free", scope="environment", hard=False, subject=f"{spec.experiment}/{spec.model_version}",
        expected="no other run", origin="one running run per experiment and model_version",
        remedy="wait for it, stop it, or choose another experiment or model_version",
    )  # fmt: skip


def nobody_else_runs(question: Question, ledger: Ledger, *, run: str) -> CheckResult:
    held = ledger.state().claim
    if held is None or held.run == run:
        return question.ok("no other run")
    if is_gone(held.owner):
        return question.ok(f"run {held.run} did not say goodbye, but its process is gone")
    return question.fail(f"run {held.run} ({held.owner}) has been running since {held.since}")


def _latest(question: Question, state: LedgerState) -> CheckResult:
    usable = _usable(state)
    if usable:
        return question.ok(f"{usable[0].checkpoint}, {usable[0].status}")
    if not state.checkpoints:
        return question.ok("nothing was ever committed: a fresh start")
    return question.fail(
        f"{len(state.checkpoints)} checkpoints, all of them quarantined or retired",
        "restore one, or choose a new model_version to start fresh",
    )


def _latest_of_other(question: Question, ledger: Ledger, experiment: str) -> CheckResult:
    usable = _usable(Ledger(ledger.store, experiment, ledger.model_version).state())
    if not usable:
        fix = "name another experiment with the same model_version"
        return question.fail(f"{experiment}/{ledger.model_version} has no usable checkpoint", fix)
    return question.ok(f"{usable[0].checkpoint} of {experiment}, {usable[0].status}")


def _explicit(question: Question, state: LedgerState, source: str) -> CheckResult:
    if source.startswith("step:"):
        found = [entry for entry in state.newest_first() if f"step:{entry.step}" == source]
    elif parse_checkpoint_id(source) is not None:
        found = [entry for entry in state.newest_first() if entry.checkpoint == source]
    else:
        fix = "use latest, fresh, step:<n>, a checkpoint id or <experiment>@latest"
        return question.fail(f"{source!r} names no checkpoint", fix)
    usable = [entry for entry in found if entry.is_usable]
    if usable:
        return question.ok(f"{usable[0].checkpoint}, {usable[0].status}")
    others = ", ".join(entry.checkpoint for entry in _usable(state)[:_SHOWN]) or "none"
    if found:
        because = f": {found[0].reason}" if found[0].reason else ""
        return question.fail(f"{found[0].checkpoint} is {found[0].status}{because}; usable: {others}")
    return question.fail(f"no such checkpoint; usable: {others}")


def _usable(state: LedgerState) -> list[CheckpointEntry]:
    return state.newest_first("verified", "committed")
