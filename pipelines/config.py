"""The run description: TrainConfig nests a section a stage, checks what spans several, and is read from YAML."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from components.contracts.names import ExperimentName, Identifier
from components.errors import BadInput
from components.storage.location import StoreOptions, parse_location
from pipelines.cluster_sections import (
    ArgoSection,
    CaBundleSection,
    DnsLabel,
    ObjectName,
    PlacementSection,
    ProxySection,
    QueueSection,
)
from pipelines.code_section import CodeSection
from pipelines.conflicts import conflicts, least_launch_timeout
from pipelines.field_types import Section, Text, Time
from pipelines.gitops_section import GitOpsSection
from pipelines.sections import (
    CheckpointSection,
    LaunchSection,
    PreflightSection,
    ResumeSection,
    RetainSection,
    ShardSection,
    VerifySection,
)
from pipelines.storage_section import StorageOptionsSection
from templates.deadlines import path_seconds, stage_seconds

MAX_FILE_BYTES = 256 * 1024
"""A run description is a page of text; what is larger is another file, named by mistake."""


def _none_or_section(value: object) -> object:
    if value == "none":
        return None
    if value is None:
        raise ValueError("is empty; write `none` to train without checkpoints, or every_steps: <n>")
    return value


def _plain(text: str) -> str:
    # These values are Workflow parameters: Argo would substitute braces, and a line break is never meant.
    if "{{" in text or not text.isprintable() or text != text.strip():
        raise ValueError("holds braces `{{`, control characters or outer spaces; write the plain name")
    return text


def _storage(text: str) -> str:
    try:
        parse_location(text)
    except BadInput as error:
        raise ValueError(f"{error.seen}; {error.fix}") from error
    return text


Plain = Annotated[Text, Field(min_length=1), AfterValidator(_plain)]


class TrainConfig(Section):
    """One distributed training run, from corpus to retained checkpoints."""

    experiment: ExperimentName
    """Name of the experiment, in every label, log line and checkpoint path: lowercase letters, digits and hyphens,
    starting with a letter, at most 40 characters."""
    model_version: Annotated[Identifier, StringConstraints(pattern=r"[a-z0-9]$")] = "v1"
    """Checkpoints of different model versions never mix: lowercase letters, digits, `.`, `_`, `-`, at most 63
    characters, starting and ending with a letter or digit."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1234
    """Told to the program as ARGOSY_SEED: 0 to 4294967295."""
    storage: Annotated[Plain, AfterValidator(_storage)] | None = None
    """Data, checkpoints, runs and reports live under it: file:///absolute/folder or s3://bucket/prefix. Default:
    file://$ARGOSY_HOME/storage."""
    storage_options: StorageOptionsSection | None = None
    """How an s3:// storage is reached."""
    image: Plain | None = None
    """Container image of the ranks. Without meaning on one machine."""
    platform_image: Plain | None = None
    """Container image of the stages. On one machine it only names itself in log lines."""
    namespace: DnsLabel | None = None
    """Namespace of the cluster the Workflow runs in. Default: the one of the kubeconfig or token."""
    service_account: ObjectName | None = None
    """Service account of every stage's pod. Default: argosy-stage, and argosy-launcher for launch and finish, as
    infra/kubernetes installs them."""
    image_pull_secrets: tuple[ObjectName, ...] | None = None
    """Names of the Secrets that let the cluster pull the images."""
    proxy: ProxySection | None = None
    """The way out of the cluster: {https: "http://proxy.example:3128"}."""
    ca_bundle: CaBundleSection | None = None
    """Certificates to trust in the cluster's pods: {config_map: company-ca}."""
    argo: ArgoSection | None = None
    """Which Argo runs the Workflow."""
    placement: PlacementSection | None = None
    """Where the stages' pods may run."""
    queue: QueueSection | None = None
    """Kueue's queue for the gang: {name: main, priority: high}. Default: the gang starts as soon as it finds room."""
    gitops: GitOpsSection | None = None
    """Runs that a schedule or a push starts. Default: none by a schedule, and by a push to main."""
    deadline: Time | None = None
    """Deadline of the whole Workflow. Default: the longest its stages can take with all their retries."""
    code: CodeSection | None = None
    """A folder that travels with the run: {folder: src, exclude: [data/]}. Default: the program is in image."""
    shard: ShardSection
    preflight: PreflightSection = PreflightSection()
    launch: LaunchSection
    checkpoint: Annotated[
        CheckpointSection | None,
        BeforeValidator(_none_or_section, json_schema_input_type=CheckpointSection | Literal["none"]),
        PlainSerializer(lambda value: "none" if value is None else value.model_dump(mode="json"), when_used="json"),
    ]
    """A section, or the word none for a program that writes no checkpoints (restarts then begin at step 0)."""
    resume: ResumeSection = ResumeSection()
    verify: VerifySection = VerifySection()
    retain: RetainSection = RetainSection()

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> "TrainConfig":
        found = list(conflicts(self))
        if found:
            text = "; ".join(f"{path}: {seen}; {fix}" for path, seen, fix in found)
            raise PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": found})
        return self

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values as people would write them, defaults filled in; `TrainConfig` reads them back."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True) | (
            {"checkpoint": "none"} if self.checkpoint is None else {}
        )

    @property
    def store_options(self) -> StoreOptions:
        """How the storage is reached, as far as the description says."""
        return self.storage_options.options() if self.storage_options is not None else StoreOptions()

    @property
    def queue_seconds(self) -> float:
        """How long a gang may wait in its queue; 0 without one."""
        return self.queue.rule(self.launch.limits.queue).limit_seconds if self.queue else 0.0

    @property
    def launch_timeout(self) -> float:
        """Seconds one attempt of the launcher may take; never less than what its limits allow for."""
        return self.launch.timeout if self.launch.timeout is not None else least_launch_timeout(self)

    @property
    def critical_path(self) -> float:
        """Seconds the Workflow takes when every stage uses all its attempts to the end."""
        shard = 3 * stage_seconds(self.shard.timeout, self.shard.retries)
        return path_seconds(
            max(shard, stage_seconds(self.preflight.timeout, self.preflight.retries)),
            stage_seconds(self.launch_timeout, self.launch.retries),
            stage_seconds(self.verify.timeout, self.verify.retries),
            stage_seconds(self.retain.timeout, self.retain.retries),
        )

    @property
    def workflow_deadline(self) -> float:
        """Seconds the Workflow may take: as described, or the critical path."""
        return self.deadline if self.deadline is not None else self.critical_path


def load_config(path: Path | None = None, *, recipe: str | None = None, overrides: Iterable[str] = ()) -> TrainConfig:
    """The run description in the YAML file `path`, or the built-in `recipe`, with `field=value` overrides applied.

    Without either it is the default recipe. Raises BadInput that lists every fault with its place.
    """
    from pipelines.faults import explain, in_order
    from pipelines.yaml_source import Source, read_yaml

    if path is not None:
        name = str(path)
        source = read_yaml(_read(path), name=name)
        if source.problems and source.data is None:
            raise BadInput("BadDescription", f"{name} cannot be read", problems=source.problems)
    else:
        from pipelines.recipes import find_recipe

        name, config = find_recipe(recipe)
        source = Source(data=config.as_json(), places={(): f"recipe {name}"})
        name = f"recipe {name}"
    if source.data is None:
        source.data = {}
    if isinstance(source.data, dict):
        for text in overrides:
            _override(source, text)
    try:
        config = TrainConfig.model_validate_json(json.dumps(source.data))
    except ValidationError as error:
        source.problems.extend(explain(error, source, TrainConfig))
    if source.problems:
        count = len(source.problems)
        raise BadInput(
            "BadDescription", f"{name} has {count} fault{'s' if count > 1 else ''}", "correct what is listed",
            problems=in_order(source.problems),
        )  # fmt: skip
    return config


def default_storage(home: Path) -> str:
    """Where everything lives unless the description says otherwise: below `home`. Raises BadInput."""
    if "{{" in str(home) or not str(home).isprintable():
        raise BadInput("BadHome", f"ARGOSY_HOME is {str(home)!r}", "use a folder without braces and control characters")
    return f"file://{home.absolute()}/storage"


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        seen = f"{path} is not UTF-8 text: {error.reason} at byte {error.start}"
        raise BadInput("BadDescription", seen, "save it as UTF-8") from error
    except OSError as error:
        raise BadInput(
            "NoDescription", f"cannot read {path}: {error.strerror}", "make one with `python pipelines/train.py init`"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise BadInput("BadDescription", f"{path} is larger than {MAX_FILE_BYTES} bytes", "name a run description")
    return text


def _override(source: Any, text: str) -> None:
    from components.errors import Problem
    from pipelines.yaml_source import read_yaml

    field, equals, value = text.partition("=")
    path = tuple(field.strip().split("."))
    place = f"--set {field.strip()}"
    if not equals or not all(path):
        source.problems.append(Problem(f"--set {text}", "not an assignment", "write --set section.field=value"))
        return
    parsed = read_yaml(value, name=place, has_lines=False)
    if parsed.problems:
        source.problems.extend(parsed.problems)
    else:
        source.override(path, parsed, place)
