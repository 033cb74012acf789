"""A strict, read-only view of the part of an Argo Workflow that Argosy emits; anything else is refused with its path.

Every field here is either honoured by the local engine or listed in `WITHOUT_MEANING` with the reason why one machine
has no use for it. A field that is not here does not exist for us: an engine that ignored it would teach people wrong
things.
"""

import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from components.contracts.units import parse_duration
from components.errors import BadInput
from infra.pod_view import (
    Labels,
    MountView,
    NameView,
    Number,
    PodGcView,
    PodPatch,
    PodSecurityView,
    ResourcesView,
    TemplateMetadataView,
    TolerationView,
    TtlView,
    VariableView,
    View,
    VolumeView,
)
from infra.refusals import refusals


def _duration_text(text: str) -> str:
    parse_duration(text)
    return text


DurationText = Annotated[str, AfterValidator(_duration_text)]


class ParameterView(View):
    """An argument, an input, or an argument of a task."""

    name: str
    value: str | None = None
    description: str | None = None


class ParametersView(View):
    """A list of parameters, as arguments or inputs have it."""

    parameters: tuple[ParameterView, ...] = ()

    def values(self) -> dict[str, str | None]:
        return {parameter.name: parameter.value for parameter in self.parameters}


class ValueFromView(View):
    """Where an output's value is read from, when the container has ended."""

    path: str
    default: str | None = None
    """The value when there is no such file; without it a missing file is an Error."""


class OutputView(View):
    """An output parameter of a container."""

    name: str
    value_from: ValueFromView


class OutputsView(View):
    """Output parameters of a template."""

    parameters: tuple[OutputView, ...] = ()


class BackoffView(View):
    """Wait before retry n (from 0): duration * factor^n, at most cap. Durations such as `3s`, `1m`."""

    duration: DurationText
    factor: Number | None = None
    cap: DurationText | None = None

    def wait_seconds(self, retry: int) -> float:
        """Seconds to wait before retry number `retry`, counted from 0."""
        wait = parse_duration(self.duration) * float(1 if self.factor is None else self.factor) ** retry
        return wait if self.cap is None else min(wait, parse_duration(self.cap))


class RetryView(View):
    """When a leaf is tried again: policy and expression must both allow it, `limit` times at most."""

    limit: Number
    retry_policy: Literal["Always", "OnFailure", "OnError", "OnTransientError"] | None = None
    expression: str | None = None
    backoff: BackoffView | None = None


class ContainerView(View):
    """One process."""

    image: str
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    args: tuple[str, ...] = ()
    env: tuple[VariableView, ...] = ()
    """Over what the place itself sets."""
    resources: ResourcesView | None = None
    volume_mounts: tuple[MountView, ...] = ()


class SequenceView(View):
    """`withSequence`: the numbers from `start` (0) on, `count` of them, or to `end` inclusive, which may lie below."""

    start: Number = 0
    end: Number | None = None
    count: Number | None = None

    @model_validator(mode="after")
    def _has_one_end(self) -> "SequenceView":
        if (self.count is None) == (self.end is None):
            raise ValueError("needs count or end, exactly one")
        return self

    def items(self) -> tuple[str, ...]:
        """The values of `{{item}}`."""
        end = self.start + self.count - 1 if self.count is not None else self.end
        if self.count == 0 or end is None:
            return ()
        step = 1 if self.start <= end else -1
        return tuple(str(number) for number in range(self.start, end + step, step))


class TaskView(View):
    """A task of a DAG: which template, with what, after what."""

    name: str
    template: str
    arguments: ParametersView = ParametersView()
    depends: str | None = None
    with_sequence: SequenceView | None = None


class DagView(View):
    """Tasks and what each waits for."""

    tasks: Annotated[tuple[TaskView, ...], Field(min_length=1)]
    fail_fast: bool = True
    """Whether the first or the last failed target gives the DAG its phase. Branches that can go on do so either way."""

    def task(self, name: str) -> TaskView | None:
        return next((task for task in self.tasks if task.name == name), None)


class StepView(View):
    """The step of an exit handler: which template."""

    name: str
    template: str


class TemplateView(View):
    """A container, a DAG, or one step: what an exit handler is."""

    name: str
    inputs: ParametersView = ParametersView()
    outputs: OutputsView = OutputsView()
    container: ContainerView | None = None
    dag: DagView | None = None
    steps: tuple[tuple[StepView]] | None = None
    active_deadline_seconds: Number | None = None
    """Deadline of one attempt: SIGTERM, then SIGKILL after the grace period."""
    retry_strategy: RetryView | None = None
    pod_spec_patch: str | None = None
    """JSON; locally only terminationGracePeriodSeconds acts."""
    metadata: TemplateMetadataView = TemplateMetadataView()
    annotations: Labels = {}
    """Of the template itself: its display name."""
    service_account_name: str | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> "TemplateView":
        if sum(item is not None for item in (self.container, self.dag, self.steps)) != 1:
            raise ValueError("must be a container, a dag, or one step, exactly one of these")
        return self

    @property
    def is_leaf(self) -> bool:
        return self.container is not None


class SpecView(View):
    """What runs, with what, for how long."""

    entrypoint: str
    arguments: ParametersView = ParametersView()
    templates: Annotated[tuple[TemplateView, ...], Field(min_length=1)]
    on_exit: str | None = None
    active_deadline_seconds: Number | None = None
    """Deadline of the whole Workflow; the exit handler is exempt."""
    ttl_strategy: TtlView | None = None
    pod_gc: Annotated[PodGcView | None, Field(alias="podGC")] = None
    pod_metadata: TemplateMetadataView | None = None
    service_account_name: str | None = None
    image_pull_secrets: tuple[NameView, ...] = ()
    security_context: PodSecurityView | None = None
    volumes: tuple[VolumeView, ...] = ()
    pod_spec_patch: PodPatch | None = None
    """JSON: what all pods have in common, those containers too that Argo adds."""
    node_selector: Labels = {}
    tolerations: tuple[TolerationView, ...] = ()

    def template(self, name: str) -> TemplateView | None:
        return next((template for template in self.templates if template.name == name), None)


class MetadataView(View):
    """The Workflow object's own metadata."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: Labels = {}
    annotations: Labels = {}


class Workflow(View):
    """An Argo Workflow as Argosy emits it."""

    api_version: Literal["argoproj.io/v1alpha1"]
    kind: Literal["Workflow"]
    metadata: MetadataView
    spec: SpecView


_CLUSTER_ONLY = "there are no pods on one machine"
WITHOUT_MEANING: Mapping[tuple[type[View], str], str] = {
    (MetadataView, "labels"): "nothing selects runs by label on one machine",
    (MetadataView, "annotations"): "they are for the Argo UI",
    (MetadataView, "generateName"): "a run is named when it is submitted",
    (MetadataView, "namespace"): "one machine has no namespaces",
    (TemplateView, "metadata"): _CLUSTER_ONLY,
    (TemplateView, "annotations"): "they are for the Argo UI",
    (TemplateView, "serviceAccountName"): _CLUSTER_ONLY,
    (SpecView, "ttlStrategy"): "a run's folder stays until it is deleted",
    (SpecView, "podGC"): _CLUSTER_ONLY,
    (SpecView, "podMetadata"): _CLUSTER_ONLY,
    (SpecView, "serviceAccountName"): _CLUSTER_ONLY,
    (SpecView, "imagePullSecrets"): "no image is pulled on one machine",
    (SpecView, "securityContext"): "a stage runs as whoever submitted it",
    (SpecView, "volumes"): "a stage writes to its attempt's own folder",
    (SpecView, "podSpecPatch"): "pods are fenced in by it, stages here by the engine; AWS_* is inherited",
    (SpecView, "nodeSelector"): "there is one machine",
    (SpecView, "tolerations"): "there is one machine",
    (ContainerView, "resources"): "stages share this machine without limits",
    (ContainerView, "volumeMounts"): "a stage writes to its attempt's own folder",
    (ContainerView, "image"): "stages run in this checkout's environment; the image only names itself in log lines",
    (ParameterView, "description"): "it is for the Argo UI",
}
"""Fields that one machine has no use for, and why. All other fields of the view are honoured."""


def load_workflow(manifest: Any, *, where: str = "manifest") -> Workflow:
    """The typed view of a manifest. Raises BadInput naming the path of every field that is unknown or wrong."""
    try:
        return Workflow.model_validate(manifest)
    except ValidationError as error:
        raise BadInput(
            "UnsupportedWorkflow", f"{where} holds what Argosy does not emit or understand",
            "run what `compile` prints, unchanged", problems=refusals(error, manifest),
        ) from error  # fmt: skip


def without_meaning(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Fields present in `manifest` that the local engine leaves alone: path without indexes -> reason."""
    return dict(_without_meaning(Workflow, manifest, ""))


def _without_meaning(model: type[View], value: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, info in model.model_fields.items():
        alias = info.alias or name
        if not isinstance(value, Mapping) or alias not in value:
            continue
        inner_path = f"{path}.{alias}".lstrip(".")
        if reason := WITHOUT_MEANING.get((model, alias)):
            yield inner_path, reason
            continue
        if inner := _view_in(info.annotation):
            many = isinstance(value[alias], list)
            for item in value[alias] if many else [value[alias]]:
                yield from _without_meaning(inner, item, inner_path + ("[]" if many else ""))


def _view_in(annotation: Any) -> type[View] | None:
    if isinstance(annotation, type) and issubclass(annotation, View):
        return annotation
    return next((view for part in typing.get_args(annotation) if (view := _view_in(part))), None)
