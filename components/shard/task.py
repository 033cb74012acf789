"""Pack every `num_tasks`-th shard of the plan, each published as soon as it is done; the receipt comes last.

A shard's own record `shard-<n>.json` is written after its two files, so a repeated task redoes at most the shard it
was at. Shards already there are re-hashed, never trusted.
"""

import hashlib
import time
from collections.abc import Sequence
from functools import reduce
from operator import add

from components.contracts.dataset import (
    PackedShard,
    PackingCounts,
    Shard,
    ShardPlan,
    ShardReceipt,
    StoredFile,
)
from components.contracts.layout import plan_folder, receipt_key, shard_key
from components.dataset.corpus import root_folder
from components.dataset.planning import extracts
from components.errors import BadInput
from components.runtime.log import Log
from components.shard.plan_file import NAMED, check_budget, read_plan
from components.shard.publish import publish, stored_sha256
from components.storage.base import ObjectStore


def run_task(store: ObjectStore, *, plan_id: str, task_index: str, num_tasks: int, log: Log) -> ShardReceipt:
    """Pack shards `task_index`, `task_index + num_tasks`, … and leave the receipt. Surplus tasks leave an empty one."""
    if not task_index.isdecimal() or int(task_index) >= num_tasks:
        raise BadInput("BadTaskIndex", f"task_index is {task_index!r}", f"pass --input task_index=0 … {num_tasks - 1}")
    index, plan = int(task_index), read_plan(store, plan_id)
    budget = plan.max_bad_records - len(plan.bad_records)
    done, started = list[PackedShard](), time.monotonic()
    for shard_index in range(index, len(plan.shards), num_tasks):
        packed = _finished(store, plan_id, shard_index)
        if packed is None:
            packed = _pack(store, plan, plan_id, shard_index, budget=budget)
            log.info(_shard_line(packed), shard=shard_index)
        else:
            log.info(f"shard {shard_index} is there already, its digests hold", shard=shard_index)
        budget -= len(packed.bad_records)
        done.append(packed)
    receipt = _receipt(store, plan_id, index, num_tasks, done)
    _report(log, receipt, time.monotonic() - started)
    return receipt


def _finished(store: ObjectStore, plan_id: str, shard_index: int) -> PackedShard | None:
    key = shard_key(plan_id, shard_index=shard_index, suffix="json")
    if store.find(key) is None:
        return None
    packed = PackedShard.from_bytes(store.read(key), where=store.uri_of(key))
    for file in packed.shard.files:
        file_key = f"{plan_folder(plan_id)}/{file.path}"
        seen = stored_sha256(store, file_key)
        if seen != file.sha256:
            raise BadInput(
                "ShardDamaged", f"{store.uri_of(file_key)} is not what {store.uri_of(key)} says it is",
                f"delete both files, or the whole folder {store.uri_of(plan_folder(plan_id))}, and run again",
            )  # fmt: skip
    return packed


def _pack(store: ObjectStore, plan: ShardPlan, plan_id: str, shard_index: int, *, budget: int) -> PackedShard:
    # numpy is loaded here: planning, merging and tasks without work start without it.
    from components.dataset.documents import read_extracts
    from components.dataset.megatron import index_bytes
    from components.dataset.packing import pack

    options = plan.options
    reading = read_extracts(root_folder(plan.root), extracts(plan.inputs, plan.shards[shard_index], options))
    if reading.changed:
        raise BadInput(
            "InputChanged", f"{len(reading.changed)} inputs below {plan.root} changed since the plan was made",
            "leave the corpus alone while it is sharded, and start a new run", problems=reading.changed[:NAMED],
        )  # fmt: skip
    check_budget(store, plan, plan_id, reading.bad_records, budget)
    packed = pack(
        reading.segments, sequence_length=options.sequence_length, end_of_document=options.end_of_document,
        dtype=options.dtype,
    )  # fmt: skip
    num_sequences = len(packed.sequences)
    index = index_bytes(num_sequences, sequence_length=options.sequence_length, dtype=options.dtype)
    files = []
    for suffix, data in (("bin", packed.data), ("idx", index)):
        key = shard_key(plan_id, shard_index=shard_index, suffix=suffix)
        digest = hashlib.sha256(data).hexdigest()
        publish(store, key, data, sha256=digest)
        files.append(StoredFile(path=key.rpartition("/")[2], size_bytes=len(data), sha256=digest))
    counts = PackingCounts(**reading.counts)
    record = PackedShard(
        plan_id=plan_id, counts=counts, bad_records=tuple(reading.bad_records),
        shard=Shard(
            index=shard_index, files=tuple(files), num_sequences=num_sequences, num_tokens=packed.num_tokens,
            num_padding=packed.num_padding,
            num_documents=counts.num_inputs - counts.num_empty - counts.num_dropped,
        ),
    )  # fmt: skip
    data = record.to_bytes()
    publish(
        store, shard_key(plan_id, shard_index=shard_index, suffix="json"), data, sha256=hashlib.sha256(data).hexdigest()
    )
    return record


def _receipt(
    store: ObjectStore, plan_id: str, task_index: int, num_tasks: int, done: Sequence[PackedShard]
) -> ShardReceipt:
    receipt = ShardReceipt(
        plan_id=plan_id, task_index=task_index, num_tasks=num_tasks,
        shards=tuple(packed.shard for packed in done),
        bad_records=tuple(record for packed in done for record in packed.bad_records),
        counts=reduce(add, (packed.counts for packed in done), PackingCounts()),
    )  # fmt: skip
    data = receipt.to_bytes()
    publish(
        store, receipt_key(plan_id, task_index=task_index, num_tasks=num_tasks), data,
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    return receipt


def _shard_line(packed: PackedShard) -> str:
    shard = packed.shard
    filled = shard.num_tokens / (shard.num_tokens + shard.num_padding) if shard.num_tokens else 0.0
    return f"shard {shard.index}: {shard.num_documents} documents, {shard.num_sequences} sequences, {filled:.2%} filled"


def _report(log: Log, receipt: ShardReceipt, seconds: float) -> None:
    megabytes = receipt.counts.input_bytes / 1e6
    log.info(
        f"task {receipt.task_index} of {receipt.num_tasks}: {len(receipt.shards)} shards, {megabytes:.1f} MB"
        + (f" at {megabytes / seconds:.0f} MB/s" if megabytes >= 1 and seconds > 0 else ""),
        num_bad_records=len(receipt.bad_records),
    )
