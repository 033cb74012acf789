"""The promises every crash guarantee rests on: whole objects or none, and one winner of a create."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.errors import BadInput
from components.storage.base import AlreadyExists, ObjectInfo, ObjectNotFound, StorageError, open_store
from components.storage.local import LocalStore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def test_a_created_object_is_read_back_whole(store: LocalStore) -> None:
    store.create("a/b/c", b"bytes")

    assert store.read("a/b/c") == b"bytes"
    assert store.find("a/b/c") == ObjectInfo("a/b/c", 5)


def test_a_second_create_is_refused_and_changes_nothing(store: LocalStore) -> None:
    store.create("a", b"first")

    with pytest.raises(AlreadyExists):
        store.create("a", b"second")
    assert store.read("a") == b"first"


def test_replace_writes_over_and_creates(store: LocalStore) -> None:
    store.replace("state", b"1")
    store.replace("state", b"2")

    assert store.read("state") == b"2"


def test_a_copied_file_is_no_longer_tied_to_its_source(store: LocalStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"before")
    store.create_from("copy", source)
    with source.open("r+b") as file:
        file.write(b"AFTER!")

    assert store.read("copy") == b"before"


def test_listing_follows_the_order_of_keys_and_hides_unfinished_writes(store: LocalStore) -> None:
    for key in ("x/b", "x/a/z", "x/a.txt", "xy/other"):
        store.create(key, b"")
    (store.root / "x" / ".tmp-half").write_bytes(b"torn")

    assert [item.key for item in store.list("x")] == ["x/a.txt", "x/a/z", "x/b"]
    assert list(store.list("nothing/here")) == []


def test_a_missing_object_is_named(store: LocalStore) -> None:
    assert store.find("gone") is None
    with pytest.raises(ObjectNotFound, match="gone"):
        store.read("gone")


def test_delete_is_repeatable_and_leaves_no_empty_folder(store: LocalStore) -> None:
    store.create("a/b/c", b"")
    store.delete("a/b/c")
    store.delete("a/b/c")

    assert not (store.root / "a").exists()


@pytest.mark.parametrize("key", ["", "..", "a/../b", "a//b", "a/./b", ".tmp-x"])
def test_a_key_cannot_leave_the_root(store: LocalStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a storage key"):
        store.create(key, b"")


def test_a_file_in_the_way_is_an_error_with_advice(store: LocalStore) -> None:
    store.create("a", b"")

    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        store.create("a/b", b"")


@pytest.mark.parametrize("uri", ["gopher://x", "relative/path", "file://relative", ""])
def test_an_unknown_storage_uri_says_what_is_accepted(uri: str) -> None:
    with pytest.raises(BadInput, match="file:///absolute/folder"):
        open_store(uri)


def _race(root: Path, start_at: float, worker: int, wins: "multiprocessing.SimpleQueue[tuple[int, int]]") -> None:
    store = LocalStore(root)
    time.sleep(max(0.0, start_at - time.monotonic()))
    for slot in range(40):
        try:
            store.create(f"log/{slot}", str(worker).encode())
        except AlreadyExists:
            continue
        wins.put((slot, worker))
    wins.put((-1, worker))


def test_of_racing_creators_exactly_one_wins_each_slot(store: LocalStore) -> None:
    context = multiprocessing.get_context("spawn")
    wins: multiprocessing.SimpleQueue[tuple[int, int]] = context.SimpleQueue()
    start_at = time.monotonic() + 1.0
    racers = [context.Process(target=_race, args=(store.root, start_at, number, wins)) for number in range(3)]
    for racer in racers:
        racer.start()
    won, finished = [], 0
    while finished < 3:
        slot, worker = wins.get()
        if slot < 0:
            finished += 1
        else:
            won.append((slot, worker))
    for racer in racers:
        racer.join()

    assert sorted(slot for slot, _ in won) == list(range(40))
    assert all(store.read(f"log/{slot}") == str(worker).encode() for slot, worker in won)


def test_a_writer_killed_at_any_moment_leaves_whole_objects_only(store: LocalStore) -> None:
    program = (
        "import sys; from pathlib import Path; from components.storage.local import LocalStore\n"
        "store = LocalStore(Path(sys.argv[1])); number = 0\n"
        "while True: store.create(f'objects/{number}', b'x' * 100_000); number += 1"
    )
    for delay in (0.05, 0.12, 0.2):
        root = store.root / str(delay)
        writer = subprocess.Popen([sys.executable, "-c", program, str(root)], env={**os.environ, "PYTHONPATH": "."})
        deadline = time.monotonic() + 20
        while not (root / "objects" / "0").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        sizes = {item.size_bytes for item in LocalStore(root).list("objects")}

        assert sizes == {100_000}
        if _has_nameless_files(root):
            assert not list(root.rglob(".tmp-*"))


def _has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True
