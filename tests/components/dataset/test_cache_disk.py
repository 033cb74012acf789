"""A disk too small for the cache: told beforehand, or relieved by what nobody uses."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from components.errors import NodeUnfit
from tests.components.dataset.cached import SlowStore, bring, contents, put, whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(tmp_path: Path, small_disk: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    put(store, contents(3, num_bytes=400_000))

    with pytest.raises(NodeUnfit) as caught:
        bring(store, small_disk / "cache")

    assert caught.value.reason == "CacheDiskFull"
    assert "1.1 MiB are needed" in caught.value.seen
    assert store.opened == []


class OnSharedDisk(SlowStore):
    """Somebody else writes to the disk of the cache while the first shard is being fetched."""

    disk: Path

    def open(self, key: str) -> BinaryIO:
        if key.endswith("-000000.bin"):
            (self.disk / "somebody-elses").write_bytes(bytes(500_000))
        return super().open(key)


def test_a_disk_that_fills_up_meanwhile_gets_room_from_what_nobody_uses(tmp_path: Path, small_disk: Path) -> None:
    store = OnSharedDisk(tmp_path / "storage")
    store.disk = tmp_path
    put(store, [b"o" * 300_000], version="d-0000000000000002", plan="p-2")
    digests = put(store, [b"a" * 200_000, b"b" * 200_000])
    cache = small_disk / "cache"
    bring(store, cache, version="d-0000000000000002").close()

    store.disk = small_disk
    with bring(store, cache, num_connections=1):
        assert set(whole(cache)) == set(digests)


def test_a_disk_that_fills_up_with_what_is_in_use_is_told(tmp_path: Path, small_disk: Path) -> None:
    store = OnSharedDisk(tmp_path / "storage")
    store.disk = tmp_path
    in_use = put(store, [b"o" * 300_000], version="d-0000000000000002", plan="p-2")
    put(store, [b"a" * 400_000])
    cache = small_disk / "cache"
    with bring(store, cache, version="d-0000000000000002"):
        store.disk = small_disk
        with pytest.raises(NodeUnfit, match="is full, and all that is cached there is in use"):
            bring(store, cache)
        assert set(whole(cache)) == set(in_use)
    assert list((cache / "filling").iterdir()) == []
