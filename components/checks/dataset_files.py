"""Is the packed data set complete? Every file of the shard manifest, with its size."""

import posixpath
from concurrent.futures import ThreadPoolExecutor

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.dataset import ShardManifest
from components.contracts.document import DamagedDocument
from components.contracts.layout import shard_manifest_key
from components.storage.base import ObjectNotFound, ObjectStore

_SHOWN = 5
_SIDE_BY_SIDE = 32
"""Looks that wait for a store at once: each costs a round trip."""


def dataset_question(data_version: str) -> Question:
    """Asks for all files of a data version; their bytes are proven by the digests when they are read."""
    return Question(
        name="shard_manifest", scope="environment", subject=data_version, expected="every shard file, with its size",
        origin="the shard manifest", remedy="run the shard stage again: it writes what is missing",
    )  # fmt: skip


def dataset_complete(question: Question, store: ObjectStore, *, data_version: str) -> CheckResult:
    """Looks up every file the manifest names; reads none of them."""
    key = shard_manifest_key(data_version)
    try:
        manifest = ShardManifest.from_bytes(store.read(key), where=store.uri_of(key))
    except ObjectNotFound:
        return question.fail(f"{store.uri_of(key)} does not exist")
    except DamagedDocument as error:
        return question.fail(error.seen, error.fix)
    faults = []
    if manifest.data_version != data_version:
        faults.append(f"the manifest is of {manifest.data_version}")
    files = [file for shard in manifest.shards for file in shard.files]
    keys = [posixpath.normpath(posixpath.join(posixpath.dirname(key), file.path)) for file in files]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        sizes = list(pool.map(store.find, keys))
    for file, found in zip(files, sizes, strict=True):
        if found is None:
            faults.append(f"{file.path} is missing")
        elif found.size_bytes != file.size_bytes:
            faults.append(f"{file.path} has {found.size_bytes} bytes instead of {file.size_bytes}")
    if faults:
        more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        return question.fail("; ".join(faults[:_SHOWN]) + more)
    if not manifest.num_sequences + manifest.num_samples:
        return question.fail("the data set holds no sequence and no sample", "give shard.corpus more to read")
    return question.ok(f"{len(files)} files of {len(manifest.shards)} shards")
