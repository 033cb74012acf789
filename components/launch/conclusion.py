"""What a successful gang leaves for the stages that follow: the checkpoint, the steps, the restarts, in output form."""

from collections.abc import Mapping

from components.errors import VerificationFailed
from components.launch.history import History
from components.ledger.ledger import CheckpointEntry, LedgerState

NOTHING_LEFT = "nothing left to do"


def outputs_of(
    history: History, ledger: LedgerState, *, run: str, has_checkpoints: bool, restarts_used: int
) -> Mapping[str, str]:
    """The launch stage's output parameters. Raises VerificationFailed when checkpoints were wanted and none exists."""
    attempts = [attempt for state in history.states for attempt in state.attempts]
    resume_step = attempts[0].resumed_step if attempts else 0
    last_step = max((attempt.last_step or attempt.resumed_step for attempt in attempts), default=0)
    outcome = "succeeded"
    checkpoint = ""
    step = last_step
    if has_checkpoints:
        newest = result_of(ledger, run)
        if newest is None:
            raise VerificationFailed(
                "NothingCommitted", f"the program succeeded at step {last_step} without a checkpoint being committed",
                "write step-<n>/ and then step-<n>/READY below $ARGOSY_CHECKPOINTS, or say `checkpoint: none`",
            )  # fmt: skip
        checkpoint, step = newest.checkpoint, newest.step
        has_stepped = any(attempt.first_step is not None for attempt in attempts)
        if newest.run != run and not has_stepped:
            outcome = f"{NOTHING_LEFT}: the program ended at once at step {step}"
    return {
        "checkpoint": checkpoint,
        "step": str(step),
        "resume_step": str(resume_step),
        "restarts": str(restarts_used),
        "outcome": outcome,
    }


def result_of(ledger: LedgerState, run: str) -> CheckpointEntry | None:
    """The newest usable checkpoint of the term that ended, else what that term resumed from.

    An older term that was left behind may have come to a higher step: what it committed is not what this program
    trained. Without either: the newest of this run, or of earlier runs of this experiment.
    """
    usable = ledger.newest_first("verified", "committed")
    groups = [[entry for entry in usable if entry.run == run], usable]
    for last in ledger.begins_of(run)[-1:]:
        groups = [
            [entry for entry in usable if entry.term == last.term],
            [entry for entry in usable if entry.checkpoint == last.source],
            *groups,
        ]
    return next((group[0] for group in groups if group), None)
