"""Object stores behind one protocol: flat keys, whole objects, atomic writes, one conditional write.

Everything Argosy guarantees about crashes rests on two promises a store makes: an object is either absent or complete,
and of several writers that `create` the same key exactly one succeeds.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from components.errors import ArgosyError, ExitCode
from components.storage.location import S3Location, StoreOptions, parse_location

UNFINISHED = ".tmp-"
"""How names of unfinished files begin; no key has such a segment and no listing shows one."""


class StorageError(ArgosyError):
    """The store refused: permission, a full disk, a path that is not a folder. Not worth retrying as is."""

    exit_code = ExitCode.ENVIRONMENT_UNFIT


class StorageMisnamed(StorageError):
    """There is no such store for us: bucket, region, endpoint or credentials are wrong."""

    exit_code = ExitCode.BAD_INPUT


class ObjectNotFound(ArgosyError):
    """There is no object of that key."""

    exit_code = ExitCode.BAD_INPUT


class AlreadyExists(ArgosyError):
    """`create` found an object there already; nothing was written."""

    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True)
class ObjectInfo:
    """What a listing tells: key relative to the store's root, size in bytes."""

    key: str
    size_bytes: int
    version: str = field(default="", compare=False)
    """What the store calls this state of the object, such as an ETag; empty where it has no such thing."""


class ObjectStore(Protocol):
    """A store rooted at `uri`. Keys are relative, `/`-separated, without `.` and `..`.

    Every method raises StorageError when the store refuses and Transient when it does not answer.
    """

    @property
    def uri(self) -> str: ...

    def create(self, key: str, data: bytes | bytearray) -> None:
        """Write a new object, durable on return. Raises AlreadyExists when the key is taken and we did not write it.

        Transient says nothing about whether it was written: ask again, or look. Where an answer got lost and the object
        is found to hold exactly `data`, that is success.
        """

    def create_from(self, key: str, source: Path) -> str:
        """`create` from a local file, streamed; returns the hex SHA-256 of what was written.

        The file is copied, never linked, so later edits cannot reach it.
        """

    def replace(self, key: str, data: bytes) -> None:
        """Write an object whether or not it exists. For state documents only; data is write-once."""

    def read(self, key: str) -> bytes:
        """The whole object. Raises ObjectNotFound."""

    def open(self, key: str) -> BinaryIO:
        """The object as a stream of bytes. Raises ObjectNotFound."""

    def find(self, key: str) -> ObjectInfo | None:
        """The object's size, or None when there is none."""

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with `prefix` + `/`, in the order of their keys. Unfinished writes never appear.

        With `after` only keys that follow this one, whether or not there is such an object: a page of a long listing.
        """

    def delete(self, key: str) -> None:
        """Remove the object; no error when it is already gone."""

    def uri_of(self, key: str) -> str:
        """What people and programs call the object."""

    def local_path(self, key: str) -> Path | None:
        """Where the object lies on this machine, or None when it must be fetched first."""


def open_store(uri: str, options: StoreOptions | None = None, *, is_patient: bool = True) -> ObjectStore:
    """The store at `uri`: `file:///absolute/folder` or `s3://bucket/prefix`. Raises BadInput for anything else.

    What `options` leaves open, the environment says (`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, ...); credentials come from
    there alone. Nothing is asked of the store yet. For people at a terminal, who are not patient, a store that does not
    answer is given up on after seconds instead of a minute.
    """
    place = parse_location(uri)
    if isinstance(place, S3Location):
        from components.storage.s3 import open_s3  # boto3 takes a third of a second to load

        around = StoreOptions.of_environment(os.environ)
        return open_s3(place, (options or StoreOptions()).over(around), is_patient=is_patient)
    from components.storage.local import LocalStore

    return LocalStore(place.folder)


def key_parts(key: str) -> list[str]:
    """The segments of a key. Raises ValueError for one that could leave the root or hide among unfinished writes."""
    parts = key.strip("/").split("/")
    if any(part in ("", ".", "..") or part.startswith(UNFINISHED) for part in parts):
        raise ValueError(f"not a storage key: {key!r}")
    return parts
