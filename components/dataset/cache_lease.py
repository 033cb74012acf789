"""What a gang uses in the cache, and what may go when room is needed: the least recently used of what nobody uses."""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from components.contracts.units import format_size
from components.dataset.cache_folder import Blob, CacheFolder, is_same_file, refusals, try_lock
from components.errors import BadInput, NodeUnfit, Transient
from components.runtime.processes import start_time

_RESERVE = 0.05
"""Share of the disk that a cache without a bound leaves free, as far as removing blobs can do that."""


@dataclass(frozen=True)
class Claim:
    """A lease as others see it."""

    holder: str
    pid: int
    files: Mapping[str, int]
    """Size by digest."""

    def __str__(self) -> str:
        return f"{self.holder} (pid {self.pid}): {format_size(sum(self.files.values()))}"


class Lease:
    """Keeps files in the cache until it is closed or its process ends."""

    def __init__(self, folder: CacheFolder, name: str, descriptor: int, files: Mapping[str, int]) -> None:
        self.folder, self.files = folder, files
        self._name, self._descriptor = name, descriptor

    @property
    def view(self) -> Path:
        """A folder of our own, gone with the lease."""
        return self.folder.views / self._name

    def close(self) -> None:
        """The files may go from now on. The view is removed."""
        if self._descriptor >= 0:
            _remove(self.folder, self._name)
            os.close(self._descriptor)
            self._descriptor = -1


def hold(
    folder: CacheFolder, files: Mapping[str, int], *, holder: str, max_bytes: int | None, now_ns: int
) -> tuple[Lease, int]:
    """A lease on `files` (size by digest), there or not, with room made for them; how many bytes had to go for that.

    Raises BadInput when they can never fit, Transient when others use the room now, NodeUnfit when the disk is full.
    """
    with refusals(folder.root), folder.locked():
        claims = _living(folder)
        _sweep(folder)
        freed = _make_room(folder, files, claims, max_bytes=max_bytes)
        # What is there and untouched is used from now on; what is not will be, once it is filled.
        for sha256, size_bytes in files.items():
            folder.holds(sha256, size_bytes, now_ns=now_ns)
        return _create(folder, files, holder), freed


def evict(folder: CacheFolder, need_bytes: int) -> int:
    """Remove what nobody uses, at least `need_bytes` if there is so much; how many bytes went."""
    with refusals(folder.root), folder.locked():
        used = {sha256 for claim in _living(folder) for sha256 in claim.files}
        return _remove_blobs(folder, victims(folder.present().values(), keep=used, need_bytes=need_bytes))


def victims(blobs: Iterable[Blob], *, keep: Iterable[str], need_bytes: int) -> list[Blob]:
    """The least recently used blobs outside `keep`, just enough for `need_bytes`, or all there are."""
    kept, chosen = frozenset(keep), list[Blob]()
    for blob in sorted(blobs, key=lambda blob: (blob.used_ns, blob.sha256)):
        if need_bytes <= 0:
            break
        if blob.sha256 not in kept:
            chosen.append(blob)
            need_bytes -= blob.size_bytes
    return chosen


def _make_room(folder: CacheFolder, files: Mapping[str, int], claims: list[Claim], *, max_bytes: int | None) -> int:
    present = folder.present()
    claimed = {sha256: size for claim in claims for sha256, size in claim.files.items()} | dict(files)
    coming = sum(size for sha256, size in claimed.items() if sha256 not in present) - _being_filled(folder)
    there = sum(blob.size_bytes for blob in present.values())
    free, disk = folder.free_bytes()
    must_go = coming - free
    should_go = must_go + int(disk * _RESERVE)
    if max_bytes is not None:
        _require_fit(folder, files, claimed, claims, max_bytes)
        should_go = max(must_go, there + coming - max_bytes)
    freed = _remove_blobs(folder, victims(present.values(), keep=claimed, need_bytes=should_go))
    if freed < must_go:
        seen = f"the disk of {folder.root} has {format_size(free + freed)} free, {format_size(coming)} are needed"
        raise NodeUnfit("CacheDiskFull", seen, "free space there, or set ARGOSY_CACHE to a folder on another disk")
    return freed


def _require_fit(
    folder: CacheFolder, files: Mapping[str, int], claimed: Mapping[str, int], claims: list[Claim], max_bytes: int
) -> None:
    own, everybody = sum(files.values()), sum(claimed.values())
    bound = f"the cache {folder.root} may hold {format_size(max_bytes)}"
    if own > max_bytes:
        seen = f"{bound}, the data set has {format_size(own)}"
        raise BadInput("CacheTooSmall", seen, f"set ARGOSY_CACHE_SIZE to at least {own}B, or leave it out")
    if everybody > max_bytes:
        seen = f"{bound}, {format_size(own)} are needed, and in use are {'; '.join(str(claim) for claim in claims)}"
        raise Transient("CacheInUse", seen, "wait until they end, or raise ARGOSY_CACHE_SIZE")


def _being_filled(folder: CacheFolder) -> int:
    """Bytes that downloads of others occupy already."""
    num_bytes = 0
    for path in folder.filling.iterdir():
        with suppress(FileNotFoundError):
            num_bytes += path.stat().st_size
    return num_bytes


def _remove_blobs(folder: CacheFolder, blobs: Iterable[Blob]) -> int:
    freed = 0
    for blob in blobs:
        folder.blob(blob.sha256).unlink(missing_ok=True)
        freed += blob.size_bytes
    return freed


def _create(folder: CacheFolder, files: Mapping[str, int], holder: str) -> Lease:
    name = uuid.uuid4().hex
    unfinished = folder.leases / f".{name}"
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        if not try_lock(descriptor):
            raise AssertionError(f"{unfinished} is locked by somebody else")
        document = {
            "holder": holder, "pid": os.getpid(), "started": start_time(os.getpid()), "files": dict(files),
        }  # fmt: skip
        with os.fdopen(os.dup(descriptor), "w") as file:
            json.dump(document, file)
        unfinished.rename(folder.leases / f"{name}.json")
    except BaseException:
        unfinished.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return Lease(folder, name, descriptor, files)


def _living(folder: CacheFolder) -> list[Claim]:
    """Leases whose process lives; those of the dead are removed with their views. The folder must be locked."""
    claims = []
    for path in sorted(folder.leases.iterdir()):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue  # closed just now
        try:
            if not try_lock(descriptor):
                document = json.loads(path.read_bytes())
                claims.append(Claim(document["holder"], document["pid"], document["files"]))
            elif is_same_file(descriptor, path):
                _remove(folder, path.stem)
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
        finally:
            os.close(descriptor)
    return claims


def _remove(folder: CacheFolder, name: str) -> None:
    """The view first: a lease without view is harmless, a view without lease would stay."""
    shutil.rmtree(folder.views / name, ignore_errors=True)
    with suppress(OSError):
        (folder.leases / f"{name}.json").unlink(missing_ok=True)


def _sweep(folder: CacheFolder) -> None:
    """Remove downloads that nobody works on, and views without a lease: the lease is made first and goes last."""
    for view in folder.views.iterdir():
        if not (folder.leases / f"{view.name}.json").exists():
            shutil.rmtree(view, ignore_errors=True)
    for path in folder.filling.iterdir():
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                if try_lock(descriptor) and is_same_file(descriptor, path):
                    path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
