"""A store that counts what is asked of it, and says that every object must be fetched."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from components.storage.base import ObjectInfo, ObjectStore


class CountingStore:
    """Another store; `requests` holds what S3 would bill: (method, key)."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.requests = store, list[tuple[str, str]]()

    @property
    def uri(self) -> str:
        return self._store.uri

    def create(self, key: str, data: bytes | bytearray) -> None:
        self.requests.append(("PUT", key))
        self._store.create(key, data)

    def create_from(self, key: str, source: Path) -> str:
        self.requests.append(("PUT", key))
        return self._store.create_from(key, source)

    def replace(self, key: str, data: bytes) -> None:
        self.requests.append(("PUT", key))
        self._store.replace(key, data)

    def read(self, key: str) -> bytes:
        self.requests.append(("GET", key))
        return self._store.read(key)

    def open(self, key: str) -> BinaryIO:
        self.requests.append(("GET", key))
        return self._store.open(key)

    def find(self, key: str) -> ObjectInfo | None:
        self.requests.append(("HEAD", key))
        return self._store.find(key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self.requests.append(("LIST", prefix))
        return self._store.list(prefix, after=after)

    def delete(self, key: str) -> None:
        self.requests.append(("DELETE", key))
        self._store.delete(key)

    def uri_of(self, key: str) -> str:
        return self._store.uri_of(key)

    def local_path(self, key: str) -> Path | None:
        return None

    def counted(self) -> dict[str, int]:
        """How many requests of each kind since the last call."""
        counts = Counter(method for method, _ in self.requests)
        self.requests.clear()
        return dict(counts)
