"""The stored plan: a head with its digests, and parts with one line a shard, so that nobody need hold all of it."""

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence

from components.contracts.dataset import BadRecord, PlanWitness, ShardPart, ShardPlan, plan_id_of
from components.contracts.layout import plan_key, plan_part_key, plan_witness_key
from components.dataset.inputs import Entry, read_line
from components.dataset.witness import NewestChange, place
from components.errors import BadInput, Problem
from components.storage.base import AlreadyExists, ObjectNotFound, ObjectStore

NAMED = 20
"""How many faults of one kind are named before the rest is counted."""
PART_BYTES = 1 << 20
_PLAN_ID = re.compile("p-[0-9a-f]{16}")


class PlanParts:
    """Lines on their way into the parts of a plan, kept on local disk until the plan is known to be good."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="argosy-plan-")  # noqa: SIM115 - closed by __exit__
        self._digest, self._size, self._num_shards = hashlib.sha256(), 0, 0
        self._parts = list[ShardPart]()

    def add(self, line: bytes) -> None:
        """One shard more."""
        self._file.write(line)
        self._digest.update(line)
        self._size += len(line)
        self._num_shards += 1
        if self._size >= PART_BYTES:
            self._end_part()

    def finish(self) -> tuple[ShardPart, ...]:
        """What the head of the plan says about its parts."""
        self._end_part()
        return tuple(self._parts)

    def publish(self, store: ObjectStore, plan_id: str) -> None:
        """Store the parts. The same ones may be there already: the plan's id names their digests."""
        self._file.seek(0)
        for number, part in enumerate(self._parts):
            create(store, plan_part_key(plan_id, part=number), self._file.read(part.size_bytes))

    def __enter__(self) -> "PlanParts":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def _end_part(self) -> None:
        if self._num_shards:
            self._parts.append(
                ShardPart(sha256=self._digest.hexdigest(), size_bytes=self._size, num_shards=self._num_shards)
            )
            self._digest, self._size, self._num_shards = hashlib.sha256(), 0, 0


def publish_plan(store: ObjectStore, plan: ShardPlan, parts: PlanParts) -> tuple[str, bool]:
    """Store parts and head, the head last. Returns the plan's id, and whether the same plan was there before."""
    data = plan.to_bytes()
    plan_id = plan_id_of(data)
    parts.publish(store, plan_id)
    return plan_id, create(store, plan_key(plan_id), data)


def leave_witness(store: ObjectStore, plan_id: str, newest: NewestChange) -> None:
    """Keep what tasks in this place can check of plain files, as it is now: the same plan may have been made before."""
    if newest.holds and (here := place()):
        witness = PlanWitness(newest_change=newest.at)
        store.replace(plan_witness_key(plan_id, place=here), witness.to_bytes())


def newest_change(store: ObjectStore, plan_id: str) -> int | None:
    """What was kept in this place; None where the plan was made in another."""
    key = plan_witness_key(plan_id, place=place() or "none")
    if store.find(key) is None:
        return None
    return PlanWitness.from_bytes(store.read(key), where=store.uri_of(key)).newest_change


def read_plan(store: ObjectStore, plan_id: str) -> ShardPlan:
    """The head of the plan of that id, unchanged. Raises BadInput when it is missing or is not that plan."""
    if not plan_id:
        raise BadInput("MissingInput", "no plan_id was given", "pass --input plan_id=<output of shard plan>")
    if not _PLAN_ID.fullmatch(plan_id):
        raise BadInput("PlanMissing", f"{plan_id!r} is no plan's id", "pass what shard plan printed: p- and 16 digits")
    key = plan_key(plan_id)
    data = _read(store, key)
    if plan_id_of(data) != plan_id:
        raise _damaged(store, key, plan_id)
    return ShardPlan.from_bytes(data, where=store.uri_of(key))


def read_entries(
    store: ObjectStore, plan: ShardPlan, plan_id: str, *, start: int = 0, step: int = 1
) -> Iterator[tuple[int, Entry]]:
    """Index and entry of every `step`-th shard from `start`. Raises BadInput for a part that is missing or damaged."""
    wanted, first = start, 0
    for number, part in enumerate(plan.parts):
        if wanted < first + part.num_shards:
            key = plan_part_key(plan_id, part=number)
            data = _read(store, key)
            if hashlib.sha256(data).hexdigest() != part.sha256:
                raise _damaged(store, key, plan_id)
            lines = data.splitlines()
            del data
            while wanted < first + part.num_shards:
                yield wanted, read_line(lines[wanted - first])
                wanted += step
        first += part.num_shards


def check_budget(
    store: ObjectStore, plan: ShardPlan, plan_id: str, bad_records: Sequence[BadRecord], num_bad: int, budget: int
) -> None:
    """Raise BadInput when more records are bad than may be left out. Nothing is published then."""
    if num_bad <= budget:
        return
    problems = [_problem(record) for record in bad_records[:NAMED]]
    if num_bad > len(problems):
        problems.append(Problem("…", f"and {num_bad - len(problems)} more"))
    raise BadInput(
        "TooManyBadRecords",
        f"more records of corpus {plan.root} are bad than bad_records.max = {plan.max_bad_records} allows",
        "raise bad_records.max, or mend them, and run again",
        problems=problems,
    )


def _problem(record: BadRecord) -> Problem:
    where = record.path if record.offset is None else f"{record.path} at {record.offset}"
    return Problem(where, f"cannot be used: {record.reason}")


def create(store: ObjectStore, key: str, data: bytes) -> bool:
    """Store what its key names by its digest; returns whether it was there before."""
    try:
        store.create(key, data)
    except AlreadyExists:
        return True
    return False


def _read(store: ObjectStore, key: str) -> bytes:
    try:
        return store.read(key)
    except ObjectNotFound as error:
        raise BadInput("PlanMissing", f"{store.uri_of(key)} does not exist", "run shard plan first") from error


def _damaged(store: ObjectStore, key: str, plan_id: str) -> BadInput:
    seen = f"{store.uri_of(key)} is not what plan {plan_id} says"
    return BadInput("PlanDamaged", seen, "delete its folder and run shard plan again")
