"""What we write is read by the packages people use, and comes back as it went in."""

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from components.dataset.reader import PackedDataset
from components.storage.local import LocalStore
from tests.components.shard.formats import exported, in_readers, made, rows

# webdataset leaves the last file of a pass to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """40 pairs of a picture and its caption, some in folders, and their contents."""
    for n in range(40):
        path = tmp_path / "pictures" / f"{n % 3}" / f"picture-{n:03d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".JPG").write_bytes(bytes([n]) * (n * 50))
        path.with_suffix(".txt").write_text(f"picture {n}")
    return tmp_path / "pictures"


def read_webdataset(urls: str | list[str]) -> list[dict[str, Any]]:
    import webdataset

    return list(webdataset.WebDataset(urls, shardshuffle=False))


def test_webdataset_reads_every_sample_with_its_key_and_fields(store: LocalStore, pictures: Path) -> None:
    manifest = made(store, pictures, "webdataset")
    folder = store.root / "data" / "versions" / manifest.data_version

    urls = [str((folder / line).resolve()) for line in (folder / "shards.txt").read_text().splitlines()]
    samples = read_webdataset(urls)

    assert len(manifest.shards) > 5
    assert manifest.num_samples == len(samples) == 40
    for sample in samples:
        n = int(sample["__key__"].rpartition("-")[2])
        assert sample["__key__"] == f"{n % 3}/picture-{n:03d}"
        assert (sample["jpg"], sample["txt"]) == (bytes([n]) * (n * 50), f"picture {n}".encode())


def test_an_exported_tar_is_read_by_brace_notation_and_by_plain_tar(
    store: LocalStore, pictures: Path, tmp_path: Path
) -> None:
    manifest = made(store, pictures, "webdataset")
    folder = exported(store, manifest, tmp_path / "out")
    last = len(manifest.shards) - 1

    samples = read_webdataset(f"{folder}/shard-{{000000..{last:06d}}}.tar")
    listed = subprocess.check_output(["tar", "tvf", folder / "shard-000000.tar"], text=True).splitlines()

    assert len(samples) == 40
    assert listed[0].split()[0] == "-r--r--r--"
    assert "1970" in listed[0]
    with tarfile.open(folder / "shard-000000.tar") as tar:
        assert all((member.mtime, member.uid, member.pax_headers) == (0, 0, {}) for member in tar)


def test_rows_become_files_that_webdatasets_decoders_know(store: LocalStore, tmp_path: Path) -> None:
    import webdataset

    manifest = made(store, rows(tmp_path / "rows", count=3), "webdataset", key_field="id")
    shards = [str(path) for path in sorted((store.root / "data" / "shards").glob("*.tar"))]

    first = next(iter(webdataset.WebDataset(shards, shardshuffle=False).decode()))

    assert manifest.num_samples == 3
    assert first["__key__"] == "r0"
    assert (first["text.txt"], first["n.cls"], first["half.json"]) == ("number 0 ", 0, 0.0)
    assert first["tags.json"] == ["é", 0]


def test_parquet_comes_back_typed_with_page_checksums(store: LocalStore, tmp_path: Path) -> None:
    manifest = made(store, rows(tmp_path / "rows"), "parquet")
    folder = exported(store, manifest, tmp_path / "out")

    table = pyarrow.parquet.read_table(sorted(folder.glob("*.parquet")), page_checksum_verification=True)

    assert manifest.num_samples == table.num_rows == 300
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "int64", "double", "string"]
    assert table.column("n").to_pylist() == list(range(300))
    assert table.column("half").to_pylist() == [n / 2 for n in range(300)]
    assert json.loads(table.column("tags")[9].as_py()) == ["é", 9]


IN_STREAMING = """
import json, sys
from streaming import MDSWriter, StreamingDataset
remote, local, in_place, rows, theirs = sys.argv[1:]

def read(**place):
    data = StreamingDataset(shuffle=False, batch_size=1, **place)
    return [data[i] for i in range(len(data))]

columns = {"id": "str", "text": "str", "n": "int", "half": "float64", "tags": "json"}
with MDSWriter(out=theirs, columns=columns, hashes=["sha256", "xxh3_64"], size_limit=None) as writer:
    for line in open(rows):
        writer.write(json.loads(line))
print(json.dumps({
    "remote": read(local=local, remote=remote, validate_hash="xxh3_64"), "in place": read(local=in_place),
    "theirs": json.load(open(theirs + "/index.json"))["shards"],
}))
"""


def test_streaming_reads_mds_and_would_have_written_the_very_same_bytes(store: LocalStore, tmp_path: Path) -> None:
    corpus = rows(tmp_path / "rows", count=60)
    text = (corpus / "rows.jsonl").read_text()
    (corpus / "rows.jsonl").write_text(text.replace('["\\u00e9", ', "["))  # JSON has one spelling for those
    many, one = made(store, corpus, "mds", target=1000), made(store, corpus, "mds", target=10**6)
    folder = exported(store, many, tmp_path / "out")

    found = in_readers(
        IN_STREAMING, folder, tmp_path / "local", store.root / "data" / "versions" / many.data_version,
        corpus / "rows.jsonl", tmp_path / "theirs",
    )  # fmt: skip

    assert len(many.shards) > 5
    assert [sample["n"] for sample in found["remote"]] == list(range(60))
    assert found["remote"][9] == {"id": "r9", "text": "number 9 " * 3, "n": 9, "half": 4.5, "tags": [9]}
    assert found["in place"] == found["remote"]
    (ours,) = json.loads(store.read(f"data/versions/{one.data_version}/index.json"))["shards"]
    (theirs,) = found["theirs"]
    assert ours["raw_data"].pop("basename") == f"../../shards/{one.shards[0].entry}.mds"
    assert theirs["raw_data"].pop("basename") == "shard.00000.mds"
    assert ours == theirs


def test_megatrons_pair_and_our_reader_agree_on_every_token(store: LocalStore, tmp_path: Path) -> None:
    manifest = made(store, rows(tmp_path / "rows"), "tokens", text_field="text")
    folder = exported(store, manifest, tmp_path / "out")

    data = PackedDataset(folder / "manifest.json")
    flat = np.concatenate([np.fromfile(path, dtype="<u2") for path in sorted(folder.glob("*.bin"))])

    assert len(data) == manifest.num_sequences
    assert np.array_equal(flat.reshape(-1, 16), [data.sequence(index) for index in range(len(data))])
    texts = bytes(flat[flat != 256].astype(np.uint8))
    assert len(texts) == sum(9 * 1 + len(str(n)) - 1 for n in range(300) for _ in range(n % 7 + 1))
    assert sum(shard.num_documents for shard in manifest.shards) == 300


def test_an_export_is_complete_or_not_there(store: LocalStore, tmp_path: Path) -> None:
    from components.errors import BadInput, VerificationFailed

    manifest = made(store, rows(tmp_path / "rows"), "mds")
    damaged = sorted((store.root / "data" / "shards").glob("*.mds"))[2]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")

    with pytest.raises(VerificationFailed, match=rf"{damaged.name}: expected sha256 \w+, found"):
        exported(store, manifest, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows", "storage"]
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match="exists"):
        exported(store, manifest, tmp_path / "out")


@pytest.mark.parametrize("format", ["tokens", "webdataset", "parquet", "mds"])
def test_any_number_of_tasks_makes_the_same_data_version(tmp_path: Path, format: str) -> None:
    corpus = rows(tmp_path / "rows", count=120)
    alone, many = LocalStore(tmp_path / "alone"), LocalStore(tmp_path / "many")

    one, other = made(alone, corpus, format), made(many, corpus, format, num_tasks=3)

    assert one == other == made(many, corpus, format, num_tasks=8)
    digests = [
        hashlib.sha256(store.read(info.key)).digest() for store in (alone, many) for info in store.list("data/shards")
    ]
    assert digests[: len(digests) // 2] == digests[len(digests) // 2 :]
