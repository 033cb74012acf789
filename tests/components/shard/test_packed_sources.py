"""JSON lines and tars packed with gzip or zstd are read as what they hold; a stream that is cut or damaged is told."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pyarrow
import pytest

from components.contracts.dataset import PackingOptions, ReadOptions, SampleOptions, ShardManifest
from components.errors import BadInput
from components.shard.spec import ShardSpec
from components.storage.local import LocalStore
from tests.components.shard.building import shard

LINES = b"".join(
    json.dumps({"text": "some text " * (number % 50), "n": number}).encode() + b"\n" for number in range(400)
)


def zstd(data: bytes) -> bytes:
    made = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(made, "zstd") as stream:
        stream.write(data)
    return bytes(made.getvalue())


def a_tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(200):
            for field, data in (("txt", b"text %d" % number), ("cls", b"%d" % number)):
                member = tarfile.TarInfo(f"{number:04d}.{field}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def made(folder: Path, name: str, content: bytes, format: str = "tokens", read_as: str = "auto") -> ShardManifest:
    (folder / "corpus").mkdir(parents=True)
    (folder / "corpus" / name).write_bytes(content)
    options: PackingOptions | SampleOptions = PackingOptions(sequence_length=64, over_long="split")
    if format != "tokens":
        options = SampleOptions(format=format)  # type: ignore[arg-type]
    spec = ShardSpec(
        corpus=str(folder / "corpus"), options=options, max_bad_records=0, num_tasks=1, target_shard_bytes=1 << 24,
        read=ReadOptions(read_as=read_as),  # type: ignore[arg-type]
    )  # fmt: skip
    return shard(LocalStore(folder / "storage"), spec)


_SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
"""A frame that is no data, as parallel packers write."""


@pytest.mark.parametrize(
    ("name", "content", "read_as"),
    [("a.jsonl", LINES, "auto"), ("a.tar", a_tar(), "auto"), ("a.txt", LINES, "lines"), ("a", a_tar(), "tar")],
)
def test_packed_or_not_the_data_set_is_the_same(tmp_path: Path, name: str, content: bytes, read_as: str) -> None:
    plain = made(tmp_path / "plain", name, content, read_as=read_as)
    packed = made(tmp_path / "packed", f"{name}.gz", gzip.compress(content), read_as=read_as)
    parts = [content[start : start + 7000] for start in range(0, len(content), 7000)]
    many = made(
        tmp_path / "many", f"{name}.gz", b"".join(map(gzip.compress, parts)) + bytes(100), read_as=read_as
    )  # fmt: skip
    other = made(tmp_path / "other", f"{name}.zst", zstd(content), read_as=read_as)
    frames = made(tmp_path / "frames", f"{name}.zst", _SKIPPED + b"".join(map(zstd, parts)) + _SKIPPED, read_as=read_as)
    assert plain.data_version == packed.data_version == many.data_version
    assert plain.data_version == other.data_version == frames.data_version
    assert plain.num_sequences > 1


def test_a_tgz_keeps_its_samples_together(tmp_path: Path) -> None:
    manifest = made(tmp_path, "a.tgz", gzip.compress(a_tar()), format="webdataset")
    assert manifest.num_samples == 200


def test_what_expands_a_thousandfold_is_unpacked_piece_by_piece(tmp_path: Path) -> None:
    line = json.dumps({"text": "x" * 6_000_000}).encode() + b"\n"
    for name, content in (("a.jsonl.gz", gzip.compress(line * 3)), ("a.jsonl.zst", zstd(line * 3))):
        assert made(tmp_path / name, name, content).num_tokens == 3 * 6_000_001


BROKEN = {
    "cut": (gzip.compress(LINES)[:-500], "ends inside its gzip stream, so it is cut"),
    "cut before its checksum": (gzip.compress(LINES)[:-8], "ends inside its gzip stream, so it is cut"),
    "no gzip": (LINES, "cannot be unpacked: Error -3 while decompressing data: incorrect header check"),
    "wrong checksum": (gzip.compress(LINES)[:-8] + bytes(8), "cannot be unpacked: Error -3 while decompressing data"),
    "something behind": (gzip.compress(LINES) + b"more", "cannot be unpacked: Error -3 while decompressing data"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_damaged_stream_is_refused_with_its_place(tmp_path: Path, damage: str) -> None:
    content, said = BROKEN[damage]
    with pytest.raises(BadInput, match="InputDamaged") as caught:
        made(tmp_path, "a.jsonl.gz", content)
    assert said in str(caught.value)
    assert f"{tmp_path}/corpus/a.jsonl.gz at byte " in str(caught.value)
    assert list(LocalStore(tmp_path / "storage").list("data/shards")) == []


BROKEN_ZSTD = {
    "cut": (zstd(LINES)[:-50], "ends inside its zstd stream, so it is cut"),
    "cut in the second": (zstd(LINES) + zstd(LINES)[:-1], "ends inside its zstd stream, so it is cut"),
    "hardly anything": (b"\x28\xb5", "ends inside its zstd stream, so it is cut"),
    "no zstd": (LINES, "cannot be unpacked: ZSTD decompress failed: Unknown frame descriptor"),
    "something behind": (zstd(LINES) + b"more", "cannot be unpacked: ZSTD decompress failed: Unknown frame descriptor"),
    "a window of 2 GiB": (
        b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(50),
        "cannot be unpacked: ZSTD decompress failed: Frame req",
    ),
}


@pytest.mark.parametrize("damage", BROKEN_ZSTD)
def test_a_damaged_zstd_stream_is_refused_with_its_place(tmp_path: Path, damage: str) -> None:
    content, said = BROKEN_ZSTD[damage]
    with pytest.raises(BadInput, match="InputDamaged") as caught:
        made(tmp_path, "a.jsonl.zst", content)
    assert f"{tmp_path}/corpus/a.jsonl.zst at byte " in str(caught.value)
    assert said in str(caught.value)
    assert list(LocalStore(tmp_path / "storage").list("data/shards")) == []


def test_a_zstd_tar_that_is_cut_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="InputDamaged"):
        made(tmp_path, "a.tar.zst", zstd(a_tar())[:-1])


@pytest.mark.parametrize("damage", ["cut", "wrong checksum"])
def test_a_packed_tar_is_read_to_its_checksum(tmp_path: Path, damage: str) -> None:
    content = gzip.compress(a_tar())[:-8] + (b"" if damage == "cut" else bytes(8))
    with pytest.raises(BadInput, match="InputDamaged"):
        made(tmp_path, "a.tar.gz", content)


def test_a_bad_record_is_named_by_its_place_in_the_unpacked_stream(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="TooManyBadRecords") as caught:
        made(tmp_path, "a.jsonl.gz", gzip.compress(b'{"text": "a"}\nnonsense\n'))
    assert "a.jsonl.gz at 14: cannot be used: it is not JSON" in str(caught.value)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.GZ", "a.jsonl.gz"])
def test_a_packed_file_is_not_packed_again_as_if_it_were_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="is packed with gzip, not text: unpack it, or read it as lines") as caught:
        made(tmp_path, name, gzip.compress(b"text"), read_as="file")
    assert f"{name}: cannot be read" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "begins", "said"),
    [
        ("a.txt.zst", zstd(b"text"), "is packed with zstd, not text: unpack it, or read it as lines or jsonl"),
        ("a.txt.bz2", b"BZh91AY", "is packed with bzip2, not text: unpack it, or pack it with gzip or zstd"),
        ("a.XZ", b"\xfd7zXZ\0", "is packed with xz"),
        ("a.zip", b"PK\x03\x04 ", "is packed with zip"),
        ("a.txt.lz4", b"\x04\x22\x4d\x18 ", "is packed with lz4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("read_as", ["file", "lines"])
def test_what_cannot_be_unpacked_is_not_taken_for_text(
    tmp_path: Path, name: str, begins: bytes, said: str, read_as: str
) -> None:
    if (name, read_as) != ("a.txt.zst", "lines"):
        with pytest.raises(BadInput) as caught:
            made(tmp_path, name, begins, read_as=read_as)
        assert f"{name}: cannot be read: {said}" in str(caught.value)


@pytest.mark.parametrize("content", [b"text that is no stream", b"x", b"\x1f"])
def test_a_file_that_is_packed_by_its_name_alone_is_text(tmp_path: Path, content: bytes) -> None:
    assert made(tmp_path, "a.txt.gz", content).num_tokens == len(content) + 1
