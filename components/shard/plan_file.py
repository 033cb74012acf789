"""The stored plan, as its tasks and the merge read it, and the budget of bad records it sets."""

from collections.abc import Sequence

from components.contracts.dataset import BadRecord, ShardPlan, plan_id_of
from components.contracts.layout import plan_folder, plan_key
from components.errors import BadInput, Problem
from components.storage.base import ObjectNotFound, ObjectStore

NAMED = 20
"""How many faults of one kind are named before the rest is counted."""


def read_plan(store: ObjectStore, plan_id: str) -> ShardPlan:
    """The plan of that id, complete and unchanged. Raises BadInput when it is missing or is not that plan."""
    if not plan_id:
        raise BadInput("MissingInput", "no plan_id was given", "pass --input plan_id=<output of shard plan>")
    key = plan_key(plan_id)
    try:
        data = store.read(key)
    except ObjectNotFound as error:
        raise BadInput("PlanMissing", f"{store.uri_of(key)} does not exist", "run shard plan first") from error
    if plan_id_of(data) != plan_id:
        raise BadInput(
            "PlanDamaged", f"{store.uri_of(key)} is not plan {plan_id}", "delete it and run shard plan again"
        )
    return ShardPlan.from_bytes(data, where=store.uri_of(key))


def check_budget(
    store: ObjectStore, plan: ShardPlan, plan_id: str, bad_records: Sequence[BadRecord], budget: int
) -> None:
    """Raise BadInput when more inputs failed to be read than may be left out. Nothing is published then."""
    if len(bad_records) <= budget:
        return
    problems = [Problem(record.path, f"cannot be read: {record.reason}") for record in bad_records[:NAMED]]
    raise BadInput(
        "TooManyBadRecords",
        f"more inputs of corpus {plan.root} cannot be read than bad_records.max = {plan.max_bad_records} allows",
        f"raise bad_records.max, or make them readable, delete {store.uri_of(plan_folder(plan_id))} and run again",
        problems=problems,
    )
