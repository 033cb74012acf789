"""The node's cache: what comes in is proven, once a node; what is damaged, cancelled or refused is told."""

import io
import json
import threading
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from components.contracts.document import DamagedDocument
from components.contracts.layout import shard_key, shard_manifest_key
from components.dataset.cache import CacheSettings, open_data
from components.dataset.cache_progress import FillProgress
from components.dataset.reader import PackedDataset
from components.errors import BadInput, ExitCode, Interrupted, NodeUnfit
from components.runtime.log import Log
from components.storage.base import ObjectNotFound, ObjectStore
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.components.dataset.cached import VERSION, SlowStore, bring, contents, put, whole
from tests.fakes.s3_proxy import Fault, S3Proxy


def shard(index: int) -> str:
    return shard_key(f"p-1-{index:06d}", suffix="bin")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_data_set_of_any_store_is_read_from_this_node(any_store: ObjectStore, cache: Path) -> None:
    put(any_store, contents(3))

    with bring(any_store, cache) as data:
        assert cache in data.manifest_path.parents
        assert data.manifest_path.read_bytes() == any_store.read(shard_manifest_key(VERSION))
        read = PackedDataset(data.manifest_path)
        assert [read.sequence(index).tolist() for index in (0, 4, 11)] == [[0] * 8, [1] * 8, [2] * 8]


def test_what_lies_on_this_machine_is_read_in_place_unless_it_is_said_to_be_a_mount(
    tmp_path: Path, cache: Path
) -> None:
    store = LocalStore(tmp_path / "storage")
    put(store, contents(1))
    log = Log({}, io.StringIO())

    in_place = CacheSettings.of({"ARGOSY_CACHE": str(cache)})
    with open_data(store, VERSION, run="toy", log=log, settings=in_place) as data:
        assert data.manifest_path == tmp_path / "storage" / shard_manifest_key(VERSION)
    assert not cache.exists()

    copied = CacheSettings.of({"ARGOSY_CACHE": str(cache), "ARGOSY_CACHE_MOUNTS": "true"})
    with open_data(store, VERSION, run="toy", log=log, settings=copied) as data:
        assert cache in data.manifest_path.parents


def test_the_second_run_on_a_node_fetches_nothing(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    put(store, contents(4))
    log = io.StringIO()

    for _ in range(2):
        bring(store, cache, log=Log({}, log)).close()

    assert sorted(store.opened) == [shard(index) for index in range(4)]
    messages = [json.loads(line)["message"] for line in log.getvalue().splitlines()]
    assert messages[0].startswith("data: 0 of 4 files were in the cache (0 B), 4 fetched (256 B) in ")
    assert messages[1:] == ["data: 4 of 4 files were in the cache (256 B)"]


def test_data_versions_share_what_they_have_in_common(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    put(store, contents(4))
    put(store, contents(5), version="d-0000000000000002", plan="p-2")

    with bring(store, cache), bring(store, cache, version="d-0000000000000002"):
        pass

    assert store.opened[4:] == ["data/shards/p-2-000004.bin"]


def test_shards_of_equal_content_are_fetched_once(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    put(store, [bytes(64)] * 3)

    with bring(store, cache) as data:
        assert len(PackedDataset(data.manifest_path)) == 12
    assert len(store.opened) == 1


def test_a_damaged_shard_is_fetched_again_once_then_named_with_both_digests(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    digests = put(store, contents(2))
    (tmp_path / "storage" / shard(1)).write_bytes(b"x" * 64)

    with pytest.raises(BadInput) as caught:
        bring(store, cache)

    assert store.opened.count(shard(1)) == 2
    assert caught.value.reason == "ShardDamaged"
    found = "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"
    assert caught.value.seen == (
        f"file://{tmp_path}/storage/{shard(1)} arrived with 64 bytes and SHA-256 {found}, "
        f"expected are 64 bytes and SHA-256 {digests[1]}"
    )
    assert digests[1] not in whole(cache)
    end = time.monotonic() + 30  # the first trouble tells the other downloads to end; it does not wait for them
    while list((cache / "filling").iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    assert list((cache / "filling").iterdir()) == []
    assert list((cache / "views").iterdir()) == []
    assert list((cache / "leases").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"x" * 63, b"x" * 3_000_000], ids=["empty", "short", "endless"])
def test_a_shard_of_another_size_is_damaged_too(tmp_path: Path, cache: Path, content: bytes) -> None:
    store = LocalStore(tmp_path / "storage")
    put(store, contents(1))
    (tmp_path / "storage" / shard(0)).write_bytes(content)

    with pytest.raises(BadInput, match="expected are 64 bytes"):
        bring(store, cache)
    assert whole(cache) == {}


def test_a_bit_that_flips_on_the_way_costs_one_more_download(
    proxied_store: S3Store, s3_proxy: S3Proxy, cache: Path
) -> None:
    digests = put(proxied_store, contents(2))
    s3_proxy.misbehave(Fault(method="GET", key="p-1-000000.bin", flip=True))
    log = io.StringIO()

    with bring(proxied_store, cache, log=Log({}, log)):
        assert set(whole(cache)) == set(digests)

    assert sum(path.endswith("p-1-000000.bin") for method, path in s3_proxy.seen if method == "GET") == 2
    assert "fetching it again" in log.getvalue()


def test_a_download_that_breaks_off_goes_on(proxied_store: S3Store, s3_proxy: S3Proxy, cache: Path) -> None:
    digests = put(proxied_store, contents(1, num_bytes=300_000))
    s3_proxy.misbehave(Fault(method="GET", key=".bin", body_bytes=100_000))

    with bring(proxied_store, cache):
        assert set(whole(cache)) == set(digests)


def test_a_shard_that_is_not_in_the_store_is_named(tmp_path: Path, cache: Path) -> None:
    store = LocalStore(tmp_path / "storage")
    put(store, contents(3))
    store.delete(shard(2))

    with pytest.raises(ObjectNotFound, match=r"p-1-000002\.bin does not exist"):
        bring(store, cache)


def test_a_blob_that_somebody_wrote_to_is_fetched_anew(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage")
    (digest,) = put(store, contents(1))
    bring(store, cache).close()
    blob = cache / "blobs" / digest[:2] / digest
    blob.chmod(0o644)
    blob.write_bytes(b"y" * 64)

    with bring(store, cache) as data:
        assert PackedDataset(data.manifest_path).sequence(0).tolist() == [0] * 8
    assert len(store.opened) == 2


def test_a_manifest_that_reaches_outside_the_storage_is_refused(tmp_path: Path, cache: Path) -> None:
    store = LocalStore(tmp_path / "storage")
    put(store, contents(1))
    key = shard_manifest_key(VERSION)
    store.replace(key, store.read(key).replace(b"../../shards/", b"../../../../etc/"))

    with pytest.raises(DamagedDocument, match="is not a relative path within the storage"):
        bring(store, cache)


def test_a_fill_that_is_cancelled_ends_soon_and_leaves_nothing_half_done(tmp_path: Path, cache: Path) -> None:
    store = SlowStore(tmp_path / "storage", pause=0.1)
    put(store, contents(40))
    cancelled = threading.Event()
    threading.Timer(0.25, cancelled.set).start()

    with pytest.raises(Interrupted):
        bring(store, cache, cancelled=cancelled, num_connections=2)

    assert len(store.opened) < 40
    whole(cache)
    assert list((cache / "leases").iterdir()) == []


def test_many_downloads_run_at_once_but_no_more_than_was_said(tmp_path: Path, cache: Path) -> None:
    class Counting(SlowStore):
        now = most = 0

        def open(self, key: str) -> BinaryIO:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                return super().open(key)
            finally:
                self.now -= 1

    store = Counting(tmp_path / "storage", pause=0.05)
    put(store, contents(20))
    with bring(store, cache, num_connections=5):
        pass

    assert 3 <= store.most <= 5


def test_a_folder_that_cannot_be_a_cache_is_told(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "storage")
    put(store, contents(1))
    (tmp_path / "file").write_text("")

    with pytest.raises(NodeUnfit, match="cannot use the cache") as caught:
        bring(store, tmp_path / "file" / "cache")
    assert caught.value.exit_code == ExitCode.NODE_UNFIT
    assert "set ARGOSY_CACHE" in caught.value.fix


@pytest.mark.parametrize(
    ("environment", "said"),
    [({"ARGOSY_CACHE_SIZE": "lots"}, "ARGOSY_CACHE_SIZE"), ({"ARGOSY_CACHE_MOUNTS": "yes"}, "ARGOSY_CACHE_MOUNTS")],
)
def test_settings_that_cannot_be_read_are_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        CacheSettings.of(environment)


def test_the_cache_lies_in_argosys_home_unless_it_is_told_otherwise() -> None:
    assert CacheSettings.of({"ARGOSY_HOME": "/data/argosy"}) == CacheSettings(Path("/data/argosy/cache"))
    assert CacheSettings.of({"ARGOSY_CACHE": "/fast", "ARGOSY_CACHE_SIZE": "2GiB"}) == CacheSettings(
        Path("/fast"), 2 << 30
    )


def test_progress_tells_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 0.0, 10.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    progress = FillProgress(40, 4 << 30)
    progress.found(1 << 30)
    progress.begin_downloads()
    progress.received(512 << 20)
    progress.fetched()

    assert progress.line() == "data: 2 of 40 files, 1.5 GiB of 4.0 GiB, 51.2 MiB/s, 50s left"
