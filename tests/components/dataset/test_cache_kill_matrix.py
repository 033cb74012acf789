"""One cache, several runs that fill it at once, some killed at any byte: what is there is whole, the rest goes on."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.components.dataset import cached
from tests.components.dataset.cached import SlowStore, bring, contents, put, whole

NUM_SHARDS, SHARD_BYTES = 8, 4096


@pytest.mark.parametrize("seed", range(3))
def test_runs_killed_at_any_byte_leave_the_others_a_whole_cache(tmp_path: Path, seed: int) -> None:
    store, cache, chance = SlowStore(tmp_path / "storage"), tmp_path / "cache", random.Random(seed)
    digests = set(put(store, contents(NUM_SHARDS, num_bytes=SHARD_BYTES)))
    last_bytes = [chance.randrange(1, NUM_SHARDS * SHARD_BYTES // 2) for _ in range(2)]
    victims = [cached.start(store.root, cache, run=f"victim-{byte}", last_byte=byte) for byte in last_bytes]
    survivor = cached.start(store.root, cache, run="survivor")
    try:
        assert survivor.stdout is not None
        assert survivor.stdout.readline().startswith("ready "), f"seed {seed}, killed after bytes {last_bytes}"
        assert set(whole(cache)) == digests
    finally:
        ended = [_end(child) for child in victims]
        survived = survivor.communicate()[0] is not None and survivor.returncode

    with bring(store, cache) as data:
        assert data.manifest_path.exists()
        assert store.opened == []
        assert list((cache / "filling").iterdir()) == []
        assert len(list((cache / "leases").iterdir())) == len(list((cache / "views").iterdir())) == 1
    assert survived == 0
    assert ended == [-9, -9]


def _end(child: "subprocess.Popen[str]") -> int:
    """Of one that killed itself, or does not get to its last byte, since others fetched the rest."""
    child.kill()
    child.communicate()
    return child.returncode


@pytest.mark.parametrize("byte", [1, SHARD_BYTES - 1, SHARD_BYTES, 3 * SHARD_BYTES + 17, NUM_SHARDS * SHARD_BYTES])
def test_a_run_killed_alone_at_a_byte_is_followed_by_one_that_fetches_only_the_rest(tmp_path: Path, byte: int) -> None:
    store, cache = SlowStore(tmp_path / "storage"), tmp_path / "cache"
    digests = set(put(store, contents(NUM_SHARDS, num_bytes=SHARD_BYTES)))
    child = cached.start(store.root, cache, last_byte=byte)
    child.communicate()
    assert child.returncode == -9
    before = set(whole(cache))

    with bring(store, cache):
        assert set(whole(cache)) == digests
        assert len(store.opened) == NUM_SHARDS - len(before)
        assert list((cache / "filling").iterdir()) == []
