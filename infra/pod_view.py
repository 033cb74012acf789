"""The part of the strict view that is about pods: who they run as, what they may use, where they run.

All of it is without meaning on one machine. It is read strictly all the same: what Argosy does not emit is refused here
and not by an API server hours later.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

Labels = dict[str, str]


def _int_of_text(value: object) -> object:
    # Kubernetes' IntOrString: Argo takes 3 and "3".
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


Number = Annotated[int, BeforeValidator(_int_of_text), Field(ge=0)]


class View(BaseModel):
    """Base of the view: frozen, no unknown keys, names as Argo spells them."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, defer_build=True)


class TemplateMetadataView(View):
    """Labels and annotations of pods."""

    labels: Labels = {}
    annotations: Labels = {}


class TtlView(View):
    """When the finished Workflow object is deleted."""

    seconds_after_completion: Number | None = None
    seconds_after_success: Number | None = None
    seconds_after_failure: Number | None = None


class PodGcView(View):
    """When finished pods are deleted."""

    strategy: str
    delete_delay_duration: str | None = None


class VariableView(View):
    """An environment variable. What is secret is never written here: on one machine it is inherited."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: str = ""


class NameView(View):
    """A reference to an object of the same namespace."""

    name: str


class ResourcesView(View):
    """What a container asks for and may use at most."""

    requests: Labels = {}
    limits: Labels = {}


class MountView(View):
    """A volume's place in a container."""

    name: str
    mount_path: str
    read_only: bool = False


class EmptyDirView(View):
    """A folder that comes and goes with the pod."""


class SecretVolumeView(View):
    """A Secret as files."""

    secret_name: str


class KeyView(View):
    """A key of a ConfigMap, and the file it becomes."""

    key: str
    path: str


class ConfigMapVolumeView(View):
    """Some keys of a ConfigMap as files."""

    name: str
    items: tuple[KeyView, ...]


class VolumeView(View):
    """A folder of a pod; never one of its node."""

    name: str
    empty_dir: EmptyDirView | None = None
    secret: SecretVolumeView | None = None
    config_map: ConfigMapVolumeView | None = None


class SeccompView(View):
    """The system calls a pod may make."""

    type: Literal["RuntimeDefault"]


class PodSecurityView(View):
    """Who a pod's processes are."""

    run_as_non_root: Literal[True]
    run_as_user: Annotated[int, Field(gt=0)]
    run_as_group: Annotated[int, Field(gt=0)]
    fs_group: Annotated[int, Field(gt=0)]
    seccomp_profile: SeccompView


class CapabilitiesView(View):
    """What a root process may do; ours are none."""

    drop: tuple[Literal["ALL"], ...]


class ContainerSecurityView(View):
    """What a container's processes may do."""

    allow_privilege_escalation: Literal[False]
    capabilities: CapabilitiesView
    read_only_root_filesystem: Literal[True]


class TolerationView(View):
    """A taint that a pod tolerates."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] | None = None
    value: str | None = None
    effect: str | None = None


class FieldView(View):
    """A field of the pod."""

    field_path: str


class SecretKeyView(View):
    """A key of a Secret."""

    name: str
    key: str
    optional: bool = False


class SourceView(View):
    """Where a variable's value comes from."""

    field_ref: FieldView | None = None
    secret_key_ref: SecretKeyView | None = None


class SourcedVariableView(View):
    """A variable of a pod."""

    name: str
    value: str | None = None
    value_from: SourceView | None = None


class PatchedContainerView(View):
    """What is patched onto one of a pod's containers."""

    name: Literal["main", "wait", "init"]
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    security_context: ContainerSecurityView
    resources: ResourcesView | None = None
    env: tuple[SourcedVariableView, ...] = ()
    volume_mounts: tuple[MountView, ...] = ()


class PodPatchView(View):
    """The Workflow's `podSpecPatch`: what all pods have in common."""

    enable_service_links: bool
    init_containers: tuple[PatchedContainerView, ...]
    containers: tuple[PatchedContainerView, ...]
    volumes: tuple[VolumeView, ...]


def _pod_patch(text: str) -> str:
    read_pod_patch(text)
    return text


def read_pod_patch(text: str) -> PodPatchView:
    """The Workflow's `podSpecPatch`. Raises ValueError naming what Argosy does not emit."""
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
    try:
        return PodPatchView.model_validate(data)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, item['loc'])) or 'it'}: {item['msg']}" for item in error.errors()[:5]]
        raise ValueError(f"holds what Argosy does not emit: {'; '.join(faults)}") from error


PodPatch = Annotated[str, AfterValidator(_pod_patch)]
