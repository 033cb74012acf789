"""The three parts of the stage: one plan, `num_tasks` tasks that follow it, one merge that refuses gaps."""

from collections.abc import Callable, Mapping

from components.runtime.stage import StageContext
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.storage.base import open_store


def _plan(context: StageContext, spec: ShardSpec) -> Mapping[str, str]:
    plan_id, plan = make_plan(open_store(context.storage), spec, workdir=context.workdir, log=context.log)
    return {"plan_id": plan_id, "num_shards": str(plan.num_shards)}


def _task(context: StageContext, spec: ShardSpec) -> Mapping[str, str]:
    run_task(
        open_store(context.storage), plan_id=context.inputs.get("plan_id", ""),
        task_index=context.inputs.get("task_index", ""), num_tasks=spec.num_tasks, log=context.log,
        verify=spec.verify,
    )  # fmt: skip
    return {}


def _merge(context: StageContext, spec: ShardSpec) -> Mapping[str, str]:
    manifest = merge_receipts(
        open_store(context.storage), plan_id=context.inputs.get("plan_id", ""), num_tasks=spec.num_tasks,
        log=context.log,
    )  # fmt: skip
    return {
        "data_version": manifest.data_version,
        "num_sequences": str(manifest.num_sequences),
        "num_tokens": str(manifest.num_tokens),
    }


PARTS: Mapping[str, Callable[[StageContext, ShardSpec], Mapping[str, str]]] = {
    "plan": _plan, "task": _task, "merge": _merge,
}  # fmt: skip
