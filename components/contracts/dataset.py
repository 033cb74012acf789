"""Documents of the packed data set: the plan (written by shard plan), receipts (shard task), manifest (shard merge).

Readers: shard tasks and merge read the plan, merge reads the receipts, the agent and the training program the manifest.

What a packed sequence means: `sequence_length` tokens, documents end to end, each ended by `end_of_document`, the rest
filled with it. A training program shifts: inputs are tokens [0, L-1), targets tokens [1, L), and a target that is
`end_of_document` after `end_of_document` is padding (see `components/dataset/reader.py:inputs_and_targets`).
"""

import hashlib
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, model_validator

from components.contracts.document import Document

OverLong = Literal["split", "truncate", "drop", "error"]
"""What happens to a document longer than a sequence: cut into several, cut once, left out, or refused."""

SampleFormat = Literal["webdataset", "parquet", "mds"]
"""Formats that keep samples of named fields as they are."""

ReadAs = Literal["auto", "file", "grouped_files", "labelled_folders", "lines", "jsonl", "parquet", "tar", "manifest"]
"""How records are found in the inputs. auto: .jsonl and .ndjson as jsonl, .parquet as parquet, .tar as tar, every other
file as file (format tokens) or grouped_files (the others)."""

FieldType = Literal["bytes", "text", "int", "float", "json"]
"""What a field holds. Values travel as bytes: UTF-8 text, decimal digits, JSON text."""

ProofLevel = Literal["files", "digests", "records"]
"""How a shard is proven: names and sizes; every byte as well; every record in its format as well."""


Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

_MOST_UP = 3
"""From data/versions/<data_version> up to the root of the storage."""


def _inside(path: str) -> str:
    """A path that may begin with steps up, as far as the storage's root, and goes only down from there."""
    parts = path.split("/")
    down = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if down > _MOST_UP or any(part in ("", ".", "..") for part in parts[down:]) or down == len(parts) or "\0" in path:
        raise ValueError(f"{path!r} is not a relative path within the storage")
    return path


class PackingOptions(Document):
    """Tokens: everything besides the input bytes that decides which bytes come out. Part of the data version."""

    format: Literal["tokens"] = "tokens"
    tokenizer: str = "bytes"
    """`bytes`, or `sha256:<hex>` of the tokenizer.json."""
    vocab_size: PositiveInt = 257
    """Ids are below this. For `bytes`: 256 byte values and the end-of-document id 256."""
    end_of_document: NonNegativeInt = 256
    """Written after every document and used as padding."""
    dtype: Literal["uint16", "int32"] = "uint16"
    sequence_length: PositiveInt
    """Tokens in every packed sequence."""
    over_long: OverLong


class SampleField(Document):
    """One field of every sample."""

    name: str
    type: FieldType


class SampleOptions(Document):
    """Samples: everything besides the input bytes that decides which bytes come out. Part of the data version."""

    format: SampleFormat
    fields: tuple[SampleField, ...] = ()
    """The columns of parquet and mds, which every sample has; empty for webdataset, where samples may differ."""
    labels: tuple[str, ...] = ()
    """labelled_folders: the folder names whose places in this list the samples carry as `cls`."""


DataOptions = Annotated[PackingOptions | SampleOptions, Field(discriminator="format")]


class ReadOptions(Document):
    """How records are found in the inputs. Not part of the data version: the bytes that come out are."""

    read_as: ReadAs = "auto"
    text_field: str | None = None
    """Format tokens: the field that holds the document; None: `text` of a row, `txt` of a sample in a tar."""
    key_field: str | None = None
    """The field of a row that names the sample; None: the input's name and the place in it do."""
    fields: tuple[SampleField, ...] = ()
    """The fields to keep; empty: all."""


class ShardPart(Document):
    """A piece of the plan: one line a shard. A task reads the pieces one after the other, never all at once."""

    sha256: Sha256
    size_bytes: PositiveInt
    num_shards: PositiveInt


class ShardPlan(Document):
    """Which inputs become which shards. Nothing in it depends on the number of tasks."""

    kind: Literal["shard-plan"] = "shard-plan"
    version: Literal[2] = 2
    root: str
    """Absolute folder or uri that the inputs' paths start from, or python:stdlib. How the corpus was spelled is not
    kept."""
    packing: Literal[4] = 4
    """Which packing rules; raised when the same plan would give other bytes, so that old shards are not mixed in."""
    read: ReadOptions
    options: DataOptions
    max_bad_records: NonNegativeInt
    num_inputs: PositiveInt
    input_bytes: NonNegativeInt
    parts: tuple[ShardPart, ...]
    bad_records: tuple["BadRecord", ...] = ()
    """Inputs that could not be read when the plan was made; they count against `max_bad_records`."""

    @property
    def num_shards(self) -> int:
        return sum(part.num_shards for part in self.parts)

    def plan_id(self) -> str:
        """`p-<16 hex>`: the digest of the whole plan."""
        return plan_id_of(self.to_bytes())


class PlanWitness(Document):
    """What one place saw of the plain files of a plan beside their sizes and times. Not part of the plan: see
    `components/dataset/witness.py`.
    """

    kind: Literal["plan-witness"] = "plan-witness"
    version: Literal[1] = 1
    newest_change: NonNegativeInt
    """The newest time of their inodes, in ns."""


def plan_id_of(plan: bytes) -> str:
    """The id of the plan stored as these bytes, without parsing them."""
    return f"p-{hashlib.sha256(plan).hexdigest()[:16]}"


class StoredFile(Document):
    """A file as it must be found: path relative to the document that names it, size in bytes, hex SHA-256."""

    path: Annotated[str, AfterValidator(_inside)]
    size_bytes: NonNegativeInt
    sha256: Sha256


def _refuse_folders(*groups: tuple[StoredFile, ...]) -> None:
    """What a task leaves lies in the one folder of the shards."""
    for file in (file for group in groups for file in group):
        if "/" in file.path:
            raise ValueError(f"{file.path!r} is not the name of a file among the shards")


class ShardContent(Document):
    """What one shard holds, wherever it stands in a data set."""

    files: Annotated[tuple[StoredFile, ...], Field(min_length=1)]
    """tokens: .bin, .idx, .ends (where documents end, see `components/dataset/formats/tokens.py`); else one file."""
    hashes: dict[str, str] = {}
    """More digests of the first file, by algorithm, for loaders that check with them."""
    num_sequences: NonNegativeInt
    """Packed sequences; 0 in formats of samples."""
    num_samples: NonNegativeInt = 0
    """Samples; 0 in format tokens."""
    num_tokens: NonNegativeInt
    """Tokens of documents, end-of-document ids included, padding excluded."""
    num_padding: NonNegativeInt
    num_documents: NonNegativeInt


class Shard(ShardContent):
    """One packed shard of a data set."""

    index: NonNegativeInt
    entry: str = ""
    """Id of the plan's entry it was made from; `data/shards/<entry>.json` is its record."""


class BadRecord(Document):
    """An input or a record in it left out, and why."""

    path: str
    """Relative to the plan's root."""
    reason: str
    offset: NonNegativeInt | None = None
    """Byte where the record begins (Parquet: row); None: the whole input."""
    content: str | None = None
    """How it begins, what cannot be shown escaped."""


class PackingCounts(Document):
    """What happened to the documents of one shard, of one task, or of all. A document counts where it begins."""

    num_inputs: NonNegativeInt = 0
    """Files begun, empty and bad ones included."""
    num_empty: NonNegativeInt = 0
    num_split: NonNegativeInt = 0
    num_truncated: NonNegativeInt = 0
    num_dropped: NonNegativeInt = 0
    input_bytes: NonNegativeInt = 0

    def __add__(self, other: "PackingCounts") -> "PackingCounts":
        names = PackingCounts.model_fields
        return PackingCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


class Quarantine(Document):
    """What was left out of a shard: how many records, the first of them, and the file with all."""

    num_records: NonNegativeInt = 0
    records: tuple[BadRecord, ...] = ()
    """At most 20."""
    files: tuple[StoredFile, ...] = ()
    """JSON lines, a BadRecord each."""


class PackedShard(Document):
    """One finished shard, written after its files: what a repeated task, or a later plan with the same entry, finds
    done.
    """

    kind: Literal["packed-shard"] = "packed-shard"
    version: Literal[2] = 2
    entry: str
    content: ShardContent
    blocks: tuple[tuple[str, ...], ...]
    """For each file the xxh3_64 of every `BLOCK_BYTES` of it: they say where a damaged file is damaged."""
    keys: StoredFile | None = None
    """Hashes of the samples' keys, where users chose them: how the merge finds duplicates."""
    quarantine: Quarantine
    counts: PackingCounts

    @model_validator(mode="after")
    def _lies_among_the_shards(self) -> Self:
        _refuse_folders(self.content.files, (self.keys,) if self.keys else (), self.quarantine.files)
        return self


class ShardReceipt(Document):
    """What one task wrote. `shards` is empty for a surplus task."""

    kind: Literal["shard-receipt"] = "shard-receipt"
    version: Literal[2] = 2
    plan_id: str
    task_index: NonNegativeInt
    num_tasks: PositiveInt
    shards: tuple[Shard, ...]
    keys: tuple[StoredFile, ...] = ()
    quarantine: Quarantine
    counts: PackingCounts

    @model_validator(mode="after")
    def _lies_among_the_shards(self) -> Self:
        _refuse_folders(*(shard.files for shard in self.shards), self.keys, self.quarantine.files)
        return self


class ShardManifest(Document):
    """The data set a gang trains on. Paths are relative to the folder of this document."""

    kind: Literal["shard-manifest"] = "shard-manifest"
    version: Literal[1] = 1
    data_version: str
    """`d-<16 hex>`: Merkle root over format, options and shard digests, and nothing else."""
    plan_id: str
    options: DataOptions
    shards: tuple[Shard, ...]
    bad_records: tuple[BadRecord, ...]
    """The first of those left out, at most 20."""
    num_bad_records: NonNegativeInt = 0
    quarantine: tuple[StoredFile, ...] = ()
    """JSON lines, a BadRecord each: all of them."""
    counts: PackingCounts

    @property
    def num_sequences(self) -> int:
        return sum(shard.num_sequences for shard in self.shards)

    @property
    def num_samples(self) -> int:
        return sum(shard.num_samples for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        return sum(shard.num_tokens for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for shard in self.shards for file in shard.files)
