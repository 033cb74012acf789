"""Make one shard: read the inputs of an entry, write its files to local disk, publish them, and its record last."""

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

# Its threads, one a core, spin for a while once they are started: a fifth of a task's start, taken from its neighbours.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import xxhash

from components.contracts.canonical import canonical_bytes
from components.contracts.dataset import (
    DataOptions,
    PackedShard,
    PackingCounts,
    PackingOptions,
    Quarantine,
    ReadOptions,
    SampleOptions,
    ShardContent,
    StoredFile,
)
from components.contracts.layout import shard_key
from components.dataset.batches import Batch, Column, batched, without
from components.dataset.blobs import Blobs
from components.dataset.formats import mds, webdataset
from components.dataset.formats.parquet_writer import ParquetWriter
from components.dataset.formats.tokens import TokensWriter, TooLong
from components.dataset.inputs import Entry
from components.dataset.output import Output, Outputs, Spares
from components.dataset.sources.findings import NAMED, Findings, TooManyBadRecords
from components.dataset.sources.read import Documents, Measured, Part, documents, samples
from components.dataset.tokenizer import Encode
from components.errors import BadInput, Problem
from components.shard.allocator import keep_freed_memory
from components.shard.publish import publish, publish_from
from components.storage.base import ObjectStore

_COUNTS = tuple(PackingCounts.model_fields)


class _Built(NamedTuple):
    files: list[Output]
    keys: bytes | None
    num_sequences: int = 0
    num_samples: int = 0
    num_tokens: int = 0
    num_padding: int = 0


class Packer:
    """Makes the shards of one plan."""

    def __init__(
        self, store: ObjectStore, blobs: Blobs, *, read: ReadOptions, options: DataOptions, encode: Encode | None
    ) -> None:
        """`encode` is for format tokens."""
        self._store, self._blobs, self._read, self._options, self._encode = store, blobs, read, options, encode
        self._spares = Spares()
        keep_freed_memory()

    def close(self) -> None:
        """Let go of the files on local disk."""
        self._spares.close()

    def pack(self, entry: Entry, *, max_bad_records: int, check: Callable[[Findings], None]) -> PackedShard:
        """Make and publish the shard. `check` is shown what is left out, and may raise before anything is published.

        Raises BadInput for inputs that changed, are damaged, or may not be what they are.
        """
        findings = Findings(max_bad_records=max_bad_records)
        with Outputs(self._spares) as outputs, without_collector():
            try:
                if isinstance(self._options, PackingOptions):
                    built = self._build_tokens(entry, self._options, findings, outputs)
                else:
                    built = self._build_samples(entry, self._options, findings, outputs)
            except TooManyBadRecords:
                check(findings)
                raise
            _refuse_changes(findings)
            check(findings)
            return self._publish(entry, built, findings)

    def _build_tokens(self, entry: Entry, options: PackingOptions, findings: Findings, outputs: Outputs) -> _Built:
        assert self._encode is not None
        writer = TokensWriter(options, self._encode, outputs)
        try:
            for found in documents(entry.inputs, self._blobs, findings, self._read, options):
                if isinstance(found, Measured):
                    writer.add_measured(found.texts, found.closes)
                    continue
                if isinstance(found, Part):
                    writer.add_piece(found.data, is_last=found.is_last, closes=found.closes)
                    continue
                where = partial(self._where, found)
                writer.add_documents(found.texts, where=where, refuse=partial(_refuse, found, findings))
            _refuse_changes(findings)  # before the rest of a document is missed
            packed = writer.finish()
        except TooLong as error:
            raise BadInput(
                "DocumentTooLong", f"over_long is error; {error}",
                "use split, truncate or drop, or a longer sequence_length", problems=[Problem(error.where, str(error))],
            ) from error  # fmt: skip
        for name, number in writer.counts.items():
            findings.count(name, number)
        return _Built(
            packed.files, None, num_sequences=packed.num_sequences, num_tokens=packed.num_tokens,
            num_padding=packed.num_padding,
        )  # fmt: skip

    def _where(self, found: Documents, number: int) -> str:
        return f"{self._blobs.uri_of(found.item.path)} at byte {found.places[number]}"

    def _build_samples(self, entry: Entry, options: SampleOptions, findings: Findings, outputs: Outputs) -> _Built:
        writer = _sample_writer(options, outputs)
        hashes = list[int]() if self._read.key_field is not None else None
        for batch in batched(self._accepted(entry, options, findings)):
            writer.add(batch)
            if hashes is not None:
                hashes.extend(xxhash.xxh3_64_intdigest(key.encode()) for key in batch.keys)
        keys = None if hashes is None else np.array(hashes, dtype="<u8").tobytes()
        findings.count("num_documents", writer.num_samples)
        return _Built(writer.finish(), keys, num_samples=writer.num_samples)

    def _accepted(self, entry: Entry, options: SampleOptions, findings: Findings) -> Iterator[Batch]:
        schema = tuple(Column(field.name, field.type) for field in options.fields)
        is_tar, seen = options.format == "webdataset", set[str]()
        for run in samples(entry.inputs, self._blobs, findings, self._read, schema):
            keys, columns, _ = run.batch
            faults = webdataset.faults_of(keys, columns) if is_tar else {}
            own = set(keys)
            if not faults and len(own) == len(keys) and seen.isdisjoint(own):
                seen |= own
                yield run.batch
                continue
            is_out = list[bool]()
            for number, key in enumerate(keys):
                fault = f"its key {key!r} is another sample's already" if key in seen else faults.get(number, "")
                is_out.append(bool(fault))
                if fault:
                    findings.reject(run.input_of(number).path, fault, offset=run.places[number])
                else:
                    seen.add(key)
            yield without(run.batch, is_out)

    def _publish(self, entry: Entry, built: _Built, findings: Findings) -> PackedShard:
        files = tuple(self._publish_file(entry, file) for file in built.files)
        quarantine, keys = Quarantine(), None
        if findings.bad:
            lines = b"".join(canonical_bytes(record.as_json()) + b"\n" for record in findings.bad)
            stored = self._publish_bytes(entry, "quarantine.jsonl", lines)
            quarantine = Quarantine(num_records=len(findings.bad), records=tuple(findings.bad[:NAMED]), files=(stored,))
        if built.keys is not None:
            keys = self._publish_bytes(entry, "keys", built.keys)
        is_mds = self._options.format == "mds"
        record = PackedShard(
            entry=entry.id, blocks=tuple(tuple(file.blocks) for file in built.files), keys=keys, quarantine=quarantine,
            counts=PackingCounts(**{name: findings.counts.get(name, 0) for name in _COUNTS}),
            content=ShardContent(
                files=files, hashes=mds.hashes_of(built.files[0], sha256=files[0].sha256) if is_mds else {},
                num_sequences=built.num_sequences, num_samples=built.num_samples, num_tokens=built.num_tokens,
                num_padding=built.num_padding, num_documents=findings.counts.get("num_documents", 0),
            ),
        )  # fmt: skip
        publish(self._store, shard_key(entry.id, suffix="json"), record.to_bytes())
        return record

    def _publish_file(self, entry: Entry, file: Output) -> StoredFile:
        key = shard_key(entry.id, suffix=file.suffix)
        sha256 = publish_from(self._store, key, file.path)
        return StoredFile(path=key.rpartition("/")[2], size_bytes=file.size_bytes, sha256=sha256)

    def _publish_bytes(self, entry: Entry, suffix: str, data: bytes) -> StoredFile:
        key = shard_key(entry.id, suffix=suffix)
        sha256 = publish(self._store, key, data)
        return StoredFile(path=key.rpartition("/")[2], size_bytes=len(data), sha256=sha256)


def _sample_writer(
    options: SampleOptions, outputs: Outputs
) -> webdataset.WebdatasetWriter | mds.MdsWriter | ParquetWriter:
    if options.format == "webdataset":
        return webdataset.WebdatasetWriter(outputs)
    if options.format == "mds":
        return mds.MdsWriter(options.fields, outputs)
    return ParquetWriter(options.fields, outputs)


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Samples come and go by the thousand and form no cycles; looking for some takes an eighth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _refuse(found: Documents, findings: Findings, number: int, reason: str) -> None:
    findings.reject(found.item.path, reason, offset=found.places[number], content=found.texts[number])


def _refuse_changes(findings: Findings) -> None:
    if findings.changed:
        raise BadInput(
            "InputChanged", f"{len(findings.changed)} inputs changed since the plan was made",
            "leave the corpus alone while it is sharded, and start a new run", problems=findings.changed[:NAMED],
        )  # fmt: skip
