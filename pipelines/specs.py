"""What each stage is told: a run description turned into the Specs of its stages."""

import posixpath

from components.contracts.checkpoint import VerifyLevel
from components.contracts.dataset import DataOptions, PackingOptions, ReadOptions, SampleField, SampleOptions
from components.contracts.gang import CheckpointRule, GangLimits, ResumeRule
from components.finish.spec import FinishSpec
from components.launch.spec import LaunchSpec
from components.preflight.spec import PreflightSpec
from components.retain.spec import RetainSpec
from components.shard.spec import ShardSpec
from components.verify.spec import VerifySpec
from pipelines.config import TrainConfig
from pipelines.pod_options import pod_options
from pipelines.sections import ShardSection


def paths_read(config: TrainConfig) -> dict[str, str]:
    """What the stages read, by its field: paths and uris."""
    shard = config.shard
    tokenizer = {} if shard.tokenizer == "bytes" else {"shard.tokenizer": shard.tokenizer}
    return {"shard.corpus": shard.corpus, **tokenizer}


def shard_spec(config: TrainConfig) -> ShardSpec:
    shard = config.shard
    return ShardSpec(
        corpus=shard.corpus,
        read=ReadOptions(
            read_as=shard.read_as,
            text_field=shard.text_field,
            key_field=shard.key_field,
            fields=tuple(SampleField(name=name, type=kind) for name, kind in shard.fields.items()),
        ),
        options=_data_options(shard),
        tokenizer=shard.tokenizer,
        end_of_document=shard.end_of_document,
        max_bad_records=shard.bad_records.max,
        num_tasks=shard.num_tasks,
        target_shard_bytes=shard.target_shard_size,
        verify=shard.verify,
    )


def _data_options(shard: ShardSection) -> DataOptions:
    if shard.format != "tokens":
        return SampleOptions(format=shard.format)
    assert shard.sequence_length is not None  # the section sees to both
    assert shard.over_long is not None
    return PackingOptions(sequence_length=shard.sequence_length, over_long=shard.over_long)


def preflight_spec(config: TrainConfig) -> PreflightSpec:
    launch = config.launch
    return PreflightSpec(
        experiment=config.experiment,
        model_version=config.model_version,
        corpus=config.shard.corpus,
        num_nodes=launch.num_nodes,
        nproc_per_node=launch.nproc_per_node,
        command=launch.command,
        env=launch.env,
        # Locally the folder is still there when preflight looks; what the ranks get is looked at by the agents.
        workdir=posixpath.join(config.code.folder if config.code else "", launch.workdir or ""),
        start=launch.start,
        backend=launch.backend,
        checkpoint=_checkpoint_rule(config),
        resume=_resume_rule(config),
        memory_per_rank_bytes=config.preflight.memory_per_rank,
        min_free_bytes=config.preflight.min_free_space,
        accelerator=launch.accelerator,
        description=config.as_json(),
    )


def launch_spec(config: TrainConfig) -> LaunchSpec:
    launch = config.launch
    return LaunchSpec(
        experiment=config.experiment,
        model_version=config.model_version,
        num_nodes=launch.num_nodes,
        nproc_per_node=launch.nproc_per_node,
        command=launch.command,
        workdir=launch.workdir or "",
        ships_code=True if config.code else None,
        start=launch.start,
        backend=launch.backend,
        env=launch.env,
        seed=config.seed,
        limits=GangLimits(
            start_seconds=launch.limits.start,
            run_seconds=launch.limits.run,
            no_progress_seconds=launch.limits.no_progress,
            stop_seconds=launch.limits.stop,
        ),
        max_restarts=launch.max_restarts,
        checkpoint=_checkpoint_rule(config),
        resume=_resume_rule(config),
        memory_per_rank_bytes=config.preflight.memory_per_rank,
        accelerator=launch.accelerator,
        timeout_seconds=config.launch_timeout,
        pods=pod_options(config),
    )


def verify_spec(config: TrainConfig) -> VerifySpec:
    return VerifySpec(
        experiment=config.experiment,
        model_version=config.model_version,
        level=config.verify.level,
        has_checkpoints=config.checkpoint is not None,
    )


def retain_spec(config: TrainConfig) -> RetainSpec:
    return RetainSpec(
        experiment=config.experiment,
        model_version=config.model_version,
        policy=None if config.checkpoint is None else config.retain.policy(),
    )


def finish_spec(config: TrainConfig) -> FinishSpec:
    return FinishSpec(
        experiment=config.experiment,
        model_version=config.model_version,
        stop_seconds=config.launch.limits.stop,
    )


def _checkpoint_rule(config: TrainConfig) -> CheckpointRule | None:
    if config.checkpoint is None:
        return None
    level: VerifyLevel = config.verify.level
    return CheckpointRule(
        every_steps=config.checkpoint.every_steps,
        writers=config.checkpoint.writers,
        verify_level=level,
        retain=config.retain.policy(),
        verify_timeout_seconds=config.verify.timeout,
        retain_timeout_seconds=config.retain.timeout,
    )


def _resume_rule(config: TrainConfig) -> ResumeRule:
    return ResumeRule(source=config.resume.source, on_new_data=config.resume.on_new_data)
