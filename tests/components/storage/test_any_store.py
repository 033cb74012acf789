"""What every store promises, asked of a folder and of a real S3 server alike."""

import hashlib
import io
import threading
from pathlib import Path

import pytest

from components.errors import ArgosyError
from components.storage.base import AlreadyExists, ObjectInfo, ObjectNotFound, ObjectStore
from components.storage.probe import probe_conditional_writes


def test_a_created_object_is_read_back_whole(any_store: ObjectStore) -> None:
    any_store.create("a/b/c", b"bytes")

    assert any_store.read("a/b/c") == b"bytes"
    assert any_store.find("a/b/c") == ObjectInfo("a/b/c", 5)


def test_an_empty_object_exists(any_store: ObjectStore) -> None:
    any_store.create("marks/READY", b"")

    assert any_store.read("marks/READY") == b""
    assert any_store.find("marks/READY") == ObjectInfo("marks/READY", 0)
    with any_store.open("marks/READY") as stream:
        assert stream.read() == b""


def test_a_bytearray_is_as_good_as_bytes(any_store: ObjectStore) -> None:
    any_store.create("shard", bytearray(b"\x00\x01"))

    assert any_store.read("shard") == b"\x00\x01"


def test_a_second_create_is_refused_and_changes_nothing(any_store: ObjectStore) -> None:
    any_store.create("a", b"first")

    for again in (b"second", b"first"):
        with pytest.raises(AlreadyExists, match=r"/a exists already"):
            any_store.create("a", again)
    assert any_store.read("a") == b"first"


def test_replace_writes_over_and_creates(any_store: ObjectStore) -> None:
    any_store.replace("state", b"1")
    any_store.replace("state", b"22")

    assert any_store.read("state") == b"22"


def test_a_file_is_copied_with_its_digest_and_no_longer_tied_to_it(any_store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"before" * 100_000)
    digest = any_store.create_from("copy", source)
    with source.open("r+b") as file:
        file.write(b"AFTER!")

    assert any_store.read("copy") == b"before" * 100_000
    assert digest == hashlib.sha256(b"before" * 100_000).hexdigest()
    with pytest.raises(AlreadyExists):
        any_store.create_from("copy", source)


def test_an_empty_file_is_copied(any_store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    digest = any_store.create_from("empty", tmp_path / "empty")

    assert digest == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert any_store.find("empty") == ObjectInfo("empty", 0)


def test_a_file_that_is_not_there_is_an_error_that_names_it(any_store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="No such file"):
        any_store.create_from("copy", tmp_path / "gone")
    assert any_store.find("copy") is None


def test_a_stream_can_be_read_in_any_pieces(any_store: ObjectStore) -> None:
    data = bytes(range(256)) * 4000
    any_store.create("data", data)

    with any_store.open("data") as stream:
        assert stream.read(10) == data[:10]
        assert stream.read(700_000) == data[10:700_010]
        assert stream.read() == data[700_010:]
        assert stream.read(1) == b""
    buffer = bytearray(1 << 20)
    with any_store.open("data") as stream:
        assert stream.readinto(buffer) == len(data)  # type: ignore[attr-defined]
    assert bytes(buffer[: len(data)]) == data


def test_a_stream_may_be_closed_before_its_end(any_store: ObjectStore) -> None:
    any_store.create("data", bytes(3_000_000))

    stream = any_store.open("data")
    assert stream.read(1) == b"\0"
    stream.close()
    stream.close()


def test_a_stream_gives_lines(any_store: ObjectStore) -> None:
    any_store.create("log.jsonl", b'{"a": 1}\n{"a": 2}\n')

    with io.TextIOWrapper(any_store.open("log.jsonl"), encoding="utf-8") as stream:
        assert list(stream) == ['{"a": 1}\n', '{"a": 2}\n']


def test_listing_follows_the_order_of_keys(any_store: ObjectStore) -> None:
    for key in ("x/b", "x/a/z", "x/a.txt", "xy/other", "x/a-b", "x/é", "x/Z", "x/a b+c%20"):
        any_store.create(key, b"12")

    assert [item.key for item in any_store.list("x")] == [
        "x/Z", "x/a b+c%20", "x/a-b", "x/a.txt", "x/a/z", "x/b", "x/é",
    ]  # fmt: skip
    assert {item.size_bytes for item in any_store.list("x")} == {2}
    assert [item.key for item in any_store.list("x/a")] == ["x/a/z"]
    assert list(any_store.list("nothing/here")) == []


@pytest.mark.parametrize(
    ("after", "left"),
    [("", ["x/Z", "x/a-b", "x/a/y", "x/a/z", "x/b"]), ("x/Z", ["x/a-b", "x/a/y", "x/a/z", "x/b"]),
     ("x/a", ["x/a-b", "x/a/y", "x/a/z", "x/b"]), ("x/a-c", ["x/a/y", "x/a/z", "x/b"]),
     ("x/a/y", ["x/a/z", "x/b"]), ("x/a/y/deeper", ["x/a/z", "x/b"]), ("x/a/z", ["x/b"]), ("x/a0", ["x/b"]),
     ("x/b", []), ("y", [])],
)  # fmt: skip
def test_a_listing_may_begin_after_any_key(any_store: ObjectStore, after: str, left: list[str]) -> None:
    for key in ("x/Z", "x/a-b", "x/a/y", "x/a/z", "x/b"):
        any_store.create(key, b"")

    assert [item.key for item in any_store.list("x", after=after)] == left


def test_a_missing_object_is_named(any_store: ObjectStore) -> None:
    assert any_store.find("gone") is None
    for look in (any_store.read, any_store.open):
        with pytest.raises(ObjectNotFound, match="gone does not exist"):
            look("gone")


def test_delete_is_repeatable(any_store: ObjectStore) -> None:
    any_store.create("a/b/c", b"")
    any_store.delete("a/b/c")
    any_store.delete("a/b/c")

    assert any_store.find("a/b/c") is None
    assert list(any_store.list("a")) == []


@pytest.mark.parametrize("key", ["", "..", "a/../b", "a//b", "a/./b", ".tmp-x", "a/.tmp-x/b"])
def test_a_key_cannot_leave_the_root(any_store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a storage key"):
        any_store.create(key, b"")
    with pytest.raises(ValueError, match="not a storage key"):
        any_store.read(key)


def test_an_object_has_the_uri_of_the_store_and_its_key(any_store: ObjectStore) -> None:
    assert any_store.uri_of("a/b") == f"{any_store.uri}/a/b"


def test_of_racing_threads_exactly_one_wins_each_slot(any_store: ObjectStore) -> None:
    won: list[tuple[int, int]] = []
    barrier = threading.Barrier(4)

    def race(worker: int) -> None:
        for slot in range(15):
            barrier.wait()
            try:
                any_store.create(f"log/{slot}", str(worker).encode())
            except AlreadyExists:
                continue
            won.append((slot, worker))

    racers = [threading.Thread(target=race, args=(worker,)) for worker in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(slot for slot, _ in won) == list(range(15))
    assert all(any_store.read(f"log/{slot}") == str(worker).encode() for slot, worker in won)


def test_a_good_store_passes_the_probe_and_keeps_nothing_of_it(any_store: ObjectStore) -> None:
    assert probe_conditional_writes(any_store, folder="probes") == ""
    assert list(any_store.list("probes")) == []
