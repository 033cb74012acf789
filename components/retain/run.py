"""Applies the retention policy and leaves the plan, with a reason for every keep and every delete."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from components.contracts.layout import retention_plan_key
from components.contracts.names import DURING_TRAINING
from components.ledger.ledger import Ledger
from components.retain.apply import apply_retention
from components.retain.objects import needs_sweep
from components.retain.spec import RetainSpec
from components.runtime.stage import StageContext
from components.storage.base import open_store

_NUM_NAMED = 100
"""An output parameter is part of the Workflow object, which has little room; the plan itself names all."""


def run(context: StageContext, spec: RetainSpec) -> Mapping[str, str]:
    """Outputs kept (all that is there now) and deleted (by this run), comma-separated ids, newest first."""
    if spec.policy is None:
        context.log.info("checkpoint: none, so there is nothing to retire")
        return {"kept": "", "deleted": ""}
    store = open_store(context.storage)
    ledger = Ledger(store, spec.experiment, spec.model_version)
    sweeps = not context.task.startswith(f"{DURING_TRAINING}-") or needs_sweep(ledger.state())
    plan = apply_retention(ledger, spec.policy, run=context.run, log=context.log, now=datetime.now(UTC), sweeps=sweeps)
    for item in plan.decisions:
        if item.action == "keep":
            context.log.info(f"keep {item.checkpoint}: {item.reason}", checkpoint=item.checkpoint)
    store.replace(retention_plan_key(context.run), plan.to_bytes())
    checkpoints = ledger.state().checkpoints
    ours = [checkpoint for checkpoint in plan.deleted if checkpoints[checkpoint].retired_by == context.run]
    return {"kept": _named(plan.kept), "deleted": _named(ours)}


def _named(checkpoints: Sequence[str]) -> str:
    more = len(checkpoints) - _NUM_NAMED
    return ",".join(checkpoints[:_NUM_NAMED]) + (f",and {more} more" if more > 0 else "")
