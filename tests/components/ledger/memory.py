"""A store in memory that keeps the two promises; its listings come in any order that is asked for."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from components.storage.base import AlreadyExists, ObjectInfo, ObjectNotFound


class MemoryStore:
    """Objects by key."""

    uri = "memory://"

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects: dict[str, bytes] = dict(objects or {})

    def create(self, key: str, data: bytes | bytearray) -> None:
        if key in self.objects:
            raise AlreadyExists("AlreadyExists", key)
        self.objects[key] = bytes(data)

    def create_from(self, key: str, source: Path) -> str:
        data = source.read_bytes()
        self.create(key, data)
        return hashlib.sha256(data).hexdigest()

    def replace(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def read(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectNotFound("ObjectNotFound", key)
        return self.objects[key]

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.read(key))

    def find(self, key: str) -> ObjectInfo | None:
        return ObjectInfo(key, len(self.objects[key])) if key in self.objects else None

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        start = f"{prefix}/"
        found = sorted([key for key in self.objects if key.startswith(start) and key > after])
        return iter([ObjectInfo(key, len(self.objects[key])) for key in found])

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def uri_of(self, key: str) -> str:
        return f"memory://{key}"

    def local_path(self, key: str) -> Path | None:
        return None
