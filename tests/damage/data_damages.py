"""What can happen to a data set: each damage is a function of its files, keyed as in the storage.

The cells of the matrix that readers of today say nothing about, for every format, and what else there is.
"""

import io
import json
import posixpath
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Files = dict[str, bytes]

SUFFIX = {"tokens": "bin", "webdataset": "tar", "parquet": "parquet", "mds": "mds"}
DAMAGED = 1
"""The shard that something happens to."""


@dataclass(frozen=True)
class DataSet:
    """A data set as it lies in the storage."""

    format: str
    version: str
    files: Files

    @property
    def folder(self) -> str:
        return f"data/versions/{self.version}"

    def key(self, suffix: str = "", *, shard: int = DAMAGED) -> str:
        """Of a file of a shard."""
        manifest = json.loads(self.files[f"{self.folder}/manifest.json"])
        suffix = suffix or SUFFIX[self.format]
        path = next(file["path"] for file in manifest["shards"][shard]["files"] if file["path"].endswith(f".{suffix}"))
        return posixpath.normpath(f"{self.folder}/{path}")

    def places(self) -> Mapping[str, int]:
        """Where in the damaged shard a record ends, where a header is, where a payload is."""
        content = self.files[self.key()]
        if self.format == "tokens":
            return {"boundary": 32 * 3, "header": 2, "payload": 32 * 3 + 5}
        if self.format == "mds":
            end = int.from_bytes(content[8:12], "little")
            return {"boundary": end, "header": 9, "payload": end - 3}
        if self.format == "parquet":
            page = content.index(b"number ")
            return {"boundary": page - 4, "header": len(content) - 6, "payload": page + 2}
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            first, second = [member for member in tar if member.name.endswith(".text.txt")][:2]
            after = [member.offset for member in tar if member.offset > first.offset]
        return {"boundary": after[0], "header": second.offset + 100, "payload": first.offset_data + 3}


Damage = Callable[[DataSet, Files], None]


def edit(change: Callable[[DataSet, bytes], bytes | None], suffix: str = "") -> Damage:
    """Another content of one file of the damaged shard; None: it is gone."""

    def happen(sound: DataSet, files: Files) -> None:
        key = sound.key(suffix)
        content = change(sound, files.pop(key))
        if content is not None:
            files[key] = content

    return happen


def beside(name: str, change: Callable[[bytes], bytes | None]) -> Damage:
    """The same of a file beside the manifest, or of that."""

    def happen(sound: DataSet, files: Files) -> None:
        content = change(files.pop(f"{sound.folder}/{name}"))
        if content is not None:
            files[f"{sound.folder}/{name}"] = content

    return happen


def cut_at(place: str) -> Damage:
    return edit(lambda sound, content: content[: sound.places()[place]])


def flip_at(place: str) -> Damage:
    return edit(lambda sound, content: flipped(content, sound.places()[place]))


def flip(place: int, suffix: str = "") -> Damage:
    return edit(lambda sound, content: flipped(content, place % len(content)), suffix)


def gone(suffix: str = "") -> Damage:
    return edit(lambda sound, content: None, suffix)


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def swapped(sound: DataSet, files: Files) -> None:
    one, other = sound.key(), sound.key(shard=DAMAGED + 1)
    files[one], files[other] = files[other], files[one]


def renamed_sample(sound: DataSet, content: bytes) -> bytes:
    """The second sample takes the name of the first, with headers that are right: readers make one of the two."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = [(member, tar.extractfile(member)) for member in tar]
        keys = list(dict.fromkeys(member.name.partition(".")[0] for member, _ in members))
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as out:
            for member, data in members:
                member.name = member.name.replace(keys[1] + ".", keys[0] + ".", 1)
                out.addfile(member, data)
    return made.getvalue()[: len(content)]


EVERY_FORMAT: Mapping[str, Damage] = {
    "a-bit-of-the-payload-flipped": flip_at("payload"),
    "cut-at-the-end-of-a-record": cut_at("boundary"),
    "cut-inside-a-header": cut_at("header"),
    "cut-inside-the-payload": cut_at("payload"),
    "cut-to-nothing": edit(lambda sound, content: b""),
    "grown-by-a-byte": edit(lambda sound, content: content + b"x"),
    "shard-missing": gone(),
    "shards-swapped": swapped,
    "manifest-cut": beside("manifest.json", lambda content: content[: len(content) // 2]),
    "manifest-names-fewer-shards": beside("manifest.json", lambda content: _without_last_shard(content)),
    "list-of-shards-edited": beside("shards.txt", lambda content: content[:4] + b"x" + content[5:]),
}  # fmt: skip

ONE_FORMAT: Mapping[str, Mapping[str, Damage]] = {
    "tokens": {
        "index-missing": gone("idx"),
        "a-bit-of-the-index-flipped": flip(36, "idx"),
        "index-cut-inside-its-header": edit(lambda sound, content: content[:20], "idx"),
        "ends-missing": gone("ends"),
        "a-bit-of-the-ends-flipped": flip(-1, "ends"),
        "a-token-beyond-the-vocabulary": edit(lambda sound, content: content[:64] + b"\xff\xff" + content[66:]),
    },
    "webdataset": {
        "a-bit-of-a-header-flipped": flip_at("header"),
        "cut-before-the-end-of-the-tar": edit(lambda sound, content: content[:-1024]),
        "a-sample-has-the-name-of-another": edit(renamed_sample),
        "index-of-samples-edited": beside("wids.json", lambda content: content.replace(b"nsamples", b"nsample_", 1)),
        "dataset-card-missing": beside("README.md", lambda content: None),
    },
    "parquet": {
        "a-bit-of-the-footer-flipped": edit(lambda sound, content: flipped(content, len(content) - 40)),
        "footer-length-flipped": edit(lambda sound, content: flipped(content, len(content) - 8)),
        "dataset-card-edited": beside("README.md", lambda content: content.replace(b"train", b"brain")),
    },
    "mds": {
        "number-of-samples-edited": flip(0),
        "a-bit-of-an-offset-flipped": flip(9),
        "another-type-of-a-column": edit(lambda sound, content: content.replace(b'"int"', b'"str"')),
        "index-missing": beside("index.json", lambda content: None),
        "index-edited": beside("index.json", lambda content: content.replace(b"xxh3_64", b"xxh3_46", 1)),
    },
}  # fmt: skip

BEFORE_IT_WAS_HASHED: Mapping[str, tuple[str, ...]] = {
    "tokens": ("a-token-beyond-the-vocabulary", "a-bit-of-the-ends-flipped", "a-bit-of-the-index-flipped"),
    "webdataset": ("a-bit-of-a-header-flipped", "cut-at-the-end-of-a-record", "cut-before-the-end-of-the-tar",
                   "a-sample-has-the-name-of-another"),
    "parquet": ("a-bit-of-the-payload-flipped", "cut-inside-the-payload", "footer-length-flipped"),
    "mds": ("number-of-samples-edited", "a-bit-of-an-offset-flipped", "another-type-of-a-column"),
}  # fmt: skip
"""The same, by who wrote the shard: every digest holds, and only reading the records tells."""


def damages_of(format: str) -> Mapping[str, Damage]:
    return {**EVERY_FORMAT, **ONE_FORMAT[format]}


def _without_last_shard(manifest: bytes) -> bytes:
    document = json.loads(manifest)
    return json.dumps({**document, "shards": document["shards"][:-1]}).encode()
