"""Every kind of source becomes the records it holds, wherever shards are cut; what cannot be used is named."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from components.contracts.dataset import SampleField, ShardManifest
from components.errors import BadInput
from components.shard.plan_file import read_entries, read_plan
from components.storage.local import LocalStore
from tests.components.shard.building import plan, shard
from tests.components.shard.formats import made, rows, spec


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def tar_of(path: Path, members: dict[str, bytes], *, format: int = tarfile.USTAR_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1.5 if format == tarfile.PAX_FORMAT else 0  # type: ignore[assignment]
            tar.addfile(member, io.BytesIO(content))
    return path


def samples_of(store: LocalStore, manifest: ShardManifest) -> dict[str, dict[str, bytes]]:
    """Fields of every sample of a webdataset, by key, in order."""
    found: dict[str, dict[str, bytes]] = {}
    for part in manifest.shards:
        with tarfile.open(store.root / "data" / "shards" / f"{part.entry}.tar") as tar:
            for member in tar:
                key, _, field = member.name.rpartition("/")[2].partition(".")
                key = f"{member.name.rpartition('/')[0]}/{key}".lstrip("/")
                content = tar.extractfile(member)
                assert content is not None
                found.setdefault(key, {})[field] = content.read()
    return found


def texts_of(store: LocalStore, manifest: ShardManifest) -> list[bytes]:
    """All documents of a data set of bytes, from their ends."""
    texts = []
    for part in manifest.shards:
        tokens = np.fromfile(store.root / "data" / "shards" / f"{part.entry}.bin", dtype="<u2")
        ends = np.fromfile(store.root / "data" / "shards" / f"{part.entry}.ends", dtype="<u4").tolist()
        length = len(tokens) // max(1, part.num_sequences)
        start = 0
        for end in ends:
            start = max(start, (end - 1) // length * length)
            texts.append(bytes(tokens[start : end - 1].astype(np.uint8)))
            start = end
    return sorted(texts)


@pytest.mark.parametrize("target", [50, 333, 10**6])
def test_json_lines_are_taken_once_each_wherever_shards_are_cut(
    store: LocalStore, tmp_path: Path, target: int
) -> None:  # fmt: skip
    manifest = made(store, rows(tmp_path / "rows", count=50), "webdataset", target=target)

    found = samples_of(store, manifest)

    assert [int(fields["n.cls"]) for fields in found.values()] == list(range(50))
    assert next(iter(found)) == "rows_jsonl/000000000000"
    assert len(manifest.shards) > 3 or target == 10**6


def test_lines_keep_their_text_and_lose_their_ends(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.log").write_bytes(b"one\r\n\ntwo\n" + b"x" * 300 + b"\nlast without an end")

    manifest = made(store, tmp_path / "corpus", "tokens", read_as="lines", sequence_length=400, target=16)

    assert texts_of(store, manifest) == sorted([b"one", b"two", b"x" * 300, b"last without an end"])


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("target", [3000, 10**6])
def test_tars_of_every_dialect_are_read_sample_by_sample(
    store: LocalStore, tmp_path: Path, format: int, target: int
) -> None:
    long = "folder-of-a-long-name/" * 6
    members = {f"{long}{n:03d}.{field}": bytes([n]) * (n * 7) for n in range(20) for field in ("JPG", "txt")}
    tar_of(tmp_path / "corpus" / "set-000.tar", members, format=format)

    manifest = made(store, tmp_path / "corpus", "webdataset", target=target)

    found = samples_of(store, manifest)
    assert list(found.values()) == [{"jpg": bytes([n]) * (n * 7), "txt": bytes([n]) * (n * 7)} for n in range(20)]
    assert next(iter(found)) == f"set-000/{long}000"
    assert (len(manifest.shards) > 3) == (target == 3000)


def test_a_tar_of_texts_becomes_tokens(store: LocalStore, tmp_path: Path) -> None:
    tar_of(tmp_path / "t.tar", {f"{n}.txt": f"text {n}".encode() for n in range(5)})

    assert texts_of(store, made(store, tmp_path / "t.tar", "tokens")) == [f"text {n}".encode() for n in range(5)]


@pytest.mark.parametrize("target", [400, 10**6])
def test_parquet_rows_are_taken_once_each_structs_become_columns(
    store: LocalStore, tmp_path: Path, target: int
) -> None:
    (tmp_path / "corpus").mkdir()
    table = pyarrow.table({
        "n": list(range(40)), "text": [f"row {n}" for n in range(40)],
        "image": [{"bytes": bytes([n]), "path": f"{n}.jpg"} for n in range(40)], "ok": [True] * 40,
    })  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "corpus" / "a.parquet", row_group_size=16)

    manifest = made(store, tmp_path / "corpus", "webdataset", target=target)

    found = list(samples_of(store, manifest).values())
    assert [int(fields["n.cls"]) for fields in found] == list(range(40))
    assert found[7] == {
        "n.cls": b"7", "text.txt": b"row 7", "image.bytes": b"\x07", "image.path.txt": b"7.jpg", "ok.json": b"true",
    }  # fmt: skip
    assert (len(manifest.shards) > 3) == (target == 400)
    assert texts_of(store, made(store, tmp_path / "corpus", "tokens")) == sorted(f"row {n}".encode() for n in range(40))


def test_labelled_folders_number_their_folders(store: LocalStore, tmp_path: Path) -> None:
    for label in ("dog", "cat", "eel"):
        (tmp_path / "corpus" / label / "more").mkdir(parents=True)
        (tmp_path / "corpus" / label / "1.png").write_bytes(label.encode())
        (tmp_path / "corpus" / label / "more" / "2.png").write_bytes(b"2")

    manifest = made(store, tmp_path / "corpus", "webdataset", read_as="labelled_folders")

    assert manifest.options.labels == ("cat", "dog", "eel")  # type: ignore[union-attr]
    assert samples_of(store, manifest)["dog/1"] == {"png": b"dog", "cls": b"1"}
    assert samples_of(store, manifest)["eel/more/2"] == {"png": b"2", "cls": b"2"}


def test_a_manifest_names_ranges_keys_and_fields(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "blob.bin").write_bytes(bytes(range(100)))
    (tmp_path / "elsewhere.txt").write_text("hello")
    lines = [
        {"uri": "data/blob.bin", "range": [0, 10]},
        {"uri": "data/blob.bin", "range": [10, 30], "key": "second", "fields": {"label": 3, "who": "me"}},
        {"uri": str(tmp_path / "elsewhere.txt")},
        {"uri": f"file://{tmp_path}/data/blob.bin", "range": [90, 100], "key": "stored"},
    ]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, lines)))

    manifest = made(store, tmp_path / "list.jsonl", "webdataset", read_as="manifest")

    found = samples_of(store, manifest)
    assert list(found)[:2] == ["data/blob/000000000000", "second"]
    assert found["data/blob/000000000000"] == {"bin": bytes(range(10))}
    assert found["second"] == {"bin": bytes(range(10, 30)), "label.cls": b"3", "who.txt": b"me"}
    assert found["stored"] == {"bin": bytes(range(90, 100))}


def test_categories_are_the_text_they_stand_for_and_one_field_of_a_struct_is_taken_alone(
    store: LocalStore, tmp_path: Path
) -> None:
    when = pyarrow.array([1, 2, 3], pyarrow.timestamp("s"))
    notes = pyarrow.StructArray.from_arrays([pyarrow.array(["x", "y", "z"]), when], ["text", "when"])
    kinds = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    pyarrow.parquet.write_table(pyarrow.table({"kind": kinds, "note": notes}), tmp_path / "a.parquet")
    fields = (SampleField(name="kind", type="text"), SampleField(name="note.text", type="text"))

    found = samples_of(store, made(store, tmp_path / "a.parquet", "webdataset", fields=fields))

    assert [fields["kind.txt"] for fields in found.values()] == [b"a", b"b", b"a"]
    assert [fields["note.text.txt"] for fields in found.values()] == [b"x", b"y", b"z"]
    assert texts_of(store, made(store, tmp_path / "a.parquet", "tokens", text_field="kind")) == [b"a", b"a", b"b"]


def test_fields_choose_and_type_what_is_kept(store: LocalStore, tmp_path: Path) -> None:
    fields = (SampleField(name="n", type="float"), SampleField(name="text", type="text"))
    manifest = made(store, rows(tmp_path / "rows", count=9), "parquet", fields=fields)

    table = pyarrow.parquet.read_table(store.root / "data" / "shards" / f"{manifest.shards[0].entry}.parquet")

    assert table.schema.names == ["n", "text"]
    assert table.column("n").to_pylist() == [float(n) for n in range(9)]


def test_appended_inputs_make_a_new_version_that_keeps_the_old_shards(store: LocalStore, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    for n in range(8):
        rows(corpus, count=60, name=f"{n}.jsonl", first=100 * n)
    before = made(store, corpus, "mds")
    written = {path: path.stat().st_mtime_ns for path in (store.root / "data" / "shards").iterdir()}

    rows(corpus, count=60, name="8.jsonl", first=800)
    rows(corpus, count=60, name="3-more.jsonl", first=900)
    after = made(store, corpus, "mds")

    old, new = {part.entry for part in before.shards}, {part.entry for part in after.shards}
    assert before.data_version != after.data_version
    assert after.num_samples == before.num_samples + 120
    assert len(old & new) >= len(old) - 2
    assert all(path.stat().st_mtime_ns == at for path, at in written.items())
    assert len(list((store.root / "data" / "versions").iterdir())) == 2


def rows_text() -> str:
    return "".join(json.dumps({"id": f"r{n}", "text": f"text {n}"}) + "\n" for n in range(3))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "it is not JSON: Expecting property name"),
        (b'{"text": NaN}', "it is not JSON: NaN is not JSON"),
        (b"[1]", "it is no JSON object, but list"),
        (b'{"text": "caf\xe9"}', "it is not UTF-8: invalid continuation byte at byte 106"),
        (b'{"other": "x"}', "it has no field 'text'"),
        (b'{"text": 3}', "it has int, not text, in 'text'"),
        (b'{"text": "\\ud800"}', "its text is not Unicode: surrogates not allowed"),
        (b"[" * 100_000, "it is not JSON: maximum recursion depth exceeded"),
    ],
)
def test_a_bad_row_is_named_with_its_offset_and_quarantined_within_the_budget(
    store: LocalStore, tmp_path: Path, line: bytes, said: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(rows_text().encode() + line + b"\n" + b'{"text": "after"}')

    with pytest.raises(BadInput, match="TooManyBadRecords") as caught:
        made(store, tmp_path / "a.jsonl", "tokens")
    assert f"a.jsonl at 93: cannot be used: {said}" in str(caught.value)
    assert list(store.list("data/shards")) == []

    manifest = made(store, tmp_path / "a.jsonl", "tokens", max_bad_records=1)
    assert texts_of(store, manifest) == [b"after", b"text 0", b"text 1", b"text 2"]
    assert manifest.num_bad_records == 1
    (file,) = manifest.quarantine
    kept = json.loads((store.root / "data" / "versions" / manifest.data_version / file.path).read_bytes())
    assert (kept["path"], kept["offset"]) == ("a.jsonl", 93)


def spoilt(kind: pyarrow.DataType, raw: pyarrow.DataType) -> pyarrow.Array:
    """Texts of which the second is not UTF-8, as a writer that does not look makes them."""
    return pyarrow.array([b"good", b"caf\xe9", b"caf\xc3\xa9"], raw).view(kind)


@pytest.mark.parametrize("texts", [
    spoilt(pyarrow.string(), pyarrow.binary()),
    spoilt(pyarrow.large_string(), pyarrow.large_binary()),
    pyarrow.ListArray.from_arrays([0, 1, 2, 3], spoilt(pyarrow.string(), pyarrow.binary())),
], ids=["string", "large_string", "list"])  # fmt: skip
def test_a_row_of_parquet_that_is_not_utf_8_is_a_bad_record_with_its_row(
    store: LocalStore, tmp_path: Path, texts: pyarrow.Array
) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": [1, 2, 3]}), tmp_path / "a.parquet")

    with pytest.raises(BadInput, match="TooManyBadRecords") as caught:
        made(store, tmp_path / "a.parquet", "webdataset")
    said = "its column 'text': it is not UTF-8: unexpected end of data at byte 3 of it"
    assert f"a.parquet at 1: cannot be used: {said}" in str(caught.value)

    manifest = made(store, tmp_path / "a.parquet", "webdataset", max_bad_records=1)
    assert manifest.num_bad_records == 1
    assert [fields["n.cls"] for fields in samples_of(store, manifest).values()] == [b"1", b"3"]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.int16()])
def test_rows_of_parquet_are_named_by_their_key_field(
    store: LocalStore, tmp_path: Path, kind: pyarrow.DataType
) -> None:
    ids = pyarrow.array([7, 8]).cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"id": ids, "text": ["a", "b"]}), tmp_path / "a.parquet")

    found = samples_of(store, made(store, tmp_path / "a.parquet", "webdataset", key_field="id"))

    assert {key: fields["text.txt"] for key, fields in found.items()} == {"7": b"a", "8": b"b"}


def cut_tar(folder: Path) -> None:
    path = tar_of(folder / "a.tar", {f"{n}.txt": b"x" * 1000 for n in range(9)})
    os.truncate(path, 4 * 1536 + 700)


def cut_tar_at_a_boundary(folder: Path) -> None:
    path = tar_of(folder / "a.tar", {f"{n}.txt": b"x" * 1000 for n in range(9)})
    os.truncate(path, 4 * 1536)


def flipped_tar(folder: Path) -> None:
    path = tar_of(folder / "a.tar", {f"{n}.txt": b"x" * 1000 for n in range(9)})
    content = bytearray(path.read_bytes())
    content[3 * 1536 + 2] ^= 4
    path.write_bytes(content)


def flipped_parquet(folder: Path) -> None:
    table = pyarrow.table({"text": [f"row {n}" for n in range(40)]})
    pyarrow.parquet.write_table(
        table, folder / "a.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    content = bytearray((folder / "a.parquet").read_bytes())
    content[content.index(b"row 20")] ^= 1
    (folder / "a.parquet").write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_tar, "/a.tar at byte 6844: ends inside a member"),
        (cut_tar_at_a_boundary, "/a.tar at byte 6144: ends without the zero blocks that end a tar, so it may be cut"),
        (flipped_tar, "/a.tar at byte 4608: holds no tar header where one must be: its checksum is"),
        (flipped_parquet, "/a.parquet: row group 0 cannot be read: "),
    ],
)
@pytest.mark.parametrize("target", [2000, 10**6])
def test_a_damaged_source_stops_the_shard_with_its_uri_and_offset(
    store: LocalStore, tmp_path: Path, damage: Callable[[Path], None], said: str, target: int
) -> None:
    (tmp_path / "corpus").mkdir()
    damage(tmp_path / "corpus")

    with pytest.raises(BadInput) as caught:
        made(store, tmp_path / "corpus", "tokens", text_field="txt" if "tar" in said else None, target=target)

    assert said.removeprefix("/") in str(caught.value).replace(str(tmp_path / "corpus") + "/", "") or (
        target == 2000 and said.partition(": ")[2] in str(caught.value)
    )
    assert list(store.list("data/shards")) == []


def test_a_truncated_parquet_is_refused_when_it_is_planned(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")

    with pytest.raises(BadInput, match="CorpusRefused") as caught:
        plan(store, spec(tmp_path / "a.parquet", "parquet"))
    assert "a.parquet at byte 16: cannot be read: is no complete Parquet file" in str(caught.value)
    assert list(store.list("data")) == []


@pytest.mark.parametrize("name", ["a.jsonl.bz2", "a.tar.xz", "a.parquet.zst", "a.parquet.gz"])
def test_compressed_sources_are_refused_rather_than_read_as_text(store: LocalStore, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x" * 50)

    with pytest.raises(BadInput, match="is compressed: unpack it"):
        plan(store, spec(tmp_path / name, "tokens"))


def test_keys_that_two_rows_share_are_refused_in_one_shard_and_across_shards(store: LocalStore, tmp_path: Path) -> None:
    rows(tmp_path / "rows", count=60)
    with (tmp_path / "rows" / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"id": "r3", "text": "again"}) + "\n")
    corpus = tmp_path / "rows"

    with pytest.raises(BadInput, match="its key 'r3' is another sample's already"):
        made(store, corpus, "webdataset", key_field="id", target=10**6)
    with pytest.raises(BadInput, match="DuplicateKeys: 1 samples have a key of another in their field 'id'"):
        made(store, corpus, "webdataset", key_field="id", target=1000)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"uri": "a.txt"}', '{"uri": "a.txt"}'], r"at byte 17: cannot be read: a.txt \[0, 5\) is there already"),
        (['{"uri": "a.txt", "key": "k"}', '{"uri": "b.txt", "key": "k"}'], "key 'k' is there already"),
        (['{"uri": "gone.txt"}'], "cannot be read: gone.txt: No such file"),
        (['{"uri": "a.txt", "range": [3, 9]}'], r"its range is \[3, 9\], not \[start, end\] within the 5 bytes"),
        (['{"path": "a.txt"}'], 'it is no object with a "uri"'),
        (['{"uri": "a.txt", "size": 3}'], "it has 'size', which is none of fields, key, range, uri"),
        (["nonsense"], "Expecting value"),
    ],
)
def test_a_bad_manifest_is_refused_with_every_line_that_is(
    store: LocalStore, tmp_path: Path, lines: list[str], said: str
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "b.txt").write_text("hello")
    (tmp_path / "list.jsonl").write_text("\n".join(lines))

    with pytest.raises(BadInput, match=said):
        plan(store, spec(tmp_path / "list.jsonl", "tokens", read_as="manifest"))
    assert list(store.list("data")) == []


def test_samples_without_the_columns_of_the_first_are_left_out_by_name(store: LocalStore, tmp_path: Path) -> None:
    lines = [{"a": 1, "b": "x"}, {"a": 2.5, "b": "x"}, {"a": 3}, {"a": 4, "b": "x", "c": 1}, {"b": "y", "a": 5}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))

    manifest = made(store, tmp_path / "a.jsonl", "mds", max_bad_records=3)

    assert manifest.num_samples == 2
    assert [record.reason for record in manifest.bad_records] == [
        "its field a is float, not int", "it has no field b", "its field c is one that the first record does not have",
    ]  # fmt: skip


def test_names_that_webdataset_readers_would_lose_are_refused(store: LocalStore, tmp_path: Path) -> None:
    for name in ("__notes__/a.txt", "good/a.txt", "x" * 120 + ".txt"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")

    with pytest.raises(BadInput) as caught:
        made(store, tmp_path / "corpus", "webdataset")
    assert "'__notes__/a' is one that readers skip or refuse" in str(caught.value)
    assert "its name of 124 bytes does not fit a tar header" in str(caught.value)
    assert "good" not in str(caught.value)


def test_a_store_that_answers_late_is_read_side_by_side_in_the_order_of_the_plan(
    store: LocalStore, tmp_path: Path
) -> None:
    for n in range(30):
        (tmp_path / "corpus" / f"{n:02d}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / "corpus" / f"{n:02d}.txt").write_text(f"text {n}")

    here = shard(store, spec(tmp_path / "corpus", "webdataset"))
    far = shard(store, spec(f"file://{tmp_path}/corpus", "webdataset", num_tasks=2))

    assert here.data_version == far.data_version
    plan_id = plan(store, spec(f"file://{tmp_path}/corpus", "webdataset"))
    assert read_plan(store, plan_id).root == f"file://{tmp_path}/corpus"
    assert [entry.inputs[0].path for _, entry in read_entries(store, read_plan(store, plan_id), plan_id)] == ["00.txt"]
