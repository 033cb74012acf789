"""One cache for all runs of a node: who may remove what, and what a kill -9 at any moment leaves."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.dataset import cache_fill
from components.dataset.cache_folder import Blob
from components.dataset.cache_lease import victims
from components.dataset.reader import PackedDataset
from components.errors import BadInput, Transient
from components.storage.local import LocalStore
from tests.components.dataset import cached
from tests.components.dataset.cached import VERSION, SlowStore, bring, contents, put, whole

OTHER = "d-0000000000000002"

Starting = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(tmp_path: Path) -> SlowStore:
    return SlowStore(tmp_path / "storage")


@pytest.fixture
def start(store: SlowStore, cache: Path) -> Iterator[Starting]:
    """Starts processes on the same cache; none outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def begin(**options: object) -> "subprocess.Popen[str]":
        children.append(cached.start(store.root, cache, **options))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def until_ready(child: "subprocess.Popen[str]") -> Path:
    assert child.stdout is not None
    said = child.stdout.readline().split()
    assert said[:1] == ["ready"], said
    return Path(said[1])


def finish(child: "subprocess.Popen[str]") -> None:
    child.communicate(timeout=10)
    assert child.returncode == 0


# --- who may remove what


def test_the_least_recently_used_shards_leave_when_the_bound_is_reached(store: SlowStore, cache: Path) -> None:
    digests = {}
    for number in range(3):
        version, plan = f"d-000000000000000{number}", f"p-{number}"
        (digests[number],) = put(store, [bytes([number + 1]) * 64], version=version, plan=plan)
        bring(store, cache, version=version, max_bytes=192).close()
    bring(store, cache, version="d-0000000000000000", max_bytes=192).close()  # used again: now 1 is the oldest
    (new,) = put(store, [b"n" * 64], version="d-0000000000000009", plan="p-9")
    bring(store, cache, version="d-0000000000000009", max_bytes=192).close()

    assert set(whole(cache)) == {digests[0], digests[2], new}


def test_what_a_living_process_uses_stays_and_goes_once_it_is_killed(
    store: SlowStore, cache: Path, start: Starting
) -> None:
    held = put(store, contents(2))
    needed = put(store, [b"n" * 64, b"m" * 64], version=OTHER, plan="p-2")
    holder = start(run="gpt-holds")
    manifest = until_ready(holder)

    with pytest.raises(Transient) as caught:
        bring(store, cache, version=OTHER, max_bytes=200)
    assert caught.value.reason == "CacheInUse"
    assert f"in use are gpt-holds (pid {holder.pid}): 128 B" in caught.value.seen
    assert set(whole(cache)) == set(held)
    assert len(PackedDataset(manifest)) == 8

    holder.kill()
    holder.wait()
    with bring(store, cache, version=OTHER, max_bytes=200):
        assert set(needed) <= set(whole(cache))
        assert len(whole(cache)) == 3  # 200 bytes hold one of the two that are nobody's now
    assert not manifest.exists()


def test_a_data_set_that_can_never_fit_is_bad_input(store: SlowStore, cache: Path) -> None:
    put(store, contents(2))

    with pytest.raises(BadInput, match="may hold 100 B, the data set has 128 B") as caught:
        bring(store, cache, max_bytes=100)
    assert "ARGOSY_CACHE_SIZE to at least 128B" in caught.value.fix
    assert store.opened == []


def test_a_suspended_process_keeps_what_it_uses(store: SlowStore, cache: Path, start: Starting) -> None:
    put(store, contents(2))
    put(store, [b"n" * 64], version=OTHER, plan="p-2")
    holder = start()
    until_ready(holder)
    holder.send_signal(signal.SIGSTOP)

    with pytest.raises(Transient, match="CacheInUse"):
        bring(store, cache, version=OTHER, max_bytes=128)
    holder.send_signal(signal.SIGCONT)
    finish(holder)


BLOBS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), max_size=8).map(
    lambda rows: [Blob(f"{place:02}", size, used) for place, (size, used) in enumerate(rows)]
)


@given(blobs=BLOBS, keep=st.sets(st.integers(0, 7)), need_bytes=st.integers(-5, 40))
def test_just_enough_goes_the_oldest_first_and_nothing_that_is_kept(
    blobs: list[Blob], keep: set[int], need_bytes: int
) -> None:
    kept = {f"{place:02}" for place in keep}
    chosen = victims(blobs, keep=kept, need_bytes=need_bytes)

    free = [blob for blob in blobs if blob.sha256 not in kept]
    rest = [blob for blob in free if blob not in chosen]
    assert kept.isdisjoint(blob.sha256 for blob in chosen)
    assert all(old.used_ns <= young.used_ns for old in chosen for young in rest)
    assert sum(blob.size_bytes for blob in chosen[:-1]) < max(1, need_bytes)
    assert sum(blob.size_bytes for blob in chosen) >= need_bytes or not rest


# --- two at once


def test_two_runs_that_fill_at_once_fetch_every_shard_once(
    store: SlowStore, cache: Path, start: Starting, tmp_path: Path
) -> None:
    digests = put(store, contents(30))
    children = [start(pause=0.01, seen=tmp_path / "seen") for _ in range(2)]
    for child in children:
        until_ready(child)

    assert sorted((tmp_path / "seen").read_text().split()) == sorted(
        f"data/shards/p-1-{index:06d}.bin" for index in range(30)
    )
    assert set(whole(cache)) == set(digests)
    for child in children:
        finish(child)
    assert sorted(path.name for path in cache.iterdir()) == ["blobs", "filling", "leases", "lock", "views"]
    assert [list((cache / name).iterdir()) for name in ("filling", "leases", "views")] == [[], [], []]


def test_a_download_whose_process_is_suspended_is_made_by_another(
    store: SlowStore, cache: Path, start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_fill, "_STALLED_SECONDS", 0.3)
    digests = put(store, contents(1))
    holder = start(pause=0.2)
    while not list(cache.glob("filling/*")):
        time.sleep(0.01)
    holder.send_signal(signal.SIGSTOP)

    with bring(store, cache):
        assert set(whole(cache)) == set(digests)
    holder.send_signal(signal.SIGCONT)
    until_ready(holder)  # a second copy of the same bytes does no harm
    finish(holder)
    assert set(whole(cache)) == set(digests)


def test_a_download_whose_process_is_killed_is_taken_over_at_once(
    store: SlowStore, cache: Path, start: Starting
) -> None:
    digests = put(store, contents(1))
    holder = start(pause=30)
    while not list(cache.glob("filling/*")):
        time.sleep(0.01)
    holder.kill()
    holder.wait()
    began = time.monotonic()

    with bring(store, cache):
        assert set(whole(cache)) == set(digests)
    assert time.monotonic() - began < 25  # the dead one would have taken 30 s


# --- kill -9


@pytest.mark.parametrize("seed", range(4))
def test_kill_9_at_any_moment_leaves_nothing_that_is_not_whole(
    store: SlowStore, cache: Path, start: Starting, seed: int
) -> None:
    digests = put(store, contents(24, num_bytes=4096))
    chance = random.Random(seed)
    child = start(pause=0.01)
    while not list(cache.glob("filling/*")):
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.12))
    child.kill()
    child.wait()
    before = whole(cache)

    with bring(store, cache) as data:
        assert set(whole(cache)) == set(digests)
        assert len(PackedDataset(data.manifest_path)) == 24 * 256
        assert len(store.opened) == 24 - len(before)
        assert list((cache / "filling").iterdir()) == []
        assert len(list((cache / "leases").iterdir())) == len(list((cache / "views").iterdir())) == 1


def test_a_view_holds_when_its_blobs_are_removed_by_hand(store: SlowStore, cache: Path) -> None:
    put(store, contents(2))
    with bring(store, cache) as data:
        for path in cache.glob("blobs/*/*"):
            path.unlink()

        assert len(PackedDataset(data.manifest_path)) == 8


def test_cached_shards_are_read_only(store: SlowStore, cache: Path) -> None:
    (digest,) = put(store, contents(1))
    with bring(store, cache):
        assert (cache / "blobs" / digest[:2] / digest).stat().st_mode & 0o777 == 0o444


def test_children_do_not_keep_the_lease_of_a_process_that_is_gone(store: SlowStore, cache: Path) -> None:
    put(store, contents(2))
    put(store, [b"n" * 128], version=OTHER, plan="p-2")
    data = bring(store, cache, version=VERSION)
    child = subprocess.Popen(["sleep", "30"])
    try:
        data.close()
        bring(LocalStore(store.root), cache, version=OTHER, max_bytes=128).close()
    finally:
        child.kill()
        child.wait()
    assert os.listdir(cache / "leases") == []
