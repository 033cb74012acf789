"""`s3://` storage: an object is one PUT, atomic by nature; `If-None-Match: *` makes it the conditional write.

An answer that does not come says nothing about what was done. After one, `create` looks: bytes are written once, so an
object that holds exactly what was sent is as good as our own, whoever wrote it; another one means that we lost.
"""

import contextlib
import functools
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from components.errors import Transient
from components.storage.base import (
    UNFINISHED,
    AlreadyExists,
    ObjectInfo,
    ObjectNotFound,
    StorageError,
    StorageMisnamed,
    key_parts,
)
from components.storage.location import S3Location, StoreOptions
from components.storage.patience import BRIEF, FULL, Patience, Tries
from components.storage.s3_client import make_client
from components.storage.s3_digest import holds
from components.storage.s3_errors import FAILURES, Meaning, Trouble, explain
from components.storage.s3_stream import BUFFER_BYTES, ObjectStream
from components.storage.s3_upload import FileUpload, Upload

Answer = TypeVar("Answer")

_WHERE = "check that the store is up, storage_options.endpoint (AWS_ENDPOINT_URL_S3) and the network"


def open_s3(place: S3Location, options: StoreOptions, *, is_patient: bool = True) -> "S3Store":
    """The store at `place`, the same one each time. Raises StorageMisnamed for settings no client can be made with."""
    environment = frozenset(item for item in os.environ.items() if item[0].startswith("AWS_"))
    return _opened(place, options, is_patient, environment)


@functools.lru_cache(maxsize=8)  # a stage opens its store more than once, and a client takes 0.15 s to make
def _opened(
    place: S3Location, options: StoreOptions, is_patient: bool, environment: frozenset[tuple[str, str]]
) -> "S3Store":
    client = _clients.get((options, environment))
    if client is None:
        client = _clients[options, environment] = make_client(options, uri=place.uri)
    return S3Store(place, client, patience=FULL if is_patient else BRIEF)


_clients = dict[tuple[StoreOptions, frozenset[tuple[str, str]]], Any]()
"""Stores that are reached alike share one, and with it connections, credentials and the certificates that it trusts."""


class S3Store:
    """A bucket of Amazon S3 or of a store that speaks its language, or the part of one below a prefix."""

    def __init__(self, place: S3Location, client: Any, *, patience: Patience = FULL) -> None:
        self._place, self._client, self._patience = place, client, patience
        self._root = f"{place.prefix}/" if place.prefix else ""
        self._is_given_up = False
        """It did not answer in all our patience: until it answers again, nobody waits that long for it."""
        self._has_worked = False

    @property
    def uri(self) -> str:
        return self._place.uri

    def create(self, key: str, data: bytes | bytearray) -> None:
        self._create(key, Upload(data))

    def create_from(self, key: str, source: Path) -> str:
        upload = FileUpload(source)
        self._create(key, upload)
        return upload.sha256

    def replace(self, key: str, data: bytes) -> None:
        named, upload = self._named(key), Upload(data)
        self._ask("write", key, lambda: self._client.put_object(**named, **upload.headers(key), Body=data))

    def read(self, key: str) -> bytes:
        named = self._named(key)

        def whole() -> bytes:
            with contextlib.closing(self._client.get_object(**named, ChecksumMode="ENABLED")["Body"]) as body:
                data: bytes = body.read()
                return data

        return self._ask("read", key, whole)

    def read_range(self, key: str, start: int, end: int, *, version: str = "") -> bytes:
        """The bytes [start, end) of an object that has some there.

        Raises ObjectNotFound, and Transient `ObjectChanged` when `ObjectInfo.version` was another.
        """
        asked = self._named(key) | ({"IfMatch": version} if version else {})

        def part() -> bytes:
            with contextlib.closing(self._client.get_object(**asked, Range=f"bytes={start}-{end - 1}")["Body"]) as body:
                data: bytes = body.read()
                return data

        return self._ask("read", key, part)

    def open(self, key: str) -> BinaryIO:
        named = self._named(key)
        first = self._ask("read", key, lambda: self._client.get_object(**named))
        size_bytes = int(first["ContentLength"])
        version = {"IfMatch": first["ETag"]} if first.get("ETag") else {}

        def rest(position: int) -> Any:
            answer = self._client.get_object(**named, **version, Range=f"bytes={position}-")
            if answer.get("ContentRange") != f"bytes {position}-{size_bytes - 1}/{size_bytes}":
                answer["Body"].close()
                seen = f"{self.uri_of(key)} cannot be read from byte {position} on: the store ignores Range"
                raise StorageError("StorageRefused", seen, "use another store")
            return answer["Body"]

        def wait(failure: Exception | None, tries: Tries) -> None:
            ended = Trouble(Meaning.UNKNOWN, "the answer ended early")
            self._raise_or_wait("read", key, explain(failure) if failure else ended, tries)

        stream = ObjectStream(
            first["Body"], size_bytes=size_bytes, again=rest, give_up_or_wait=wait, tries=self._begin, failures=FAILURES
        )
        return io.BufferedReader(stream, BUFFER_BYTES)

    def find(self, key: str) -> ObjectInfo | None:
        head = self._head(key)
        return None if head is None else ObjectInfo(key, int(head["ContentLength"]), head.get("ETag", ""))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = f"{self._root}{'/'.join(key_parts(prefix))}/"
        token = {"StartAfter": f"{self._root}{after}"} if after else {}
        before = ""
        while True:
            asked = {"Bucket": self._place.bucket, "Prefix": folder, **token}
            page = self._ask("list", prefix, functools.partial(self._client.list_objects_v2, **asked))
            for item in page.get("Contents", ()):
                key = item["Key"].removeprefix(self._root)
                if key.encode() <= before.encode():
                    seen = f"{self.uri_of(prefix)} is listed out of order: {key} after {before}"
                    raise StorageError("UnorderedListing", seen, "use a general purpose bucket")
                before = key
                if key.encode() <= after.encode():
                    continue  # a store that does not know StartAfter
                if not key.endswith("/") and f"/{UNFINISHED}" not in key:  # consoles make objects for folders
                    yield ObjectInfo(key, int(item["Size"]), item.get("ETag", ""))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectNotFound):
            self._ask("delete", key, lambda: self._client.delete_object(**self._named(key)))

    def uri_of(self, key: str) -> str:
        return f"{self.uri}/{key}"

    def local_path(self, key: str) -> Path | None:
        return None

    # --- one object

    def _named(self, key: str) -> dict[str, str]:
        return {"Bucket": self._place.bucket, "Key": self._root + "/".join(key_parts(key))}

    def _create(self, key: str, upload: Upload) -> None:
        tries, is_doubtful = self._begin(), False
        while (trouble := self._put_new(key, upload)) is not None:
            if trouble.meaning is Meaning.TAKEN and not is_doubtful:
                raise self._taken(key)
            upload.require_unchanged()
            is_doubtful |= trouble.meaning is Meaning.UNKNOWN
            if is_doubtful and trouble.meaning is not Meaning.REFUSED:
                head = self._head(key, ChecksumMode="ENABLED")
                if head is not None and holds(head, upload, read=lambda: self.open(key)):
                    return
                if head is not None:
                    raise self._taken(key)
            if trouble.meaning is Meaning.TAKEN:
                trouble = Trouble(Meaning.UNKNOWN, "the object exists for writing, but not for reading")
            self._raise_or_wait("write", key, trouble, tries)

    def _put_new(self, key: str, upload: Upload) -> Trouble | None:
        """One conditional PUT; None when it succeeded."""
        body = upload.body()
        try:
            self._client.put_object(**self._named(key), **upload.headers(key), Body=body, IfNoneMatch="*")
        except FAILURES as error:
            return explain(error)
        finally:
            if hasattr(body, "close"):
                body.close()
        self._on_success()
        return None

    def _taken(self, key: str) -> AlreadyExists:
        return AlreadyExists("AlreadyExists", f"{self.uri_of(key)} exists already")

    def _head(self, key: str, **more: str) -> Any:
        named = self._named(key)
        try:
            return self._ask("read", key, lambda: self._client.head_object(**named, **more))
        except ObjectNotFound:
            if not self._has_worked:  # no text comes with it: perhaps there is not even a bucket
                self._require_bucket()
            return None

    def _require_bucket(self) -> None:
        with contextlib.suppress(_AccessDenied):
            self._ask("list", "", lambda: self._client.list_objects_v2(Bucket=self._place.bucket, MaxKeys=1))

    # --- asking, and asking again

    def _ask(self, verb: str, key: str, request: Callable[[], Answer]) -> Answer:
        """The answer to a request that may be repeated. Raises ObjectNotFound, StorageError, Transient."""
        tries = self._begin()
        while True:
            try:
                answer = request()
            except FAILURES as error:
                trouble = explain(error)
                if trouble.needs_body:
                    trouble = self._explain_fully(key) or trouble
                self._raise_or_wait(verb, key, trouble, tries)
            else:
                self._on_success()
                return answer

    def _explain_fully(self, key: str) -> Trouble | None:
        try:
            self._client.get_object(**self._named(key), Range="bytes=0-0")["Body"].close()
        except FAILURES as error:
            return explain(error)
        return None

    def _raise_or_wait(self, verb: str, key: str, trouble: Trouble, tries: Tries) -> None:
        """Returns when the request should be tried again."""
        where = self.uri_of(key).rstrip("/")
        match trouble.meaning:
            case Meaning.MISSING if verb != "write":
                raise ObjectNotFound("ObjectNotFound", f"{where} does not exist")
            case Meaning.MISSING:
                seen = f"cannot write {where}: {trouble.seen}"
                raise StorageMisnamed("NotAnS3Store", seen, "correct storage_options.endpoint (AWS_ENDPOINT_URL_S3)")
            case Meaning.TAKEN:
                raise Transient("ObjectChanged", f"{where} changed while it was being read", "read it again")
            case Meaning.REFUSED:
                self._is_given_up = False
                kind = _AccessDenied if trouble.reason == "AccessDenied" else trouble.kind
                raise kind(trouble.reason, f"cannot {verb} {where}: {trouble.seen}", trouble.fix)
        if not tries.wait(slow_down=trouble.slow_down, at_least_seconds=trouble.wait_seconds):
            self._is_given_up = True
            if trouble.reason and not self._has_worked:
                raise trouble.kind(trouble.reason, f"cannot {verb} {where}: {trouble.seen}", trouble.fix)
            seen = f"cannot {verb} {where}: {trouble.seen}; asked {tries.num_failed} times"
            raise Transient("StorageNotAnswering", seen, _WHERE)

    def _begin(self) -> Tries:
        return (BRIEF if self._is_given_up else self._patience).begin()

    def _on_success(self) -> None:
        self._is_given_up, self._has_worked = False, True


class _AccessDenied(StorageError):
    """Known by its own class, because not being allowed to list says nothing about a bucket."""
