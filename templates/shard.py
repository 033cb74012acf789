"""shard as three templates: plan fixes the shards, tasks write them side by side, merge names the data version."""

from collections.abc import Mapping

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
    plan = stage_template(
        SHARD_PLAN, module="shard", part="plan", spec=spec, experiment=experiment, timeout=timeout, retries=retries,
        resources=resources,
        outputs=PLAN_OUTPUTS,
    )  # fmt: skip
    task = stage_template(
        SHARD_TASK, module="shard", part="task", spec=spec, experiment=experiment, timeout=timeout, retries=retries,
        resources=resources,
        task=f"{SHARD_TASK}-{input_parameter('task_index')}", inputs=("plan_id", "task_index"),
    )  # fmt: skip
    merge = stage_template(
        SHARD_MERGE, module="shard", part="merge", spec=spec, experiment=experiment, timeout=timeout, retries=retries,
        resources=resources,
        inputs=("plan_id",), outputs=MERGE_OUTPUTS,
    )  # fmt: skip
    return plan, task, merge
