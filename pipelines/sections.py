"""The sections of the run description: a model a stage, each field with its meaning, unit, range and default."""

from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticKnownError

from components.contracts.checkpoint import VerifyLevel, Writers
from components.contracts.dataset import FieldType, OverLong, ProofLevel, ReadAs
from components.contracts.gang import AcceleratorRule
from components.contracts.names import is_experiment_name, parse_checkpoint_id
from components.contracts.retention import RetentionPolicy
from components.contracts.units import Duration, Size, format_duration, write_size


def _printable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which no program can be given")
    return text


Text = Annotated[str, AfterValidator(_printable)]


def _unit_is_written(value: object, info: ValidationInfo) -> object:
    if info.mode == "json" and not isinstance(value, str):  # from YAML: a bare number hides whether it means s or ms
        raise ValueError(f"is {value}, without a unit; write for example 90s, 1h30m or 512MiB")
    return value


def _at_most_30_days(seconds: float) -> float:
    if not 0 < seconds <= MAX_TIME_SECONDS:
        raise ValueError(f"is {format_duration(seconds)}; set more than 0 and at most 30d")
    return seconds


MAX_TIME_SECONDS = 30 * 86400

Time = Annotated[
    Duration,
    BeforeValidator(_unit_is_written, json_schema_input_type=str),
    AfterValidator(_at_most_30_days),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
"""A duration as people write it, `90s`, `1h30m`: more than 0, at most 30 days."""

Bytes = Annotated[
    Size,
    BeforeValidator(_unit_is_written, json_schema_input_type=str),
    PlainSerializer(write_size, return_type=str, when_used="json"),
]
"""A size as people write it, `512MiB`, `2GB`."""

Retries = Annotated[int, Field(ge=0, le=20)]

OURS = ("ARGOSY_", "PET_", "TORCHELASTIC_")
"""Prefixes of environment variables that belong to the gang."""
RENDEZVOUS = frozenset(
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
)


def _free_variable(name: str) -> str:
    if name in RENDEZVOUS or name.startswith(OURS):
        raise ValueError(f"{name} is set by Argosy for every rank; choose another name")
    return name


EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_free_variable)]


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


class Section(BaseModel):
    """Base of every section: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class StageLimits(Section):
    """What every stage takes. `timeout` is the deadline of one attempt, so a stage may take (retries + 1) times it."""

    timeout: Time
    """Deadline of one attempt of the stage, for example 30m; more than 0, at most 30d."""
    retries: Retries
    """How often the stage is tried again after a passing fault (store, network, lost pod): 0 to 20."""


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
    (JSON lines with uri, range, key and fields). auto goes by suffix: .jsonl, .parquet, .tar, else files."""
    format: Literal["tokens", "webdataset", "parquet", "mds"] = "tokens"
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

    @field_validator("sequence_length", "over_long")
    @classmethod
    def _required_for_tokens(cls, value: object, info: ValidationInfo) -> object:
        if value is None and info.data.get("format") == "tokens":
            raise PydanticKnownError("missing")
        return cls._only_for_tokens(value, info)

    @field_validator("end_of_document", "text_field")
    @classmethod
    def _only_for_tokens(cls, value: object, info: ValidationInfo) -> object:
        if value is not None and info.data.get("format", "tokens") != "tokens":
            raise ValueError(f"has no meaning with format {info.data['format']}; leave it out")
        return value

    @field_validator("key_field", "fields")
    @classmethod
    def _only_for_samples(cls, value: object, info: ValidationInfo) -> object:
        if value and info.data.get("format") == "tokens":
            raise ValueError("has no meaning with format tokens; leave it out")
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
    backend: Literal["auto", "process"] = "auto"
    """What the gang is made of: process (processes of this machine); auto chooses by the place it runs in."""
    env: dict[EnvName, Text] = {}
    """More environment variables for the program. Values are strings: put numbers in quotes."""
    workdir: Annotated[Text, StringConstraints(min_length=1)] | None = None
    """Folder the program starts in; relative to the folder of this file, which is also the default."""
    limits: Limits = Limits()
    """Clocks of the gang."""
    max_restarts: Annotated[int, Field(ge=0, le=100)] = 3
    """Restarts after failures, over the whole run: 0 to 100. Preemption or a lost launcher costs none."""
    timeout: Time | None = None  # type: ignore[assignment]
    """Deadline of one attempt of the launcher. Default: (max_restarts + 1) * (start + stop) + run + 5m."""
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
