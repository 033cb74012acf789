"""The rules that keep a checkpoint. Each is a function of values: which ids it keeps, and the reason it gives.

Only verified checkpoints are counted: a policy that counts what was merely written deletes the last good one after a
few poisoned saves.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from components.contracts.clock import parse_utc
from components.contracts.retention import KeepBest
from components.contracts.units import format_duration
from components.ledger.state import CheckpointEntry, LedgerState


def keep_last(verified: Sequence[CheckpointEntry], count: int) -> Mapping[str, str]:
    """The `count` newest; `verified` is newest first."""
    return {
        entry.checkpoint: f"keep_last: number {number} of the newest {count} verified"
        for number, entry in enumerate(verified[:count], start=1)
    }


def keep_every_steps(verified: Sequence[CheckpointEntry], num_steps: int | None) -> Mapping[str, str]:
    """Those at a multiple of `num_steps`."""
    if num_steps is None:
        return {}
    return {
        entry.checkpoint: f"keep_every_steps: step {entry.step} is a multiple of {num_steps}"
        for entry in verified
        if entry.step % num_steps == 0
    }


def keep_best(verified: Sequence[CheckpointEntry], rule: KeepBest | None) -> Mapping[str, str]:
    """The `rule.count` best by a metric they carry; of equals the newer one is better."""
    if rule is None:
        return {}
    carrying = [entry for entry in verified if rule.metric in entry.metrics]
    sign = 1 if rule.mode == "min" else -1
    best = sorted(carrying, key=lambda entry: sign * entry.metrics[rule.metric])[: rule.count]  # sort keeps the order
    return {
        entry.checkpoint: f"keep_best: {rule.metric} {entry.metrics[rule.metric]:.6g} is among the {rule.count} best"
        for entry in best
    }


def keep_for(verified: Sequence[CheckpointEntry], seconds: float | None, now: datetime) -> Mapping[str, str]:
    """Those whose COMMIT was recorded less than `seconds` ago. A recorded time in the future, or none that can be read,
    keeps as well: a wrong clock may keep too much, and never reaches below the other rules.
    """
    if seconds is None:
        return {}
    kept = {}
    for entry in verified:
        age = _age_seconds(entry, now)
        if age is None:
            kept[entry.checkpoint] = f"keep_for: its recorded time {entry.committed_at!r} cannot be read"
        elif age < seconds:
            kept[entry.checkpoint] = f"keep_for: committed {entry.committed_at}, kept for {format_duration(seconds)}"
    return kept


def _age_seconds(entry: CheckpointEntry, now: datetime) -> float | None:
    try:
        recorded = parse_utc(entry.committed_at)
    except ValueError:
        return None
    return (now - (recorded if recorded.tzinfo else recorded.replace(tzinfo=UTC))).total_seconds()


def keep_pinned(entries: Sequence[CheckpointEntry]) -> Mapping[str, str]:
    """Whatever somebody pinned, in whatever state it is."""
    return {entry.checkpoint: f"pinned by {', '.join(sorted(entry.pins))}" for entry in entries if entry.pinned}


def keep_resume_sources(state: LedgerState) -> Mapping[str, str]:
    """What the newest term resumed from until that term has a verified checkpoint of its own, and what its run's
    earlier terms resumed from until the run has one: a restart may need them again.
    """
    if not state.begins:
        return {}
    current = state.begins[-1]
    verified = [entry for entry in state.checkpoints.values() if entry.status == "verified"]
    sources = {}
    if not any(entry.run == current.run for entry in verified):
        for begin in state.begins_of(current.run):
            sources[begin.source] = f"in use: run {current.run} resumed from it and has no verified one of its own"
    if not any(entry.term == current.term for entry in verified):
        sources[current.source] = f"in use: term {current.term} resumed from it and has no verified one of its own"
    return {
        checkpoint: reason
        for checkpoint, reason in sources.items()
        if checkpoint is not None and checkpoint in state.checkpoints and state.checkpoints[checkpoint].is_usable
    }
