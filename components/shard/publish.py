"""Put a finished object into the store once; a second writer must have made the same bytes."""

import hashlib

from components.errors import BadInput
from components.storage.base import AlreadyExists, ObjectStore

_READ_BYTES = 1 << 20


def publish(store: ObjectStore, key: str, data: bytes | bytearray, *, sha256: str) -> None:
    """Create the object, or find the same bytes there already. Raises BadInput when other bytes are there."""
    try:
        store.create(key, data)
    except AlreadyExists as error:
        if stored_sha256(store, key) != sha256:
            raise BadInput(
                "OutputDiffers",
                f"{store.uri_of(key)} exists with other bytes than this attempt made from the same plan",
                f"it is damaged, or an input could be read only once: delete {store.uri_of(key.rpartition('/')[0])} "
                "and run again",
            ) from error


def stored_sha256(store: ObjectStore, key: str) -> str:
    """Hex SHA-256 of an object, streamed."""
    digest = hashlib.sha256()
    with store.open(key) as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
