"""Is a shard still what it was? Three levels: its files and their sizes, every byte, every record in its format."""

import hashlib
import io
import posixpath
from collections.abc import Iterator
from typing import BinaryIO

from components.contracts.dataset import DataOptions, PackedShard, PackingOptions, ProofLevel, ShardContent, StoredFile
from components.contracts.document import DamagedDocument
from components.contracts.layout import shard_key
from components.dataset.blobs import BlobFile, read_range
from components.dataset.inputs import Input
from components.dataset.output import BLOCK_BYTES
from components.integrity.fault import Fault
from components.storage.base import ObjectNotFound, ObjectStore

_READ_BYTES = 1 << 20


def faults_of_shard(
    store: ObjectStore, folder: str, content: ShardContent, options: DataOptions, level: ProofLevel, *, entry: str = ""
) -> Iterator[Fault]:
    """Everything wrong with the files of a shard, whose paths are relative to `folder`.

    `entry` finds the record that tells which block of a file is damaged.
    """
    broken = False
    for place, file in enumerate(content.files):
        key = posixpath.normpath(f"{folder}/{file.path}")
        found = store.find(key)
        if found is None:
            yield Fault(file.path, "is missing", expected=f"{file.size_bytes} bytes")
            broken = True
            continue
        if found.size_bytes != file.size_bytes:
            yield Fault(
                file.path, "has another size", offset=min(found.size_bytes, file.size_bytes),
                expected=f"{file.size_bytes} bytes", actual=f"{found.size_bytes}",
            )  # fmt: skip
        if level != "files":
            yield from _byte_faults(store, key, file, place, entry)
    if level == "records" and not broken:
        yield from _record_faults(store, folder, content, options)


def _byte_faults(store: ObjectStore, key: str, file: StoredFile, place: int, entry: str) -> Iterator[Fault]:
    digest = hashlib.sha256()
    for data in _read(store, key):
        digest.update(data)
    if (found := digest.hexdigest()) == file.sha256:
        return
    where = None
    for number, (expected, actual) in enumerate(_blocks(store, key, place, entry)):
        if expected != actual:
            where = number * BLOCK_BYTES
            yield Fault(
                file.path, f"differs within {BLOCK_BYTES} bytes from here", offset=where,
                expected=f"xxh3_64 {expected or 'nothing'}", actual=actual or "the end",
            )  # fmt: skip
    yield Fault(file.path, "holds other bytes", offset=where or 0, expected=f"sha256 {file.sha256}", actual=found)


def _blocks(store: ObjectStore, key: str, place: int, entry: str) -> Iterator[tuple[str, str]]:
    """The digests of the blocks as they were and as they are; nothing when there is no record of them."""
    import xxhash

    try:
        record_key = shard_key(entry, suffix="json")
        record = PackedShard.from_bytes(store.read(record_key), where=store.uri_of(record_key))
    except (ObjectNotFound, DamagedDocument, ValueError):
        return
    was = list(record.blocks[place])
    current, left = list[str](), BLOCK_BYTES
    block = xxhash.xxh3_64()
    for data in _read(store, key):
        view = memoryview(data)
        while len(view):
            part = view[:left]
            block.update(part)
            view, left = view[len(part) :], left - len(part)
            if not left:
                current.append(block.hexdigest())
                block, left = xxhash.xxh3_64(), BLOCK_BYTES
    if left < BLOCK_BYTES:
        current.append(block.hexdigest())
    for number in range(max(len(was), len(current))):
        yield was[number] if number < len(was) else "", current[number] if number < len(current) else ""


def _record_faults(store: ObjectStore, folder: str, content: ShardContent, options: DataOptions) -> Iterator[Fault]:
    keys = [posixpath.normpath(f"{folder}/{file.path}") for file in content.files]
    name = content.files[0].path
    try:
        if isinstance(options, PackingOptions):
            from components.dataset.formats import tokens

            files = {suffix: _open(store, key) for suffix, key in zip(tokens.SUFFIXES, keys, strict=True)}
            names = dict(zip(tokens.SUFFIXES, (file.path for file in content.files), strict=True))
            yield from tokens.check(files, names, content, options)
        elif options.format == "webdataset":
            from components.dataset.formats import webdataset

            yield from webdataset.check(_open(store, keys[0]), name, content)
        elif options.format == "mds":
            from components.dataset.formats import mds

            yield from mds.check(_open(store, keys[0]), name, content, options.fields)
        else:
            from components.dataset.formats import parquet

            yield from parquet.check(_open(store, keys[0]), name, content, options.fields)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        yield Fault(name, f"cannot be read as {options.format}: {error}", offset=0)


def _open(store: ObjectStore, key: str) -> BinaryIO:
    found = store.find(key)
    size = 0 if found is None else found.size_bytes
    return io.BufferedReader(BlobFile(_Whole(store, key), Input("", key, size, "")), _READ_BYTES)


class _Whole:
    """One object of a store, as inputs are read."""

    in_flight = 1

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store, self._key = store, key

    def read(self, item: Input, start: int, end: int) -> bytes:
        return read_range(self._store, self._key, start, end)

    def uri_of(self, path: str) -> str:
        return self._store.uri_of(path)


def _read(store: ObjectStore, key: str) -> Iterator[bytes]:
    with store.open(key) as file:
        while data := file.read(_READ_BYTES):
            yield data
