"""The data set where the ranks run: in place when the storage is a folder here, else in this node's cache.

    with open_data(store, "d-0123456789abcdef", run="gpt-tiny-bcdfg", log=log) as data:
        start_ranks(env={"ARGOSY_DATA": str(data.manifest_path)})

One cache a node, shared by all runs: `$ARGOSY_CACHE`, by default `cache` in `$ARGOSY_HOME`. Files are known by their
SHA-256, so data versions share what they have in common, and everything is proven on its way in. `$ARGOSY_CACHE_SIZE`
(`200GiB`) bounds it: the bound belongs to the machine, not to a run. Without it, the disk does, but for a twentieth.
What no running gang uses goes first, the least recently used of it.

`file://` storage is read where it lies: a copy would be a second one on the same machine. Where it is a mount that all
nodes share, `ARGOSY_CACHE_MOUNTS=true` has it copied.
"""

import os
import posixpath
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from components.contracts.dataset import ShardManifest
from components.contracts.layout import shard_manifest_key
from components.contracts.units import format_size, parse_size
from components.dataset.cache_fill import NUM_CONNECTIONS, Filler, Wanted
from components.dataset.cache_folder import CacheFolder, refusals
from components.dataset.cache_lease import Lease, hold
from components.dataset.sidecars import sidecars
from components.errors import BadInput, Transient
from components.runtime.log import Log
from components.storage.base import ObjectStore, key_parts


@dataclass(frozen=True)
class CacheSettings:
    """Where the node's cache is, how large it may grow, and whether it copies what is mounted here."""

    root: Path
    max_bytes: int | None = None
    copies_mounts: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> "CacheSettings":
        """What the environment says. Raises BadInput."""
        home = environ.get("ARGOSY_HOME") or "~/.local/state/argosy"
        root = Path(environ.get("ARGOSY_CACHE") or f"{home}/cache").expanduser().absolute()
        mounts = environ.get("ARGOSY_CACHE_MOUNTS") or "false"
        if mounts not in ("true", "false"):
            raise BadInput("BadVariable", f"ARGOSY_CACHE_MOUNTS is {mounts!r}", "set true or false, or leave it out")
        size = environ.get("ARGOSY_CACHE_SIZE")
        try:
            max_bytes = parse_size(size) if size else None
        except ValueError as error:
            raise BadInput("BadVariable", f"ARGOSY_CACHE_SIZE is {error}") from error
        return cls(root, max_bytes, mounts == "true")


class LocalData:
    """A data set of this node. Its files stay until it is closed or this process ends."""

    def __init__(self, manifest_path: Path, lease: Lease | None = None) -> None:
        self.manifest_path = manifest_path
        """Of a shard manifest whose relative paths hold here."""
        self._lease = lease

    def close(self) -> None:
        """The ranks are gone: others may have the room."""
        if self._lease is not None:
            self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_data(
    store: ObjectStore, data_version: str, *, run: str, log: Log, settings: CacheSettings | None = None,
    cancelled: threading.Event | None = None, num_connections: int = NUM_CONNECTIONS,
) -> LocalData:  # fmt: skip
    """The data set on this node, every file proven against the manifest unless it is read in place.

    Raises BadInput (damaged or missing shard, a cache too small for it), NodeUnfit (disk), Transient (store, cache in
    use by others) and Interrupted once `cancelled`.
    """
    settings = settings or CacheSettings.of()
    key = shard_manifest_key(data_version)
    in_place = store.local_path(key)
    if in_place is not None and not settings.copies_mounts:
        return LocalData(in_place)
    raw = store.read(key)
    manifest = ShardManifest.from_bytes(raw, where=store.uri_of(key))
    wanted = _files_of(manifest, key)
    folder = CacheFolder(settings.root)
    folder.create()
    lease, freed = hold(
        folder, {one.sha256: one.size_bytes for one in wanted}, holder=run, max_bytes=settings.max_bytes,
        now_ns=time.time_ns(),
    )  # fmt: skip
    try:
        if freed:
            log.info(f"data: {format_size(freed)} that nobody uses left the cache {folder.root}")
        filler = Filler(
            folder, store, log=log, cancelled=cancelled or threading.Event(), num_connections=num_connections
        )
        progress = filler.fill(wanted)
        log.info(progress.summary(), cache=str(folder.root))
        with refusals(folder.root):
            return LocalData(_lay_out(lease, wanted, key, {**sidecars(manifest), posixpath.basename(key): raw}), lease)
    except BaseException:
        lease.close()
        raise


def _files_of(manifest: ShardManifest, key: str) -> list[Wanted]:
    start, wanted = posixpath.dirname(key), []
    for shard in manifest.shards:
        for file in shard.files:
            place = posixpath.normpath(posixpath.join(start, file.path))
            try:
                key_parts(place)
            except ValueError as error:
                seen = f"the manifest {key} names {file.path}, which lies outside the storage"
                raise BadInput("BadShardPath", seen, "run the shard stage again") from error
            wanted.append(Wanted(place, file.size_bytes, file.sha256))
    return wanted


def _lay_out(lease: Lease, wanted: Sequence[Wanted], key: str, beside: Mapping[str, bytes]) -> Path:
    """The storage's own folders, as far as the manifest reaches, with links instead of copies; `beside` them the
    manifest and what loaders expect there.
    """
    for one in wanted:
        path = lease.view / one.key
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _link(lease.folder.blob(one.sha256), path)
    path = lease.view / key
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, data in beside.items():
        path.with_name(name).write_bytes(data)
    return path


def _link(blob: Path, path: Path) -> None:
    """A hard link, so that the view holds without the rest of the cache; where it cannot be, a symbolic one."""
    with suppress(OSError):
        path.hardlink_to(blob)
        return
    if not blob.exists():
        raise Transient("CacheChanged", f"{blob} was removed while it was in use", "leave the cache folder alone")
    path.symlink_to(blob)
