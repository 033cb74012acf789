"""What the shard stage needs; one Spec for its plan, task and merge parts."""

from pydantic import NonNegativeInt, PositiveInt

from components.contracts.dataset import PackingOptions
from components.contracts.document import Document


class ShardSpec(Document):
    """Inputs of the tasks: `plan` none; `task` plan_id and task_index; `merge` plan_id."""

    corpus: str
    """A folder, a glob, or python:stdlib; resolved where the stage runs, relative to --workdir."""
    options: PackingOptions
    max_bad_records: NonNegativeInt
    num_tasks: PositiveInt
    target_shard_bytes: PositiveInt
    """Input bytes after which a new shard begins; decides shard boundaries, so it is part of the plan."""
