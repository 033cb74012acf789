"""A corpus, a Spec and the three parts of the stage, called as `__main__` does."""

from pathlib import Path
from typing import Any

from components.contracts.dataset import PackingOptions, ShardManifest
from components.dataset.inputs import Entry
from components.runtime.log import Log
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.plan_file import read_entries, read_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.storage.base import ObjectStore
from components.storage.local import LocalStore

LOG = Log({})


def a_corpus(folder: Path, *, num_files: int = 12) -> Path:
    """Files `00` … of 0, 37, 74, … bytes that count upwards."""
    folder.mkdir(parents=True)
    for place in range(num_files):
        (folder / f"{place:02d}").write_bytes(bytes(byte % 256 for byte in range(37 * place)))
    return folder


def a_spec(corpus: object, **changed: Any) -> ShardSpec:
    options: dict[str, Any] = {"sequence_length": 16, "over_long": "split"}
    options |= {key: changed.pop(key) for key in list(changed) if key in PackingOptions.model_fields}
    chosen: dict[str, Any] = {"max_bad_records": 0, "num_tasks": 2, "target_shard_bytes": 500} | changed
    return ShardSpec(corpus=str(corpus), options=PackingOptions(**options), **chosen)


def plan(store: LocalStore, spec: ShardSpec) -> str:
    return make_plan(store, spec, workdir="", log=LOG)[0]


def entries(store: ObjectStore, plan_id: str) -> list[Entry]:
    """What the plan makes of its shards, in order."""
    return [entry for _, entry in read_entries(store, read_plan(store, plan_id), plan_id)]


def shard_file(store: LocalStore, plan_id: str, index: int, suffix: str) -> Path:
    """Where a file of a planned shard lies."""
    return store.root / "data" / "shards" / f"{entries(store, plan_id)[index].id}.{suffix}"


def shard(store: LocalStore, spec: ShardSpec) -> ShardManifest:
    """Plan, all tasks, merge."""
    plan_id = plan(store, spec)
    for index in range(spec.num_tasks):
        run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=spec.num_tasks, log=LOG)
    return merge_receipts(store, plan_id=plan_id, num_tasks=spec.num_tasks, log=LOG)
