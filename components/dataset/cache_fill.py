"""Downloads what a lease lacks: many at once, each hashed as it comes, each by one process of the node at a time."""

import errno
import hashlib
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from components.dataset.cache_folder import CacheFolder, is_same_file, refusals, try_lock
from components.dataset.cache_lease import evict
from components.dataset.cache_progress import FillProgress
from components.errors import BadInput, Interrupted, NodeUnfit
from components.runtime.log import Log
from components.storage.base import ObjectStore

NUM_CONNECTIONS = 16
_CHUNK_BYTES = 1 << 20
_TELL_SECONDS, _WATCH_SECONDS = 5.0, 0.5
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.02, 0.5
_STALLED_SECONDS = 30.0
"""A download by somebody else that gets no bytes for so long is not waited for: it may be suspended."""


@dataclass(frozen=True)
class Wanted:
    """An object of the store, by content."""

    key: str
    size_bytes: int
    sha256: str


class Filler:
    """Brings objects of one store into the cache. `cancelled` ends it within a chunk of each download."""

    def __init__(
        self, folder: CacheFolder, store: ObjectStore, *, log: Log, cancelled: threading.Event,
        num_connections: int = NUM_CONNECTIONS,
    ) -> None:  # fmt: skip
        self._folder, self._store, self._log = folder, store, log
        self._cancelled, self._num_connections = cancelled, num_connections
        self._failed = threading.Event()

    def fill(self, wanted: Sequence[Wanted]) -> FillProgress:
        """Return when every object is in the cache.

        Raises BadInput for one whose content is not what was said, NodeUnfit when the disk is full, what the store
        raises, and Interrupted when cancelled; the first trouble ends the other downloads.
        """
        distinct = list({one.sha256: one for one in wanted}.values())
        progress = FillProgress(len(distinct), sum(one.size_bytes for one in distinct))
        with refusals(self._folder.root):
            missing = [one for one in distinct if not self._is_there(one, progress)]
        progress.begin_downloads()
        pool = ThreadPoolExecutor(self._num_connections, "fill")
        try:
            self._watch([pool.submit(self._bring, one, progress) for one in missing], progress)
        finally:
            self._failed.set()
            pool.shutdown(wait=False, cancel_futures=True)
        return progress

    def _watch(self, running: "list[Future[None]]", progress: FillProgress) -> None:
        pending, tell_at = set(running), time.monotonic() + _TELL_SECONDS
        while pending:
            done, pending = wait(pending, timeout=_WATCH_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            self._go_on()  # also when every download hangs in the store
            if pending and time.monotonic() >= tell_at:
                tell_at += _TELL_SECONDS
                self._log.info(progress.line())

    def _is_there(self, one: Wanted, progress: FillProgress) -> bool:
        if not self._folder.holds(one.sha256, one.size_bytes, now_ns=time.time_ns()):
            return False
        progress.found(one.size_bytes)
        return True

    def _bring(self, one: Wanted, progress: FillProgress) -> None:
        with refusals(self._folder.root):
            part = self._folder.filling / f"{one.sha256}.part"
            waiting = _Waiting()
            while not self._is_there(one, progress):
                descriptor = _open_locked(part)
                if descriptor is not None:
                    try:
                        if not self._is_there(one, progress):
                            self._download(one, descriptor, part, progress)
                        else:
                            part.unlink(missing_ok=True)
                    finally:
                        os.close(descriptor)
                    return
                if waiting.is_stalled(part):
                    part = self._folder.filling / f"{one.sha256}.{os.getpid()}-{threading.get_ident()}.part"
                    continue
                self._go_on()
                waiting.pause()

    def _download(self, one: Wanted, descriptor: int, part: Path, progress: FillProgress) -> None:
        try:
            for is_last in (False, True):
                found, num_bytes = self._copy(one, descriptor, progress)
                if (found, num_bytes) == (one.sha256, one.size_bytes):
                    break
                progress.undo(num_bytes)
                self._refuse(one, found, num_bytes, is_last=is_last)
            os.fsync(descriptor)
            self._folder.admit(part, one.sha256, now_ns=time.time_ns())
            progress.fetched()
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _copy(self, one: Wanted, descriptor: int, progress: FillProgress) -> tuple[str, int]:
        digest, num_bytes = hashlib.sha256(), 0
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        with self._store.open(one.key) as stream:
            while num_bytes <= one.size_bytes and (chunk := stream.read(_CHUNK_BYTES)):
                self._go_on()
                self._write(descriptor, chunk)
                digest.update(chunk)
                num_bytes += len(chunk)
                progress.received(len(chunk))
        return digest.hexdigest(), num_bytes

    def _write(self, descriptor: int, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            try:
                left = left[os.write(descriptor, left) :]
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # Others use the disk too. What nobody uses of the cache makes room, if there is such a thing.
                freed = evict(self._folder, max(len(left), 64 * _CHUNK_BYTES))
                if not freed:
                    seen = f"the disk of {self._folder.root} is full, and all that is cached there is in use"
                    fix = "free space there, or set ARGOSY_CACHE to a folder on another disk"
                    raise NodeUnfit("CacheDiskFull", seen, fix) from error
                self._log.info(f"the disk was full: {freed} bytes of the cache that nobody uses made room")

    def _refuse(self, one: Wanted, found: str, num_bytes: int, *, is_last: bool) -> None:
        seen = (
            f"{self._store.uri_of(one.key)} arrived with {num_bytes} bytes and SHA-256 {found}, "
            f"expected are {one.size_bytes} bytes and SHA-256 {one.sha256}"
        )
        if is_last:
            raise BadInput(
                "ShardDamaged", seen, "it is damaged in the storage: remove it and run the shard stage again"
            )
        self._log.warning(f"{seen}; fetching it again")

    def _go_on(self) -> None:
        if self._cancelled.is_set() or self._failed.is_set():
            raise Interrupted("FillCancelled", "the cache was told to stop filling")


class _Waiting:
    """For somebody else's download."""

    def __init__(self) -> None:
        self._seconds, self._size = _PAUSE_SECONDS, -1
        self._grown_at = time.monotonic()

    def is_stalled(self, part: Path) -> bool:
        try:
            size = part.stat().st_size
        except FileNotFoundError:
            size = -2  # it ended, well or not
        if size != self._size:
            self._size, self._grown_at = size, time.monotonic()
        return time.monotonic() - self._grown_at > _STALLED_SECONDS

    def pause(self) -> None:
        time.sleep(self._seconds)
        self._seconds = min(_MAX_PAUSE_SECONDS, 1.5 * self._seconds)


def _open_locked(part: Path) -> int | None:
    """The file of a download, ours alone; None while somebody has it."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o644)
    if try_lock(descriptor) and is_same_file(descriptor, part):
        return descriptor
    os.close(descriptor)
    return None
