"""Is the data set complete? Every file is looked up, side by side, and each that is not there is named."""

import threading
from pathlib import Path

from components.checks.dataset_files import dataset_complete, dataset_question
from components.contracts.dataset import PackingCounts, PackingOptions, Shard, ShardManifest, StoredFile
from components.contracts.layout import shard_key, shard_manifest_key
from components.storage.base import ObjectInfo
from components.storage.local import LocalStore

NUM_SHARDS = 40


def stored(store: LocalStore) -> str:
    shards = []
    for index in range(NUM_SHARDS):
        key = shard_key(f"{index:032x}", suffix="bin")
        store.create(key, b"1234")
        file = StoredFile(path=f"../../../{key}", size_bytes=4, sha256="0" * 64)
        shards.append(
            Shard(index=index, files=(file,), num_sequences=1, num_tokens=2, num_padding=0, num_documents=1)
        )  # fmt: skip
    manifest = ShardManifest(
        data_version="d-0123456789abcdef", plan_id="p", options=PackingOptions(sequence_length=2, over_long="split"),
        shards=tuple(shards), bad_records=(), counts=PackingCounts(),
    )  # fmt: skip
    store.create(shard_manifest_key(manifest.data_version), manifest.to_bytes())
    return manifest.data_version


def test_a_complete_data_set_passes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    version = stored(store)
    result = dataset_complete(dataset_question(version), store, data_version=version)
    assert (result.status, result.measured) == ("ok", "40 files of 40 shards")


def test_what_is_missing_or_cut_is_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    version = stored(store)
    store.delete(shard_key(f"{7:032x}", suffix="bin"))
    (store.root / shard_key(f"{9:032x}", suffix="bin")).write_bytes(b"123")
    result = dataset_complete(dataset_question(version), store, data_version=version)
    assert result.status == "fail"
    assert f"{7:032x}.bin is missing" in result.measured
    assert f"{9:032x}.bin has 3 bytes instead of 4" in result.measured


def test_a_store_is_asked_for_many_files_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    class Far(LocalStore):
        """Answers no file before eight are asked for; forty are five times eight."""

        def find(self, key: str) -> ObjectInfo | None:
            together.wait(60)
            return super().find(key)

    version = stored(LocalStore(tmp_path))
    result = dataset_complete(dataset_question(version), Far(tmp_path), data_version=version)
    assert result.measured == "40 files of 40 shards"
