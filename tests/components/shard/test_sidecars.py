"""What lies beside the shards is what loaders look for, wherever they look: in the storage, exported, in the cache."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from components.dataset.cache import CacheSettings, open_data
from components.storage.local import LocalStore
from tests.components.shard.formats import LOG, exported, in_readers, made, rows


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def folders_of(store: LocalStore, corpus: Path, format: str, tmp_path: Path) -> tuple[int, dict[str, Path]]:
    """The number of shards, and the three folders in which a data set is found."""
    manifest = made(store, corpus, format, target=1000, key_field="id")
    settings = CacheSettings(tmp_path / "cache", copies_mounts=True)
    data = open_data(store, manifest.data_version, run="toy", log=LOG, settings=settings)
    return len(manifest.shards), {
        "in the storage": store.root / "data" / "versions" / manifest.data_version,
        "exported": exported(store, manifest, tmp_path / "out"),
        "in the cache": data.manifest_path.parent,
    }


def plain_rows(folder: Path) -> Path:
    """Of one type a column, lists included, as Arrow wants them."""
    text = "".join(json.dumps({"id": f"r{n}", "text": f"number {n}", "n": n}) + "\n" for n in range(60))
    folder.mkdir()
    (folder / "rows.jsonl").write_text(text)
    return folder


IN_WIDS = """
import contextlib, json, sys, wids
out = {}
with contextlib.redirect_stdout(sys.stderr):
    for folder in sys.argv[2:]:
        data = wids.ShardListDataset(f"{folder}/wids.json", cache_dir=sys.argv[1] + folder)
        some = [data[i] for i in (59, 0, 31)]
        out[folder] = [[s["__key__"], s[".text.txt"], s[".n.cls"]] for s in some] + [len(data)]
print(json.dumps(out))
"""


def test_wids_finds_any_sample_of_a_webdataset_by_its_number(store: LocalStore, tmp_path: Path) -> None:
    _, folders = folders_of(store, plain_rows(tmp_path / "rows"), "webdataset", tmp_path)

    found = in_readers(IN_WIDS, tmp_path / "wids", *folders.values())

    sample = [["r59", "number 59", 59], ["r0", "number 0", 0], ["r31", "number 31", 31], 60]
    assert found == {str(folder): sample for folder in folders.values()}


IN_DATASETS = """
import json, os, sys
from datasets import disable_progress_bars, load_dataset
disable_progress_bars()
def told(folder):
    try:
        whole = load_dataset(folder, split="train")
        return [whole.num_rows, whole[31]["n" if "n" in whole.column_names else "n.cls"],
                load_dataset(folder, split="train", streaming=True).num_shards]
    except Exception as error:
        return type(error).__name__
print(json.dumps({folder: told(folder) for folder in sys.argv[1:]}))
"""


def in_datasets(home: Path, *folders: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What Hugging Face `datasets` makes of a folder when it is told nothing else."""
    for name, value in {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}.items():
        monkeypatch.setitem(os.environ, name, value)
    return in_readers(IN_DATASETS, *folders)


def test_hugging_face_datasets_takes_the_shards_for_the_data_and_refuses_a_set_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, expected = plain_rows(tmp_path / "rows"), dict[str, object]()
    for format in ("parquet", "webdataset"):
        store = LocalStore(tmp_path / format / "storage")
        num_shards, folders = folders_of(store, corpus, format, tmp_path / format)
        expected |= {str(folder): [60, 31, num_shards] for folder in folders.values()}
        manifest = made(store, corpus, format, target=1000, key_field="id")
        short = exported(store, manifest, tmp_path / format / "short")
        first, *_, last = sorted(short.glob("shard-*"))
        last.write_bytes(first.read_bytes() if format == "parquet" else last.read_bytes()[: 6 * 1024])
        expected[str(short)] = "NonMatchingSplitsSizesError"

    assert in_datasets(tmp_path / "home", *map(Path, expected), monkeypatch=monkeypatch) == expected


IN_STREAMING = """
import json, sys
from streaming import StreamingDataset
def read(folder):
    data = StreamingDataset(local=folder, shuffle=False, batch_size=1)
    return [data[i]["n"] for i in range(len(data))]
print(json.dumps([read(folder) for folder in sys.argv[1:]]))
"""


def test_streaming_reads_an_mds_data_set_wherever_it_lies(store: LocalStore, tmp_path: Path) -> None:
    _, folders = folders_of(store, rows(tmp_path / "rows", count=60), "mds", tmp_path)

    assert in_readers(IN_STREAMING, *folders.values()) == [list(range(60))] * 3


@pytest.mark.parametrize("format", ["tokens", "webdataset", "parquet", "mds"])
def test_what_lies_beside_the_shards_is_a_function_of_the_manifest(
    store: LocalStore, tmp_path: Path, format: str
) -> None:
    manifest = made(store, rows(tmp_path / "rows", count=60), format, target=1000)
    folder = store.root / "data" / "versions" / manifest.data_version
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        if path.name != "manifest.json":
            path.unlink()

    assert made(store, tmp_path / "rows", format, target=1000) == manifest
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert sorted(before.keys() - {"manifest.json", "shards.txt"}) == {
        "tokens": [], "webdataset": ["README.md", "wids.json"], "parquet": ["README.md"], "mds": ["index.json"],
    }[format]  # fmt: skip
