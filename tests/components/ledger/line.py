"""The store as one actor of a simulated world sees it, through a line on which things go wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from components.errors import Transient
from components.storage.base import AlreadyExists, ObjectInfo, StorageError
from tests.components.ledger.crew import Worker
from tests.components.ledger.invariants import LOG, Violation

if TYPE_CHECKING:
    from tests.components.ledger.simulation import World

Result = TypeVar("Result")


class Crash(BaseException):
    """An actor is killed here."""


class Actor:
    """One process of ours."""

    def __init__(self, kind: str, pace: float, worker: Worker) -> None:
        self.kind, self.pace, self.worker = kind, pace, worker
        self.retiring = 0
        """Within one application of retention: what it saw may be out of date."""


class Line:
    """The store as one actor sees it."""

    uri = "memory://"

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor, self._store = world, actor, world.store

    def create(self, key: str, data: bytes | bytearray) -> None:
        self._do(lambda: self._store.create(key, data), writes=True)

    def replace(self, key: str, data: bytes) -> None:
        self._do(lambda: self._store.replace(key, data), writes=True)

    def delete(self, key: str) -> None:
        self._do(lambda: self._store.delete(key))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._do(lambda: self._store.list(prefix, after=after))

    def open(self, key: str) -> BinaryIO:
        if key.startswith(LOG) and key not in self._store.objects:
            return self._do(lambda: self._store.open(key))
        return self._store.open(key)

    def read(self, key: str) -> bytes:
        return self._store.read(key)

    def find(self, key: str) -> ObjectInfo | None:
        return self._store.find(key)

    def create_from(self, key: str, source: Path) -> str:
        raise Violation("the world has no files")

    def uri_of(self, key: str) -> str:
        return key

    def local_path(self, key: str) -> Path | None:
        return self._store.local_path(key)

    def _do(self, operation: Callable[[], Result], *, writes: bool = False) -> Result:
        fault = self._world.pause(self._actor)
        if not fault:
            return self._counted(operation)
        if fault == "crash before":
            raise Crash
        if fault == "disk full" and writes:
            raise StorageError("StorageRefused", "cannot write: No space left on device")
        if fault in ("lost request", "busy", "conflict") and (writes or fault != "conflict"):
            raise Transient("StorageNotAnswering", fault)
        result = self._counted(operation)
        if fault == "crash after":
            raise Crash
        if fault == "lost answer":
            raise Transient("StorageNotAnswering", fault)
        return result

    def _counted(self, operation: Callable[[], Result]) -> Result:
        try:
            return operation()
        except AlreadyExists:
            self._world.num_refused += 1
            raise
