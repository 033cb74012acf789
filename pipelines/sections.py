"""The sections of the run description: a model a stage, each field with its meaning, unit, range and default."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, WithJsonSchema, field_validator
from pydantic_core import PydanticKnownError

from components.contracts.checkpoint import VerifyLevel, Writers
from components.contracts.dataset import FieldType, OverLong, ProofLevel, ReadAs
from components.contracts.gang import AcceleratorRule
from components.contracts.names import is_experiment_name, parse_checkpoint_id
from components.contracts.retention import RetentionPolicy
from components.shard.meaning import why_unused
from pipelines.cluster_sections import (
    DnsLabel,
    EnvFrom,
    LabelKey,
    LabelValue,
    LostNodeSection,
    ObjectName,
    PodPatch,
    RankResources,
    RdmaSection,
    SecretVariable,
    StageResources,
    Toleration,
    Volume,
)
from pipelines.field_types import Bytes, EnvName, Retries, Section, Text, Time


def _resume_point(text: str) -> str:
    kind, _, step = text.partition(":")
    if (
        text in ("latest", "fresh")
        or parse_checkpoint_id(text)
        or (kind == "step" and step.isascii() and step.isdigit())
    ):
        return text
    experiment, _, which = text.partition("@")
    if which == "latest" and is_experiment_name(experiment):
        return text
    raise ValueError(
        f"not a resume point: {text!r}; write latest, fresh, step:<n>, a checkpoint id such as step-300-term-2, "
        "or <experiment>@latest"
    )


class StageLimits(Section):
    """What every stage takes. `timeout` is the deadline of one attempt, so a stage may take (retries + 1) times it."""

    timeout: Time
    """Deadline of one attempt of the stage, for example 30m; more than 0, at most 30d."""
    retries: Retries
    """How often the stage is tried again after a passing fault (store, network, lost pod): 0 to 20."""
    resources: StageResources = StageResources()
    """What the stage's pod asks for in a cluster."""


class BadRecords(Section):
    """What to do about records that cannot be used."""

    max: Annotated[int, Field(ge=0)] = 0
    """How many are left out, with a quarantine file that names them, before shard fails: 0 or more."""


class ShardSection(StageLimits):
    """shard: the corpus becomes shards, packed sequences of tokens or samples as they are."""

    corpus: Annotated[Text, StringConstraints(min_length=1)]
    """Folder, file, glob, uri such as s3://bucket/prefix, manifest (see read_as), or python:stdlib (the sources of the
    running Python). Relative to the folder of this file."""
    read_as: ReadAs = "auto"
    """How records are found in the corpus: file (each is one), grouped_files (those that share a name are one),
    labelled_folders (each with the number of its folder as cls), lines, jsonl, parquet, tar (WebDataset) or manifest
    (JSON lines with uri, range, key and fields). auto goes by suffix: .parquet, .jsonl, .ndjson and .tar (also
    packed: .gz, .zst, .tgz), else files."""
    format: Annotated[Literal["tokens", "webdataset", "parquet", "mds"], Field(validate_default=True)] = "tokens"
    """Format of the shards: tokens (packed sequences, Megatron .bin/.idx), webdataset (tar), parquet or mds."""
    tokenizer: Annotated[Text, StringConstraints(min_length=1)] = "bytes"
    """tokens: bytes (one token a byte, and 256 for the end of a document), or path or uri of a tokenizer.json."""
    end_of_document: Text | None = None
    """tokens: the token of a tokenizer.json that ends a document. Default: the usual one it has, such as
    <|endoftext|>."""
    text_field: Text | None = None
    """tokens: the field of a row or sample that holds the document. Default: text of a row, txt of a tar's sample."""
    key_field: Text | None = None
    """The field of a row that names its sample, and must do so once. Default: the place of the row."""
    fields: dict[Text, FieldType] = {}
    """The fields of a sample to keep, with their types: bytes, text, int, float or json. Default: all; for parquet and
    mds those of the first record."""
    sequence_length: Annotated[int | None, Field(ge=2, le=2**20, validate_default=True)] = None
    """tokens: tokens in every packed sequence, 2 to 1048576. Required then."""
    over_long: Annotated[
        OverLong | None, WithJsonSchema({"enum": list(get_args(OverLong))}), Field(validate_default=True)
    ] = None
    """What happens to a document longer than a sequence: split (cut into several), truncate (cut once), drop (left
    out) or error (refused). Nobody can make this choice for you: format tokens has no default for it."""
    bad_records: BadRecords = BadRecords()
    """What to do about records that cannot be used."""
    num_tasks: Annotated[int, Field(ge=1, le=1000)] = 4
    """How many tasks share the work side by side: 1 to 1000. Never changes the bytes that come out."""
    target_shard_size: Annotated[Bytes, Field(ge=2**12)] = 64 * 2**20
    """Input bytes after which a new shard begins: 4KiB or more."""
    verify: ProofLevel = "digests"
    """How each task proves the shards it leaves, those it found made included: files (sizes), digests (every byte) or
    records (each record in its format)."""
    timeout: Time = 3600.0
    """Deadline of one attempt of plan, of each task and of merge; more than 0, at most 30d."""
    retries: Retries = 2
    resources: StageResources = StageResources(memory=2**30)

    @field_validator("sequence_length", "over_long")
    @classmethod
    def _required_for_tokens(cls, value: object, info: ValidationInfo) -> object:
        if value is None and info.data.get("format") == "tokens":
            raise PydanticKnownError("missing")
        if why := why_unused(info.field_name or "", value, info.data):
            raise ValueError(why)
        return value

    @field_validator("format")
    @classmethod
    def _reads_as_it_should(cls, value: str, info: ValidationInfo) -> str:
        if why := why_unused("read_as", info.data.get("read_as"), {"format": value}):
            raise ValueError(f"is {value}, and read_as {why}")
        return value

    @field_validator("tokenizer", "end_of_document", "text_field", "key_field", "fields")
    @classmethod
    def _has_meaning(cls, value: object, info: ValidationInfo) -> object:
        assert info.field_name is not None
        if why := why_unused(info.field_name, value, info.data):
            raise ValueError(why)
        return value


class PreflightSection(StageLimits):
    """preflight: refuse a doomed run within seconds."""

    memory_per_rank: Bytes = 600 * 2**20
    """Memory a node must have free for each of its ranks. A small PyTorch program on CPU takes 600MiB."""
    min_free_space: Bytes = 2 * 2**30
    """Space that must stay free in the storage, for checkpoints and logs."""
    timeout: Time = 600.0
    retries: Retries = 2


class Limits(Section):
    """Clocks of the gang, each its own; every one more than 0 and at most 30d."""

    queue: Time | None = None
    """With `queue`: how long a gang may wait to be admitted. Counts anew for every gang; those that wait again after
    preemptions share one such time. Default: 2h."""
    start: Time = 1200.0
    """From a gang's creation until every rank is started: agents joining, node checks. Counts anew for every gang."""
    run: Time = 86400.0
    """How long the ranks may run, over all attempts of the run."""
    no_progress: Time = 900.0
    """Longest time without a new step from any rank."""
    stop: Time = 60.0
    """From a stop until the ranks are killed; covers their last checkpoint and its commit."""


class LaunchSection(StageLimits):
    """launch: the whole gang, or nothing."""

    num_nodes: Annotated[int, Field(ge=1, le=1000)]
    """Nodes in the gang; on one machine, agents side by side: 1 to 1000."""
    nproc_per_node: Annotated[int, Field(ge=1, le=256)]
    """Ranks on each node: 1 to 256."""
    accelerator: AcceleratorRule | None = None
    """What `nvidia-smi` must report on every node; without it a CPU run is fine, and is said to be one."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    """The training program and its arguments as a list of strings; no shell is involved."""
    start: Literal["rank", "node"] = "rank"
    """rank: one process a rank, with torchrun's variables. node: one a node (torchrun, accelerate … inside)."""
    backend: Literal["auto", "process", "jobset", "job"] = "auto"
    """What the gang is made of: process (processes of the launcher's machine or pod), jobset, or job (an Indexed Job).
    auto: process on one machine; in a cluster jobset where it is installed, else job."""
    env: dict[EnvName, Text] = {}
    """More environment variables for the program. Values are strings: put numbers in quotes."""
    secrets: dict[EnvName, SecretVariable] | None = None
    """Variables for the program from Secrets: {HF_TOKEN: {secret: hub, key: token}}."""
    env_from: tuple[EnvFrom, ...] | None = None
    """Secrets and ConfigMaps whose keys become variables of the program: [{secret: hub}]."""
    resources: RankResources | None = None  # type: ignore[assignment]
    """What the program's container asks for on each node of a cluster: {cpu: "16", memory: 64GiB, shm: 8GiB}."""
    volumes: tuple[Volume, ...] | None = None
    """Folders from the cluster for the program: [{path: /data, claim: corpus, read_only: true}]."""
    node_selector: dict[LabelKey, LabelValue] | None = None
    """Labels the gang's nodes must have."""
    tolerations: tuple[Toleration, ...] | None = None
    """Taints of nodes the gang may run on: [{key: nvidia.com/gpu}]."""
    annotations: dict[LabelKey, Text] | None = None
    """Annotations of the gang's pods, as other controllers of the cluster read them."""
    priority_class: ObjectName | None = None
    """PriorityClass of the gang's pods."""
    scheduler_name: DnsLabel | None = None
    """Scheduler of the gang's pods. Default: the cluster's own."""
    runtime_class: ObjectName | None = None
    """RuntimeClass of the gang's pods."""
    host_network: bool = False
    """Whether the gang's pods use their node's network. Pod Security `baseline` and `restricted` refuse it."""
    rdma: RdmaSection | None = None
    """Devices for a fast network: {resource: rdma/hca_shared_devices_a}."""
    pod_patch: PodPatch | None = None
    """A part of a pod's spec, laid over the gang's: affinity, topologySpreadConstraints, dnsConfig, hostAliases,
    preemptionPolicy, schedulingGates, resourceClaims, volumes, and of the container `program` env, envFrom, ports,
    resources, volumeMounts and volumeDevices. Nothing else."""
    lost_node: LostNodeSection = LostNodeSection()
    """What becomes of the gang when one of its nodes no longer answers."""
    workdir: Annotated[Text, StringConstraints(min_length=1)] | None = None
    """Folder the program starts in; relative to the folder of this file, which is also the default."""
    limits: Limits = Limits()
    """Clocks of the gang."""
    max_restarts: Annotated[int, Field(ge=0, le=100)] = 3
    """Restarts after failures, over the whole run: 0 to 100. Preemption or a lost launcher costs none."""
    timeout: Time | None = None  # type: ignore[assignment]
    """Deadline of one attempt of the launcher. Default: (max_restarts + 1) * (start + stop) + run + 5m; with `queue`
    (max_restarts + 1) * (queue + start + stop) + queue + run + 5m."""
    retries: Retries = 3
    """How often the launcher is replaced when it is lost: 0 to 20. Costs no restart of the gang."""


class CheckpointSection(Section):
    """When the program checkpoints, and whose marks count."""

    every_steps: Annotated[int, Field(ge=1)]
    """Optimizer steps between checkpoints, told to the program as ARGOSY_CHECKPOINT_EVERY_STEPS: 1 or more."""
    writers: Writers = "rank0"
    """Whose READY marks a step needs before it is published: rank0, or all."""


class ResumeSection(Section):
    """Where training starts from."""

    source: Annotated[str, AfterValidator(_resume_point), Field(alias="from")] = "latest"
    """latest | fresh | step:<n> | <checkpoint id> | <experiment>@latest."""
    on_new_data: Literal["refuse", "continue"] = "refuse"
    """When there are checkpoints, but of another data version: refuse the run, or continue on the new data."""


class VerifySection(StageLimits):
    """verify: is this checkpoint complete, intact, readable?"""

    level: VerifyLevel = "tensors"
    """files: names and sizes; digests: every byte too; tensors: formats, NaN and Inf too; load: torch loads it, too."""
    timeout: Time = 3600.0
    retries: Retries = 2
    resources: StageResources = StageResources(memory=2 * 2**30)


class RetainSection(StageLimits, RetentionPolicy):
    """retain: decide which verified checkpoints to keep, then delete the others."""

    keep_for: Time | None = None
    """Keep every verified checkpoint for this long after its commit, for example 7d; at most 30d."""
    timeout: Time = 1800.0
    retries: Retries = 2

    def policy(self) -> RetentionPolicy:
        """The part of this section that decides."""
        return RetentionPolicy(
            keep_last=self.keep_last, keep_every_steps=self.keep_every_steps, keep_best=self.keep_best,
            keep_for=self.keep_for,
        )  # fmt: skip
