"""Decides about every checkpoint: kept, or retired, and why. A function of the ledger's state and the policy.

A verified checkpoint goes only when more than `keep_last` verified ones exist and no rule keeps it. One that is
committed but not yet verified goes only when it is older than all of the newest verified ones. A quarantined one never
counts, and goes once a newer one of its kind, or `keep_last` newer verified ones, exist.
"""

from collections.abc import Sequence
from datetime import datetime

from components.contracts.retention import Decision, RetentionPlan, RetentionPolicy
from components.ledger.state import CheckpointEntry, LedgerState
from components.retain.policies import (
    keep_best,
    keep_every_steps,
    keep_for,
    keep_last,
    keep_pinned,
    keep_resume_sources,
)


def plan_retention(state: LedgerState, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    """A decision for every checkpoint ever committed, newest first; retired ones with the reason given then.

    `now` matters to `keep_for` alone.
    """
    entries = state.newest_first()
    kept = _kept(state, policy, entries, now)
    decisions = []
    for entry in entries:
        reason = kept.get(entry.checkpoint)
        if reason is not None:
            decided = Decision(checkpoint=entry.checkpoint, step=entry.step, action="keep", reason=reason)
        else:
            reason = entry.reason if entry.status == "retired" else _reason_to_go(entry, policy)
            decided = Decision(checkpoint=entry.checkpoint, step=entry.step, action="delete", reason=reason)
        decisions.append(decided)
    return RetentionPlan(decisions=tuple(decisions))


def to_retire(state: LedgerState, plan: RetentionPlan) -> list[Decision]:
    """The decisions of `plan` that are not yet in the ledger."""
    return [
        item
        for item in plan.decisions
        if item.action == "delete" and state.checkpoints[item.checkpoint].status != "retired"
    ]


def counted_on(state: LedgerState, policy: RetentionPolicy) -> list[CheckpointEntry]:
    """The kept ones that make it safe to let others go: the newest verified, of all and of the running branch, and what
    a running term resumed from. No more than 2 * keep_last and its sources, however many other rules keep.
    """
    verified = state.newest_first("verified")
    newest, branch = verified[: policy.keep_last], _of_running_branch(state, verified)[: policy.keep_last]
    sources = [state.checkpoints[checkpoint] for checkpoint in keep_resume_sources(state)]
    return list({entry.checkpoint: entry for entry in (*newest, *branch, *sources)}.values())


def _kept(
    state: LedgerState, policy: RetentionPolicy, entries: Sequence[CheckpointEntry], now: datetime
) -> dict[str, str]:
    """Reason by checkpoint id; of several rules the first named here gives the reason."""
    verified = [entry for entry in entries if entry.status == "verified"]
    newest = verified[: policy.keep_last]
    branch = _of_running_branch(state, verified)[: policy.keep_last]
    return {
        **_committed_and_needed(state, entries, newest, branch, may_go=len(verified) > policy.keep_last),
        **_quarantined_for_inspection(entries, newest, may_go=len(newest) == policy.keep_last),
        **{item.checkpoint: "keep_last: among the newest verified of the running branch" for item in branch},
        **keep_resume_sources(state),
        **keep_pinned([entry for entry in entries if entry.status != "retired"]),
        **keep_for(verified, policy.keep_for, now),
        **keep_best(verified, policy.keep_best),
        **keep_every_steps(verified, policy.keep_every_steps),
        **keep_last(verified, policy.keep_last),
    }


def _of_running_branch(state: LedgerState, entries: Sequence[CheckpointEntry]) -> list[CheckpointEntry]:
    """Those of the run that began last. After a deliberate return to an older step they are not the highest steps,
    yet they are what a restart of that run resumes from.
    """
    run = state.begins[-1].run if state.begins else None
    return [entry for entry in entries if entry.run == run]


def _committed_and_needed(
    state: LedgerState, entries: Sequence[CheckpointEntry], newest: Sequence[CheckpointEntry],
    branch: Sequence[CheckpointEntry], *, may_go: bool,
) -> dict[str, str]:  # fmt: skip
    lowest = min((entry.step for entry in newest), default=0)
    branch_lowest = min((entry.step for entry in branch), default=0)
    committed = [entry for entry in entries if entry.status == "committed"]
    of_branch = {entry.checkpoint for entry in _of_running_branch(state, committed)}
    return {
        entry.checkpoint: "committed, not yet verified"
        for entry in committed
        if not may_go
        or entry.step >= lowest
        or (entry.checkpoint in of_branch and entry.step >= branch_lowest)
    }  # fmt: skip


def _quarantined_for_inspection(
    entries: Sequence[CheckpointEntry], newest: Sequence[CheckpointEntry], *, may_go: bool
) -> dict[str, str]:
    lowest = min((entry.step for entry in newest), default=0)
    for entry in entries:
        if entry.status == "quarantined":
            needed = not may_go or entry.step >= lowest
            return {entry.checkpoint: f"newest quarantined, for inspection: {entry.reason}"} if needed else {}
    return {}


def _reason_to_go(entry: CheckpointEntry, policy: RetentionPolicy) -> str:
    if entry.status == "quarantined":
        return f"quarantined: {entry.reason}"
    if entry.status == "committed":
        return f"never verified, and older than the newest {policy.keep_last} verified"
    return f"verified, but older than the newest {policy.keep_last} verified and kept by no rule"
