"""Make every `num_tasks`-th shard of the plan, each published as soon as it is done; the receipt comes last.

A shard's own record `<entry>.json` is written after its files, so a repeated task redoes at most the shard it was at,
and a later plan with the same entry finds it made. Shards already there are proven, never trusted.
"""

import contextlib
import hashlib
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from components.contracts.dataset import (
    PackedShard,
    PackingCounts,
    PackingOptions,
    ProofLevel,
    Quarantine,
    Shard,
    ShardPlan,
    ShardReceipt,
)
from components.contracts.layout import receipt_key, shard_key, shards_folder, tokenizer_key
from components.dataset.blobs import open_blobs
from components.dataset.inputs import Entry
from components.dataset.sources.findings import NAMED, Findings
from components.errors import BadInput, Problem
from components.runtime.log import Log
from components.shard.plan_file import check_budget, newest_change, read_entries, read_plan
from components.shard.progress import Progress
from components.shard.publish import publish
from components.storage.base import ObjectStore

if TYPE_CHECKING:
    from components.dataset.tokenizer import Encode
    from components.shard.pack import Packer


def run_task(
    store: ObjectStore, *, plan_id: str, task_index: str, num_tasks: int, log: Log, verify: ProofLevel = "digests"
) -> ShardReceipt:
    """Make shards `task_index`, `task_index + num_tasks`, … and leave the receipt. Surplus tasks leave an empty one.

    `verify` is how every shard is proven that this task leaves: those it found done, those it made. Raises BadInput.
    """
    if not task_index.isdecimal() or int(task_index) >= num_tasks:
        raise BadInput("BadTaskIndex", f"task_index is {task_index!r}", f"pass --input task_index=0 … {num_tasks - 1}")
    index, plan = int(task_index), read_plan(store, plan_id)
    own = range(index, plan.num_shards, num_tasks)
    progress = Progress(log, "shards", total=len(own))
    task = _Task(store, plan, plan_id, verify=verify, log=log)
    with contextlib.closing(task):
        for shard_index, entry in read_entries(store, plan, plan_id, start=index, step=num_tasks) if own else ():
            record = task.finished(entry.id)
            was_there = record is not None
            if record is None:
                record = task.make(entry)
                log.info(_shard_line(shard_index, record), shard=shard_index, entry=entry.id)
            else:
                seen = f"shard {shard_index} is there already, proven by its {verify}"
                log.info(seen, shard=shard_index, entry=entry.id)
            task.take(record, shard_index)
            progress.add(num_bytes=record.counts.input_bytes, was_there=was_there)
    receipt = task.leave_receipt(index, num_tasks)
    rate = progress.rate()
    log.info(
        f"task {index} of {num_tasks}: {len(own)} shards, {receipt.counts.input_bytes / 1e6:.1f} MB"
        + (f" at {rate}" if rate else ""),
        num_bad_records=receipt.quarantine.num_records,
    )  # fmt: skip
    return receipt


class _Task:
    """The shards of one task, made or found."""

    def __init__(self, store: ObjectStore, plan: ShardPlan, plan_id: str, *, verify: ProofLevel, log: Log) -> None:
        self._store, self._plan, self._plan_id, self._verify, self._log = store, plan, plan_id, verify, log
        self._packer: Packer | None = None
        self._records, self._shards = list[PackedShard](), list[Shard]()
        self._budget = plan.max_bad_records - len(plan.bad_records)

    def finished(self, entry_id: str) -> PackedShard | None:
        """The shard's record when it was made before and holds. Raises BadInput when it does not hold."""
        key = shard_key(entry_id, suffix="json")
        if self._store.find(key) is None:
            return None
        record = PackedShard.from_bytes(self._store.read(key), where=self._store.uri_of(key))
        lost = [
            file.path for file in record.content.files if self._store.find(f"{shards_folder()}/{file.path}") is None
        ]
        if lost:
            self._log.warning(f"{', '.join(lost)} is gone and made again", entry=entry_id)
            return None
        self._prove(record, self._verify)
        return record

    def make(self, entry: Entry) -> PackedShard:
        """Pack the shard, publish it, and prove its records if that is asked for."""
        if self._packer is None:
            self._packer = self._new_packer()
        record = self._packer.pack(entry, max_bad_records=self._budget, check=self._check)
        if self._verify == "records":
            self._prove(record, "records")
        return record

    def take(self, record: PackedShard, shard_index: int) -> None:
        """Count the shard."""
        self._budget -= record.quarantine.num_records
        self._records.append(record)
        self._shards.append(shard_of(record, index=shard_index))

    def close(self) -> None:
        """Let go of what packing took."""
        if self._packer is not None:
            self._packer.close()

    def leave_receipt(self, index: int, num_tasks: int) -> ShardReceipt:
        """Publish what this task did."""
        receipt = ShardReceipt(
            plan_id=self._plan_id, task_index=index, num_tasks=num_tasks, shards=tuple(self._shards),
            keys=tuple(record.keys for record in self._records if record.keys is not None),
            quarantine=joined(record.quarantine for record in self._records),
            counts=reduce(add, (record.counts for record in self._records), PackingCounts()),
        )  # fmt: skip
        publish(self._store, receipt_key(self._plan_id, task_index=index, num_tasks=num_tasks), receipt.to_bytes())
        return receipt

    def _check(self, findings: Findings) -> None:
        check_budget(self._store, self._plan, self._plan_id, findings.bad, len(findings.bad), self._budget)

    def _prove(self, record: PackedShard, level: ProofLevel) -> None:
        from components.shard.prove import faults_of_shard

        faults = list(
            faults_of_shard(self._store, shards_folder(), record.content, self._plan.options, level, entry=record.entry)
        )
        if faults:
            key = shard_key(record.entry, suffix="json")
            raise BadInput(
                "ShardDamaged", f"a shard is not what {self._store.uri_of(key)} says it is",
                f"delete the files of entry {record.entry}, and run again",
                problems=[Problem(self._store.uri_of(shards_folder()), str(fault)) for fault in faults[:NAMED]],
            )  # fmt: skip

    def _new_packer(self) -> "Packer":
        # numpy is loaded here: planning, merging and tasks without work start without it.
        from components.shard.pack import Packer

        plan = self._plan
        seen = newest_change(self._store, self._plan_id)
        blobs = open_blobs(plan.root, is_manifest=plan.read.read_as == "manifest", newest_change=seen)
        return Packer(self._store, blobs, read=plan.read, options=plan.options, encode=self._encoder())

    def _encoder(self) -> "Encode | None":
        options = self._plan.options
        if not isinstance(options, PackingOptions):
            return None
        from components.dataset.tokenizer import byte_encoder, json_encoder, tokenizer_sha256

        sha256 = tokenizer_sha256(options)
        if sha256 is None:
            return byte_encoder()
        key = tokenizer_key(sha256)
        data = self._store.read(key)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BadInput(
                "TokenizerDamaged", f"{self._store.uri_of(key)} is not what it was", "delete it and plan again"
            )
        return json_encoder(data, where=self._store.uri_of(key), dtype=options.dtype)


def shard_of(record: PackedShard, *, index: int) -> Shard:
    """The shard of a record at a place in a data set."""
    content = record.content
    return Shard(
        index=index, entry=record.entry, **{name: getattr(content, name) for name in type(content).model_fields}
    )


def joined(parts: Iterable[Quarantine]) -> Quarantine:
    """What was left out of several shards together."""
    parts = list(parts)
    return Quarantine(
        num_records=sum(part.num_records for part in parts),
        records=tuple(record for part in parts for record in part.records)[:NAMED],
        files=tuple(file for part in parts for file in part.files),
    )


def _shard_line(index: int, record: PackedShard) -> str:
    content = record.content
    if not content.num_sequences:
        return f"shard {index}: {content.num_samples} samples, {content.files[0].size_bytes} bytes"
    filled = content.num_tokens / (content.num_tokens + content.num_padding)
    return f"shard {index}: {content.num_documents} documents, {content.num_sequences} sequences, {filled:.2%} filled"
