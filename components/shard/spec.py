"""What the shard stage needs; one Spec for its plan, task and merge parts."""

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.dataset import DataOptions, ProofLevel, ReadOptions
from components.contracts.document import Document


class ShardSpec(Document):
    """Inputs of the tasks: `plan` none; `task` plan_id and task_index; `merge` plan_id."""

    corpus: str
    """A folder, a glob, a manifest, a uri in a store, or python:stdlib; resolved where the stage runs, relative to
    --workdir."""
    read: ReadOptions = ReadOptions()
    options: DataOptions
    """As described: what the tokenizer or the corpus decides of it is filled in when the plan is made."""
    tokenizer: str = "bytes"
    """bytes, or path or uri of a tokenizer.json."""
    end_of_document: str | None = None
    """The token that ends a document; None: the one its tokenizer.json has for it."""
    max_bad_records: NonNegativeInt
    num_tasks: PositiveInt
    target_shard_bytes: PositiveInt
    """Input bytes after which a new shard begins; decides shard boundaries, so it is part of the plan."""
    verify: ProofLevel = "digests"
    """How each task proves the shards it leaves, those it found done included."""
