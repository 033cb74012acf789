"""The data set is on every node before a rank starts; when it cannot be, no rank starts and no term begins."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.agent.coordinator import Phase
from components.agent.events import Tell
from components.agent.messages import Checked, Fetched, Finish, Trouble
from components.contracts.layout import shard_key
from tests.components.agent.gang import Gang, checkpoint, python
from tests.components.agent.test_coordinator import Drive
from tests.components.dataset.cached import VERSION, contents, put, whole

READ = """
import json, os
from pathlib import Path
manifest = Path(os.environ["ARGOSY_DATA"])
for shard in json.loads(manifest.read_bytes())["shards"]:
    print((manifest.parent / shard["files"][0]["path"]).stat().st_size, "bytes", flush=True)
print("at", manifest, flush=True)
"""

NewGang = Callable[..., Gang]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if the storage were a mount that all nodes share."""
    monkeypatch.setenv("ARGOSY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ARGOSY_CACHE_MOUNTS", "true")
    return tmp_path / "cache"


def test_all_ranks_of_a_machine_read_one_copy_in_its_cache(new_gang: NewGang, cache: Path) -> None:
    gang = new_gang(python(READ), data_version=VERSION, nproc_per_node=2)
    digests = put(gang.store, contents(3))

    assert gang.start().wait() == [0, 0]

    for node_rank, rank in ((0, 0), (0, 1), (1, 2), (1, 3)):
        *sizes, place = gang.messages(node_rank, rank=rank)
        assert sizes == ["64 bytes"] * 3
        assert place.startswith(f"at {cache}/views/")
    assert set(whole(cache)) == set(digests)
    fetched = [message for node in (0, 1) for message in gang.messages(node) if message.startswith("data: ")]
    assert len(fetched) == 2
    assert list((cache / "views").iterdir()) == list((cache / "leases").iterdir()) == []


def test_a_damaged_shard_ends_the_run_before_it_begins(new_gang: NewGang, cache: Path) -> None:
    gang = new_gang(python(READ), data_version=VERSION, checkpoint=checkpoint(5))
    put(gang.store, contents(3))
    (gang.folder / "storage" / shard_key("p-1-000001", suffix="bin")).write_bytes(b"x" * 64)

    assert gang.start().wait() == [78, 78]

    assert gang.final.reason == "ShardDamaged"
    assert "p-1-000001.bin arrived with 64 bytes and SHA-256 7ce100971f64" in gang.final.message
    assert gang.final.attempts == ()
    assert gang.history.begins == ()


def test_a_cache_that_cannot_be_written_leaves_that_node_as_unfit(new_gang: NewGang, cache: Path) -> None:
    cache.write_text("a file")
    gang = new_gang(python(READ), data_version=VERSION, num_nodes=1)
    put(gang.store, contents(1))

    assert gang.start().wait() == [80]
    assert gang.final.reason == "CacheUnusable"


def fetching(num_nodes: int) -> Drive:
    """All checks are passed, no node has the data set yet."""
    drive = Drive(num_nodes=num_nodes)
    drive.join()
    for rank in range(num_nodes):
        drive.hear(rank, Checked(results=()))
    assert drive.phase is Phase.FETCHING
    return drive


def test_one_node_without_data_takes_the_others_along_at_once() -> None:
    drive = fetching(num_nodes=3)
    drive.hear(0, Fetched())
    full = Trouble(exit_code=80, reason="CacheDiskFull", message="the disk is full")

    finishes = drive.hear(1, Fetched(failure=full))

    messages = [tell.message for tell in finishes if isinstance(tell, Tell)]
    codes = [message.exit_code for message in messages if isinstance(message, Finish)]
    assert codes == [92, 80, 92]
    assert drive.state.message == "node 1: the disk is full"


def test_a_fetch_counts_in_the_start_limit() -> None:
    drive = fetching(num_nodes=2)
    drive.hear(1, Fetched())
    assert drive.after(59) == []
    drive.after(1)

    assert drive.state.exit_code == 83
    assert drive.state.message == "node 0 did not get the data set within 1m"
