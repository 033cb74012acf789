"""Join the tasks' receipts into the manifest, and refuse anything but exactly one receipt a task, each shard once."""

import posixpath
from collections.abc import Sequence
from functools import reduce
from operator import add

from components.contracts.dataset import PackingCounts, Shard, ShardManifest, ShardPlan, ShardReceipt
from components.contracts.layout import plan_folder, receipt_key, shard_manifest_key
from components.dataset.merkle import data_version
from components.errors import BadInput, Problem
from components.runtime.log import Log
from components.shard.plan_file import check_budget, read_plan
from components.storage.base import AlreadyExists, ObjectStore


def merge_receipts(store: ObjectStore, *, plan_id: str, num_tasks: int, log: Log) -> ShardManifest:
    """Check the receipts against the plan, write `versions/<data_version>/manifest.json`, return it.

    The same data version may exist, made by another plan: its manifest stays, and lost shards of it are restored.
    Raises BadInput with every missing, foreign or contradicting receipt.
    """
    plan = read_plan(store, plan_id)
    receipts, problems = _receipts(store, plan_id, num_tasks)
    problems += _contradictions(store, plan, plan_id, receipts)
    if problems:
        raise BadInput(
            "ReceiptsRefused", f"the receipts of plan {plan_id} do not add up to its {len(plan.shards)} shards",
            "run the tasks named here again", problems=problems,
        )  # fmt: skip
    bad_records = plan.bad_records + tuple(record for receipt in receipts for record in receipt.bad_records)
    check_budget(store, plan, plan_id, bad_records, plan.max_bad_records)
    shards = sorted((shard for receipt in receipts for shard in receipt.shards), key=lambda shard: shard.index)
    version = data_version(plan.options, shards)
    manifest = ShardManifest(
        data_version=version, plan_id=plan_id, options=plan.options, bad_records=bad_records,
        shards=tuple(_seen_from(shard_manifest_key(version), plan_id, shard) for shard in shards),
        counts=reduce(add, (receipt.counts for receipt in receipts), PackingCounts()),
    )  # fmt: skip
    manifest = _publish(store, manifest, log)
    log.info(
        f"data version {version}: {manifest.num_sequences} sequences, {manifest.num_tokens} tokens in "
        f"{len(manifest.shards)} shards, {len(bad_records)} bad records",
        **manifest.counts.as_json(),
    )
    return manifest


def _receipts(store: ObjectStore, plan_id: str, num_tasks: int) -> tuple[list[ShardReceipt], list[Problem]]:
    expected = {receipt_key(plan_id, task_index=index, num_tasks=num_tasks): index for index in range(num_tasks)}
    folder = next(iter(expected)).rpartition("/")[0]
    present = {info.key for info in store.list(folder)}
    problems = [
        Problem(store.uri_of(key), "is not a receipt of this plan's tasks", "delete it")
        for key in sorted(present - set(expected))
    ]
    receipts = []
    for key, index in expected.items():
        if key not in present:
            problems.append(Problem(f"task {index}", f"left no receipt at {store.uri_of(key)}"))
            continue
        receipt = ShardReceipt.from_bytes(store.read(key), where=store.uri_of(key))
        if (receipt.plan_id, receipt.task_index, receipt.num_tasks) != (plan_id, index, num_tasks):
            whose = f"task {receipt.task_index} of {receipt.num_tasks}, plan {receipt.plan_id}"
            problems.append(Problem(store.uri_of(key), f"is the receipt of {whose}", "delete it"))
        receipts.append(receipt)
    return receipts, problems


def _contradictions(
    store: ObjectStore, plan: ShardPlan, plan_id: str, receipts: Sequence[ShardReceipt]
) -> list[Problem]:
    problems, owners = list[Problem](), dict[int, int]()
    for receipt in receipts:
        where = f"receipt of task {receipt.task_index}"
        for shard in receipt.shards:
            if shard.index in owners:
                problems.append(Problem(where, f"names shard {shard.index}, as task {owners[shard.index]} does"))
            elif shard.index >= len(plan.shards) or shard.index % receipt.num_tasks != receipt.task_index:
                problems.append(Problem(where, f"names shard {shard.index}, which is not that task's"))
            owners[shard.index] = receipt.task_index
            problems += _file_faults(store, plan_id, shard)
    missing = [index for index in range(len(plan.shards)) if index not in owners]
    if missing and not problems:
        problems.append(Problem("receipts", f"name no shard {', '.join(map(str, missing[:20]))}"))
    read = sum(receipt.counts.num_inputs + len(receipt.bad_records) for receipt in receipts)
    if not problems and read < len(plan.inputs):
        problems.append(Problem("receipts", f"account for {read} of {len(plan.inputs)} inputs"))
    return problems


def _file_faults(store: ObjectStore, plan_id: str, shard: Shard) -> list[Problem]:
    faults = []
    for file in shard.files:
        key = f"{plan_folder(plan_id)}/{file.path}"
        found = store.find(key)
        if found is None or found.size_bytes != file.size_bytes:
            seen = "is missing" if found is None else f"has {found.size_bytes} bytes instead of {file.size_bytes}"
            faults.append(Problem(store.uri_of(key), seen))
    return faults


def _seen_from(manifest_key: str, plan_id: str, shard: Shard) -> Shard:
    """The shard with paths relative to the manifest's folder instead of the plan's."""
    start = posixpath.dirname(manifest_key)
    files = tuple(
        file.model_copy(update={"path": posixpath.relpath(f"{plan_folder(plan_id)}/{file.path}", start)})
        for file in shard.files
    )
    return shard.model_copy(update={"files": files})


def _publish(store: ObjectStore, manifest: ShardManifest, log: Log) -> ShardManifest:
    key = shard_manifest_key(manifest.data_version)
    try:
        store.create(key, manifest.to_bytes())
        return manifest
    except AlreadyExists:
        existing = ShardManifest.from_bytes(store.read(key), where=store.uri_of(key))
    folder = posixpath.dirname(key)
    for old, new in zip(existing.shards, manifest.shards, strict=True):
        for lost, ours in zip(old.files, new.files, strict=True):
            lost_key = posixpath.normpath(f"{folder}/{lost.path}")
            if store.find(lost_key) is None:
                store.create(lost_key, store.read(posixpath.normpath(f"{folder}/{ours.path}")))
                log.warning(f"restored {store.uri_of(lost_key)}, which was missing")
    return existing
