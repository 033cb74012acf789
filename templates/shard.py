"""shard as three templates: plan fixes the shards, tasks write them side by side, merge names the data version."""

from collections.abc import Mapping
from functools import partial

from hera.workflows import Container

from components.contracts.outputs import SHARD_MERGE as MERGE_OUTPUTS
from components.contracts.outputs import SHARD_PLAN as PLAN_OUTPUTS
from components.shard.spec import ShardSpec
from templates.labels import SHARD_MERGE, SHARD_PLAN, SHARD_TASK, input_parameter
from templates.stage import stage_template


def shard_templates(
    spec: ShardSpec, *, experiment: str, timeout: float, retries: int, resources: Mapping[str, Mapping[str, str]]
) -> tuple[Container, Container, Container]:
    """The templates of plan, task and merge. One task template serves all tasks, so the manifest does not grow."""
    shard = partial(
        stage_template, module="shard", spec=spec, experiment=experiment, timeout=timeout, retries=retries,
        resources=resources,
    )  # fmt: skip
    plan = shard(SHARD_PLAN, part="plan", outputs=PLAN_OUTPUTS)
    task = shard(
        SHARD_TASK, part="task", task=f"{SHARD_TASK}-{input_parameter('task_index')}", inputs=("plan_id", "task_index")
    )
    merge = shard(SHARD_MERGE, part="merge", inputs=("plan_id",), outputs=MERGE_OUTPUTS)
    return plan, task, merge
