"""Join the tasks' receipts into the manifest, and refuse anything but exactly one receipt a task, each shard once."""

import hashlib
import posixpath
from collections.abc import Sequence
from functools import reduce
from operator import add

from components.contracts.dataset import (
    PackedShard,
    PackingCounts,
    Shard,
    ShardManifest,
    ShardPlan,
    ShardReceipt,
    StoredFile,
)
from components.contracts.document import DamagedDocument
from components.contracts.layout import data_version_folder, receipt_key, shard_key, shard_manifest_key, shards_folder
from components.dataset.merkle import data_version
from components.dataset.prefetch import in_order
from components.dataset.sidecars import sidecars
from components.errors import BadInput, Problem, VerificationFailed
from components.runtime.log import Log
from components.shard.plan_file import NAMED, check_budget, read_entries, read_plan
from components.shard.publish import publish
from components.shard.task import joined, shard_of
from components.storage.base import AlreadyExists, ObjectNotFound, ObjectStore

_IN_FLIGHT = 32
"""Records that are read at once from a store that is not on this machine: each costs a round trip."""


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
            "ReceiptsRefused", f"the receipts of plan {plan_id} do not add up to its {plan.num_shards} shards",
            "run the tasks named here again", problems=problems,
        )  # fmt: skip
    left_out = joined(receipt.quarantine for receipt in receipts)
    bad_records = (plan.bad_records + left_out.records)[:NAMED]
    num_bad = len(plan.bad_records) + left_out.num_records
    check_budget(store, plan, plan_id, bad_records, num_bad, plan.max_bad_records)
    _refuse_duplicates(store, plan, [file for receipt in receipts for file in receipt.keys])
    shards = _that_hold_something(receipts)
    if not shards:
        raise BadInput(
            "EmptyDataSet", f"nothing in corpus {plan.root} became a record: {plan.num_inputs} inputs, {num_bad} bad",
            "check how the corpus is read: read_as, text_field, what its files hold",
        )  # fmt: skip
    version = data_version(plan.options, shards)
    manifest = ShardManifest(
        data_version=version, plan_id=plan_id, options=plan.options, bad_records=bad_records, num_bad_records=num_bad,
        shards=tuple(_seen_from(version, shard) for shard in shards),
        quarantine=tuple(_file_seen_from(version, file) for file in left_out.files),
        counts=reduce(add, (receipt.counts for receipt in receipts), PackingCounts()),
    )  # fmt: skip
    manifest = _publish(store, manifest, log)
    log.info(_line(manifest), **manifest.counts.as_json())
    return manifest


def _that_hold_something(receipts: Sequence[ShardReceipt]) -> list[Shard]:
    """The shards in order, without those of ranges in which no record begins: many readers fail on an empty file."""
    made = sorted((shard for receipt in receipts for shard in receipt.shards), key=lambda shard: shard.index)
    held = [shard for shard in made if shard.num_samples or shard.num_sequences]
    return [shard.model_copy(update={"index": index}) for index, shard in enumerate(held)]


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
        try:
            receipt = ShardReceipt.from_bytes(store.read(key), where=store.uri_of(key))
        except DamagedDocument as error:
            problems.append(Problem(f"receipt of task {index}", error.seen, "delete it and run that task again"))
            continue
        if (receipt.plan_id, receipt.task_index, receipt.num_tasks) != (plan_id, index, num_tasks):
            whose = f"task {receipt.task_index} of {receipt.num_tasks}, plan {receipt.plan_id}"
            problems.append(Problem(store.uri_of(key), f"is the receipt of {whose}", "delete it"))
        receipts.append(receipt)
    return receipts, problems


def _contradictions(
    store: ObjectStore, plan: ShardPlan, plan_id: str, receipts: Sequence[ShardReceipt]
) -> list[Problem]:
    problems, owners, entries = list[Problem](), dict[int, int](), dict[int, str]()
    for receipt in receipts:
        where = f"receipt of task {receipt.task_index}"
        for shard in receipt.shards:
            if shard.index in owners:
                problems.append(Problem(where, f"names shard {shard.index}, as task {owners[shard.index]} does"))
            elif shard.index >= plan.num_shards or shard.index % receipt.num_tasks != receipt.task_index:
                problems.append(Problem(where, f"names shard {shard.index}, which is not that task's"))
            owners[shard.index], entries[shard.index] = receipt.task_index, shard.entry
            problems += _file_faults(store, shard)
    missing = [index for index in range(plan.num_shards) if index not in owners]
    if missing and not problems:
        problems.append(Problem("receipts", f"name no shard {', '.join(map(str, missing[:NAMED]))}"))
    if not problems:
        problems += [
            Problem(f"receipt of task {owners[index]}", f"made shard {index} from entry {entries[index]}, not its own")
            for index, entry in read_entries(store, plan, plan_id) if entries[index] != entry.id
        ]  # fmt: skip
    read = sum(receipt.counts.num_inputs for receipt in receipts)
    if not problems and read != plan.num_inputs:
        problems.append(Problem("receipts", f"account for {read} of {plan.num_inputs} inputs"))
    if not problems:  # so every entry is one of the plan's
        problems += _unlike_their_records(store, receipts)
    return problems


def _unlike_their_records(store: ObjectStore, receipts: Sequence[ShardReceipt]) -> list[Problem]:
    """A receipt repeats what the records beside its shards say, which were written with the shards' files."""

    def record_of(shard: Shard) -> PackedShard | None:
        key = shard_key(shard.entry, suffix="json")
        try:
            return PackedShard.from_bytes(store.read(key), where=store.uri_of(key))
        except ObjectNotFound:
            return None

    shards = [shard for receipt in receipts for shard in receipt.shards]
    in_flight = 1 if store.local_path(shards_folder()) else _IN_FLIGHT
    records, problems = in_order(record_of, shards, in_flight=in_flight), list[Problem]()
    for receipt in receipts:
        where = f"receipt of task {receipt.task_index}"
        own, num_before = list[PackedShard](), len(problems)
        for shard, record in zip(receipt.shards, records, strict=False):
            key = store.uri_of(shard_key(shard.entry, suffix="json"))
            if record is None:
                problems.append(Problem(key, f"is missing, the record of shard {shard.index}"))
                continue
            own.append(record)
            if shard_of(record, index=shard.index) != shard:
                differs = ", ".join(_differing(shard, shard_of(record, index=shard.index)))
                problems.append(Problem(where, f"says of shard {shard.index} other than its record {key}: {differs}"))
        if len(problems) == num_before:
            counts = reduce(add, (record.counts for record in own), PackingCounts())
            keys = tuple(record.keys for record in own if record.keys is not None)
            if (receipt.counts, receipt.keys, receipt.quarantine) != (
                counts,
                keys,
                joined(record.quarantine for record in own),
            ):
                problems.append(Problem(where, "has other counts, keys or bad records than the records of its shards"))
    return problems


def _differing(one: Shard, other: Shard) -> list[str]:
    """Which fields differ, with what they hold where that is a number; of files the digests."""
    found = []
    for name in type(one).model_fields:
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours == theirs:
            continue
        if name == "files":
            found += [
                f"{mine.path} sha256 {mine.sha256}, {mine.size_bytes} bytes, and not {its.path} sha256 {its.sha256}, "
                f"{its.size_bytes} bytes"
                for mine, its in zip(ours, theirs, strict=False) if mine != its
            ] or [f"{len(ours)} files and not {len(theirs)}"]  # fmt: skip
        else:
            found.append(f"{name} {ours} and not {theirs}")
    return found


def _file_faults(store: ObjectStore, shard: Shard) -> list[Problem]:
    faults = []
    for file in shard.files:
        key = f"{shards_folder()}/{file.path}"
        found = store.find(key)
        if found is None or found.size_bytes != file.size_bytes:
            seen = "is missing" if found is None else f"has {found.size_bytes} bytes instead of {file.size_bytes}"
            faults.append(Problem(store.uri_of(key), seen))
    return faults


def _refuse_duplicates(store: ObjectStore, plan: ShardPlan, keys: Sequence[StoredFile]) -> None:
    if not keys:
        return
    from components.shard.duplicates import duplicate_keys

    problems = duplicate_keys(store, keys)
    if problems:
        raise BadInput(
            "DuplicateKeys", f"{len(problems)} samples have a key of another in their field {plan.read.key_field!r}",
            "give every row a key of its own, or leave key_field out", problems=problems[:NAMED],
        )  # fmt: skip


def _seen_from(version: str, shard: Shard) -> Shard:
    """The shard with paths relative to the manifest's folder."""
    return shard.model_copy(update={"files": tuple(_file_seen_from(version, file) for file in shard.files)})


def _file_seen_from(version: str, file: StoredFile) -> StoredFile:
    path = posixpath.relpath(f"{shards_folder()}/{file.path}", data_version_folder(version))
    return file.model_copy(update={"path": path})


def _publish(store: ObjectStore, manifest: ShardManifest, log: Log) -> ShardManifest:
    key, folder = shard_manifest_key(manifest.data_version), data_version_folder(manifest.data_version)
    try:
        store.create(key, manifest.to_bytes())
    except AlreadyExists:
        stored = store.read(key)
        ours, manifest = manifest, ShardManifest.from_bytes(stored, where=store.uri_of(key))
        _refuse_another(store.uri_of(key), stored, manifest, ours)
        _restore(store, lost=manifest, present=ours, log=log)
    for name, data in sidecars(manifest).items():
        publish(store, f"{folder}/{name}", data)
    return manifest


def _refuse_another(where: str, stored: bytes, theirs: ShardManifest, ours: ShardManifest) -> None:
    """Of the same plan everything is the same, but for the order of bad records, which goes by the tasks. Of another
    plan of the same bytes the shards are, but for the entries they are named by.
    """
    names = ["data_version", "options"]
    if theirs.plan_id == ours.plan_id:
        names += ["shards", "num_bad_records", "counts"]
    differing = [name for name in names if getattr(theirs, name) != getattr(ours, name)]
    if [_unnamed(shard) for shard in theirs.shards] != [_unnamed(shard) for shard in ours.shards]:
        differing.append("shards")
    differing += [
        f"path {file.path}"
        for shard in theirs.shards
        for file in shard.files
        if not _is_named_by_its_entry(shard, file)
    ]
    if differing:
        raise VerificationFailed(
            "ManifestDiffers",
            f"{where} is not what its data version's receipts add up to: sha256 {hashlib.sha256(stored).hexdigest()}, "
            f"computed {hashlib.sha256(ours.to_bytes()).hexdigest()}; they differ in "
            + ", ".join(list(dict.fromkeys(differing))[:NAMED]),
            "delete that manifest and the files beside it, none of them a shard, and run merge again",
        )  # fmt: skip


def _unnamed(shard: Shard) -> Shard:
    """The shard with nothing in it that goes by its entry."""
    files = (file.model_copy(update={"path": posixpath.splitext(file.path)[1]}) for file in shard.files)
    return shard.model_copy(update={"entry": "", "files": tuple(files)})


def _is_named_by_its_entry(shard: Shard, file: StoredFile) -> bool:
    folder, _, name = file.path.rpartition("/")
    return folder == "../../shards" and (not shard.entry or posixpath.splitext(name)[0] == shard.entry)


def _restore(store: ObjectStore, *, lost: ShardManifest, present: ShardManifest, log: Log) -> None:
    """Copy shards that a data version of the same bytes has lost."""
    folder = data_version_folder(lost.data_version)
    for old, new in zip(lost.shards, present.shards, strict=True):
        for gone, ours in zip(old.files, new.files, strict=True):
            key = posixpath.normpath(f"{folder}/{gone.path}")
            if store.find(key) is None:
                publish(store, key, store.read(posixpath.normpath(f"{folder}/{ours.path}")))
                log.warning(f"restored {store.uri_of(key)}, which was missing")


def _line(manifest: ShardManifest) -> str:
    if manifest.num_sequences:
        held = f"{manifest.num_sequences} sequences, {manifest.num_tokens} tokens"
    else:
        held = f"{manifest.num_samples} samples"
    return (
        f"data version {manifest.data_version}: {held} in {len(manifest.shards)} shards, "
        f"{manifest.num_bad_records} bad records"
    )
