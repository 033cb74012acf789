"""What only a folder can get wrong: unfinished files, files in the way, other processes, kills."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from components.storage.base import AlreadyExists, StorageError
from components.storage.local import LocalStore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def test_listing_hides_unfinished_writes(store: LocalStore) -> None:
    store.create("x/a", b"")
    (store.root / "x" / ".tmp-half").write_bytes(b"torn")

    assert [item.key for item in store.list("x")] == ["x/a"]


def test_delete_leaves_no_empty_folder(store: LocalStore) -> None:
    store.create("a/b/c", b"")
    store.delete("a/b/c")

    assert not (store.root / "a").exists()


def test_a_file_in_the_way_is_an_error_with_advice(store: LocalStore) -> None:
    store.create("a", b"")

    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        store.create("a/b", b"")


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


def test_creating_beside_others_that_empty_the_folder_never_claims_that_the_object_exists(tmp_path: Path) -> None:
    store, refusals = LocalStore(tmp_path), list[str]()

    def come_and_go(worker: int) -> None:
        for number in range(300):
            key = f"probes/deep/{worker}-{number}"
            try:
                store.create(key, b"x")
            except AlreadyExists as error:
                refusals.append(str(error))
            store.delete(key)

    workers = [threading.Thread(target=come_and_go, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert refusals == []
