"""Every way a shard can be damaged, in every format: said aloud, with shard, offset, expected and found.

The readers people use say nothing about most of these, and some then train on fewer samples than there are.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts.dataset import ProofLevel
from components.errors import BadInput, VerificationFailed
from components.shard.export import export_version
from components.shard.verify import verify_version
from components.storage.local import LocalStore
from tests.components.shard.formats import FORMATS, LOG, made, rows

LEVELS: tuple[ProofLevel, ...] = ("files", "digests", "records")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[LocalStore, str]]:
    """A data set a format."""
    folder = tmp_path_factory.mktemp("sound")
    corpus = rows(folder / "rows", count=60)
    stores = {format: LocalStore(folder / format) for format in FORMATS}
    return {format: (store, made(store, corpus, format, target=1000).data_version) for format, store in stores.items()}


@pytest.fixture
def damaged(sound: dict[str, tuple[LocalStore, str]]) -> "Damaged":
    return Damaged(sound)


class Damaged:
    """Damages one file at a time, and mends it."""

    def __init__(self, sound: dict[str, tuple[LocalStore, str]]) -> None:
        self._sound = sound

    def file(self, format: str, suffix: str | None = None) -> Path:
        suffix = suffix or {"tokens": "bin", "webdataset": "tar"}.get(format, format)
        store, version = self._sound[format]
        manifest = json.loads(store.read(f"data/versions/{version}/manifest.json"))
        path = next(file["path"] for file in manifest["shards"][2]["files"] if file["path"].endswith(suffix))
        return (store.root / "data" / "versions" / version / path).resolve()

    def said(self, format: str, level: ProofLevel, change: Callable[[bytes], bytes | None], suffix: str = "") -> str:
        """What verify says about the damage; empty when it notices nothing."""
        store, version = self._sound[format]
        path = self.file(format, suffix)
        content = path.read_bytes()
        now = change(content)
        try:
            if now is None:
                path.unlink()
            else:
                path.write_bytes(now)
            verify_version(store, version, level=level, log=LOG)
        except VerificationFailed as error:
            return str(error)
        finally:
            path.write_bytes(content)
        return ""


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def cut(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place]


def record_boundary(format: str, content: bytes) -> int:
    if format == "mds":
        return int.from_bytes(content[8:12], "little")
    return {"tokens": 16 * 2 * 3, "webdataset": 512 * 2 * 5, "parquet": len(content) // 2}[format]


@pytest.mark.parametrize("format", FORMATS)
def test_a_sound_data_set_passes_every_level(sound: dict[str, tuple[LocalStore, str]], format: str) -> None:
    store, version = sound[format]

    counts = {verify_version(store, version, level=level, log=LOG) for level in LEVELS}

    assert len(counts) == 1
    assert counts.pop() > 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_flipped_bit_is_told_with_its_block_and_both_digests(damaged: Damaged, format: str) -> None:
    path = damaged.file(format)

    said = damaged.said(format, "digests", flip(700))

    assert damaged.said(format, "files", flip(700)) == ""
    assert f"{path.name}, byte 0: differs within 4194304 bytes from here (expected xxh3_64 " in said
    assert f"{path.name}, byte 0: holds other bytes (expected sha256 " in said


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("where", ["record boundary", "header", "payload"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_cut_shard_is_told_by_every_level(
    damaged: Damaged, format: str, where: str, level: ProofLevel
) -> None:  # fmt: skip
    content = damaged.file(format).read_bytes()
    place = {"record boundary": record_boundary(format, content), "header": 7, "payload": len(content) - 9}[where]

    said = damaged.said(format, level, cut(place))

    name = damaged.file(format).name
    assert f"{name}, byte {place}: has another size (expected {len(content)} bytes, found {place})" in said


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_missing_shard_is_told_by_every_level(damaged: Damaged, format: str, level: ProofLevel) -> None:
    assert f"{damaged.file(format).name}: is missing" in damaged.said(format, level, lambda content: None)


def test_a_flip_in_a_tar_header_is_told_with_its_offset(damaged: Damaged) -> None:
    said = damaged.said("webdataset", "records", flip(512 * 4 + 20))

    assert "byte 2048: holds no tar header where one must be: its checksum is" in said


def test_records_are_checked_where_bytes_cannot_tell(damaged: Damaged) -> None:
    tar, mds, tokens = "webdataset", "mds", "tokens"
    assert "has an impossible offset of sample 3" in damaged.said(mds, "records", flip(15))
    assert "another configuration" in damaged.said(mds, "records", lambda content: content.replace(b'"int"', b'"str"'))
    assert "says another number of samples" in damaged.said(mds, "records", flip(0))
    assert "does not end where its last sample does" in damaged.said(
        tar, "records", lambda content: content[:-1] + b"x"
    )
    vocabulary = damaged.said(tokens, "records", lambda content: content[:64] + b"\xff\xff" + content[66:])
    assert "byte 64: holds a token that is not in the vocabulary (expected below 257, found 65535)" in vocabulary
    assert "is not the index of" in damaged.said(tokens, "records", flip(40), "idx")
    assert "byte 8: ends of documents do not increase" in damaged.said(tokens, "records", flip(6), "ends")


def test_a_page_of_parquet_is_told_by_its_checksum(damaged: Damaged) -> None:
    content = damaged.file("parquet").read_bytes()
    place = content.index(b"number")

    said = damaged.said("parquet", "records", flip(place))

    assert "column text of row group 0 cannot be read: " in said
    assert "CRC checksum verification failed" in said


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("manifest.json", b'"xxh3_64":"', b'"xxh3_64":"0', "index.json: is not what the manifest says"),
        ("manifest.json", b'"num_samples":', b'"num_samples":1', "says another number of samples"),
        ("manifest.json", b'"size_bytes":', b'"size_bytes":1', "has another size"),
        ("manifest.json", b'"name":"', b'"name":"x', "manifest.json: does not add up to its data version"),
        ("manifest.json", b'"index":0', b'"index":1', "manifest.json: does not name its shards in order"),
        ("index.json", b'"samples": ', b'"samples":  ', "index.json: is not what the manifest says"),
        ("shards.txt", b".mds", b".msd", "shards.txt, byte 47: is not what the manifest says"),
    ],
)
def test_an_edited_manifest_or_sidecar_is_told(
    sound: dict[str, tuple[LocalStore, str]], name: str, old: bytes, new: bytes, said: str
) -> None:
    store, version = sound["mds"]
    key = f"data/versions/{version}/{name}"
    content = store.read(key)
    assert old in content
    store.replace(key, content.replace(old, new, 1))
    try:
        with pytest.raises(VerificationFailed, match=said):
            verify_version(store, version, level="records", log=LOG)
    finally:
        store.replace(key, content)


@pytest.mark.parametrize(
    ("format", "old", "new", "said"),
    [
        ("mds", b'"xxh3_64":"', b'"xxh3_64":"0', "index.json"),
        ("mds", b'"num_samples":', b'"num_samples":1', "index.json"),
        ("mds", b'"index":0', b'"index":1', "manifest.json: does not name its shards in order"),
        ("mds", b'"name":"', b'"name":"x', "manifest.json: does not add up to its data version"),
        ("tokens", b'"sequence_length":', b'"sequence_length":1', "manifest.json: does not add up to its data version"),
    ],
)
def test_a_version_whose_manifest_is_not_its_own_is_not_exported(
    sound: dict[str, tuple[LocalStore, str]], tmp_path: Path, format: str, old: bytes, new: bytes, said: str
) -> None:
    store, version = sound[format]
    key = f"data/versions/{version}/manifest.json"
    content = store.read(key)
    assert old in content
    store.replace(key, content.replace(old, new, 1))
    try:
        with pytest.raises(VerificationFailed, match=said):
            export_version(store, version, to=tmp_path / "out", log=LOG)
    finally:
        store.replace(key, content)
    assert not (tmp_path / "out").exists()


def test_a_version_whose_manifest_names_fewer_shards_is_not_exported(
    sound: dict[str, tuple[LocalStore, str]], tmp_path: Path
) -> None:
    store, version = sound["tokens"]
    key = f"data/versions/{version}/manifest.json"
    content = store.read(key)
    document = json.loads(content)
    store.replace(key, json.dumps(document | {"shards": document["shards"][:1]}).encode())
    try:
        with pytest.raises(VerificationFailed, match="does not add up to its data version"):
            export_version(store, version, to=tmp_path / "out", log=LOG)
    finally:
        store.replace(key, content)
    assert not (tmp_path / "out").exists()


def test_verification_can_be_shared_and_names_what_is_not_there(sound: dict[str, tuple[LocalStore, str]]) -> None:
    store, version = sound["tokens"]

    counts = [verify_version(store, version, level="digests", log=LOG, task=(index, 3)) for index in range(3)]

    assert sum(counts) == verify_version(store, version, level="files", log=LOG)
    with pytest.raises(BadInput, match="there is no 'd-0'"):
        verify_version(store, "d-0", level="files", log=LOG)
    with pytest.raises(BadInput, match=r"there is no '\.\./x'"):
        verify_version(store, "../x", level="files", log=LOG)
