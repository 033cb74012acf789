"""Put a finished object into the store once; a second writer must have made the same bytes."""

import hashlib
from pathlib import Path

from components.errors import BadInput
from components.storage.base import AlreadyExists, ObjectStore

_READ_BYTES = 1 << 20


def publish(store: ObjectStore, key: str, data: bytes | bytearray) -> str:
    """Create the object, or find the same bytes there already; returns their hex SHA-256.

    Raises BadInput when other bytes are there.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        store.create(key, data)
    except AlreadyExists as error:
        _require_same(store, key, sha256, error)
    return sha256


def publish_from(store: ObjectStore, key: str, path: Path) -> str:
    """`publish` of a local file, streamed."""
    try:
        return store.create_from(key, path)
    except AlreadyExists as error:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        _require_same(store, key, sha256, error)
        return sha256


def stored_sha256(store: ObjectStore, key: str) -> str:
    """Hex SHA-256 of an object, streamed."""
    digest = hashlib.sha256()
    with store.open(key) as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _require_same(store: ObjectStore, key: str, sha256: str, error: AlreadyExists) -> None:
    found = stored_sha256(store, key)
    if found != sha256:
        raise BadInput(
            "OutputDiffers",
            f"{store.uri_of(key)} exists with other bytes than this attempt made from the same inputs: sha256 {found}, "
            f"not {sha256}",
            "it is damaged, or an input could be read only once: delete it and run again",
        ) from error
