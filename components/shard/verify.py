"""Prove a data version: its manifest, its sidecars, and every shard to the level asked for."""

from collections.abc import Iterator

from components.contracts.dataset import ProofLevel, ShardManifest
from components.contracts.layout import data_version_folder, shard_manifest_key
from components.dataset.merkle import data_version
from components.dataset.sidecars import sidecars
from components.errors import BadInput, VerificationFailed
from components.integrity.fault import Fault
from components.runtime.log import Log
from components.shard.progress import Progress
from components.shard.prove import faults_of_shard
from components.storage.base import ObjectNotFound, ObjectStore

_NAMED = 20


def verify_version(
    store: ObjectStore, version: str, *, level: ProofLevel, log: Log, task: tuple[int, int] = (0, 1)
) -> int:
    """Returns how many shards hold. `task` (index, of how many) takes every n-th shard: many can share the work.

    Raises VerificationFailed that names file, offset, expected and found; BadInput when there is no such version.
    """
    manifest = read_manifest(store, version)
    index, num_tasks = task
    own = manifest.shards[index::num_tasks]
    progress = Progress(log, "shards proven", total=len(own))
    faults = [str(fault) for fault in manifest_faults(store, manifest, version, level)]
    for shard in own:
        found = list(
            faults_of_shard(store, data_version_folder(version), shard, manifest.options, level, entry=shard.entry)
        )
        for fault in found:
            log.error(
                f"shard {shard.index}: {fault}", shard=shard.index, file=fault.file, offset=fault.offset,
                expected=fault.expected, found=fault.actual,
            )  # fmt: skip
        faults += [f"shard {shard.index}: {fault}" for fault in found]
        progress.add(num_bytes=sum(file.size_bytes for file in shard.files))
    if faults:
        more = [f"and {len(faults) - _NAMED} more"] if len(faults) > _NAMED else []
        raise VerificationFailed(
            "DataDamaged", f"{version} is not what its manifest says:\n  " + "\n  ".join(faults[:_NAMED] + more),
            "delete the damaged files and run the same plan again: it makes exactly them",
        )  # fmt: skip
    log.info(f"{version}: {len(own)} shards hold, proven by their {level}")
    return len(own)


def read_manifest(store: ObjectStore, version: str) -> ShardManifest:
    """The manifest of a data version. Raises BadInput, DamagedDocument."""
    key = shard_manifest_key(version)
    try:
        return ShardManifest.from_bytes(store.read(key), where=store.uri_of(key))
    except (ObjectNotFound, ValueError) as error:
        raise BadInput(
            "NoDataVersion", f"there is no {version!r} in {store.uri}", "name one that merge printed"
        ) from error


def manifest_faults(store: ObjectStore, manifest: ShardManifest, version: str, level: ProofLevel) -> Iterator[Fault]:
    """Where manifest and sidecars do not add up to the data version, or to each other. No shard is read."""
    found = data_version(manifest.options, manifest.shards)
    if found != version or manifest.data_version != version:
        yield Fault("manifest.json", "does not add up to its data version", expected=version, actual=found)
    if [shard.index for shard in manifest.shards] != list(range(len(manifest.shards))):
        yield Fault("manifest.json", "does not name its shards in order")
    wrong = "is not what the manifest says it should be"
    for name, data in sidecars(manifest).items():
        key = f"{data_version_folder(version)}/{name}"
        stored = store.find(key)
        if stored is None:
            yield Fault(name, "is missing", expected=f"{len(data)} bytes")
        elif stored.size_bytes != len(data):
            yield Fault(name, wrong, expected=f"{len(data)} bytes", actual=f"{stored.size_bytes}")
        elif level != "files" and (now := store.read(key)) != data:
            place = next(at for at, (one, other) in enumerate(zip(data, now, strict=True)) if one != other)
            was, is_now = repr(data[place : place + 16]), repr(now[place : place + 16])
            yield Fault(name, wrong, offset=place, expected=was, actual=is_now)
