"""Documents of the packed data set: the plan (written by shard plan), receipts (shard task), manifest (shard merge).

Readers: shard tasks and merge read the plan, merge reads the receipts, the agent and the training program the manifest.

What a packed sequence means: `sequence_length` tokens, documents end to end, each ended by `end_of_document`, the rest
filled with it. A training program shifts: inputs are tokens [0, L-1), targets tokens [1, L), and a target that is
`end_of_document` after `end_of_document` is padding (see `components/dataset/reader.py:inputs_and_targets`).
"""

import hashlib
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.document import Document

OverLong = Literal["split", "truncate", "drop", "error"]
"""What happens to a document longer than a sequence: cut into several, cut once, left out, or refused."""


class PackingOptions(Document):
    """Everything besides the input bytes that decides which bytes come out. Part of the data version."""

    format: Literal["tokens"] = "tokens"
    tokenizer: Literal["bytes"] = "bytes"
    vocab_size: PositiveInt = 257
    """Ids are below this. For `bytes`: 256 byte values and the end-of-document id 256."""
    end_of_document: NonNegativeInt = 256
    """Written after every document and used as padding."""
    dtype: Literal["uint16", "int32"] = "uint16"
    sequence_length: PositiveInt
    """Tokens in every packed sequence."""
    over_long: OverLong


class PlannedInput(Document):
    """One input file. `path` is relative to the corpus root; size and mtime only serve to notice a change."""

    path: str
    size_bytes: NonNegativeInt
    mtime_ns: int


class PlannedShard(Document):
    """One output shard: a pure function of the inputs [first_input, first_input + num_inputs) and the options.

    An input too large for one shard is cut into byte ranges, each a shard with `num_inputs` 1.
    """

    first_input: NonNegativeInt
    num_inputs: PositiveInt
    start_byte: NonNegativeInt = 0
    """Where in the first input this shard begins; not 0 only in a later range of a large input."""
    end_byte: PositiveInt | None = None
    """Where in the only input this shard ends; None: at its end, which is where its document ends."""


class ShardPlan(Document):
    """Which inputs become which shards. Nothing in it depends on the number of tasks."""

    kind: Literal["shard-plan"] = "shard-plan"
    version: Literal[1] = 1
    root: str
    """Absolute folder that the inputs' paths start from, or python:stdlib. How the corpus was spelled is left out."""
    packing: Literal[1] = 1
    """Which packing rules; raised when the same plan would give other bytes, so that old shards are not mixed in."""
    inputs: tuple[PlannedInput, ...]
    shards: tuple[PlannedShard, ...]
    options: PackingOptions
    max_bad_records: NonNegativeInt
    bad_records: tuple["BadRecord", ...] = ()
    """Inputs that could not be read when the plan was made; they count against `max_bad_records`."""

    def plan_id(self) -> str:
        """`p-<16 hex>`: the digest of the whole plan."""
        return plan_id_of(self.to_bytes())


def plan_id_of(plan: bytes) -> str:
    """The id of the plan stored as these bytes, without parsing them."""
    return f"p-{hashlib.sha256(plan).hexdigest()[:16]}"


class StoredFile(Document):
    """A file as it must be found: path relative to the document that names it, size in bytes, hex SHA-256."""

    path: str
    size_bytes: NonNegativeInt
    sha256: str


class Shard(Document):
    """One packed shard: a Megatron .bin/.idx pair."""

    index: NonNegativeInt
    files: tuple[StoredFile, ...]
    """The .bin, then the .idx."""
    num_sequences: NonNegativeInt
    num_tokens: NonNegativeInt
    """Tokens of documents, end-of-document ids included, padding excluded."""
    num_padding: NonNegativeInt
    num_documents: NonNegativeInt


class BadRecord(Document):
    """An input left out, and why."""

    path: str
    reason: str


class PackingCounts(Document):
    """What happened to the documents of one shard, of one task, or of all. A document counts where it begins."""

    num_inputs: NonNegativeInt = 0
    """Files, empty ones included, bad records not."""
    num_empty: NonNegativeInt = 0
    num_split: NonNegativeInt = 0
    num_truncated: NonNegativeInt = 0
    num_dropped: NonNegativeInt = 0
    input_bytes: NonNegativeInt = 0

    def __add__(self, other: "PackingCounts") -> "PackingCounts":
        names = PackingCounts.model_fields
        return PackingCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


class PackedShard(Document):
    """One finished shard, written after its files: what a repeated task finds done. Independent of the task count."""

    kind: Literal["packed-shard"] = "packed-shard"
    version: Literal[1] = 1
    plan_id: str
    shard: Shard
    bad_records: tuple[BadRecord, ...]
    counts: PackingCounts


class ShardReceipt(Document):
    """What one task wrote. `shards` is empty for a surplus task."""

    kind: Literal["shard-receipt"] = "shard-receipt"
    version: Literal[1] = 1
    plan_id: str
    task_index: NonNegativeInt
    num_tasks: PositiveInt
    shards: tuple[Shard, ...]
    bad_records: tuple[BadRecord, ...]
    counts: PackingCounts


class ShardManifest(Document):
    """The data set a gang trains on. Paths are relative to the folder of this document."""

    kind: Literal["shard-manifest"] = "shard-manifest"
    version: Literal[1] = 1
    data_version: str
    """`d-<16 hex>`: Merkle root over format, options and shard digests, and nothing else."""
    plan_id: str
    options: PackingOptions
    shards: tuple[Shard, ...]
    bad_records: tuple[BadRecord, ...]
    counts: PackingCounts

    @property
    def num_sequences(self) -> int:
        return sum(shard.num_sequences for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        return sum(shard.num_tokens for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for shard in self.shards for file in shard.files)
