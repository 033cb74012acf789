"""What a run description says for clusters: names, secrets and places of pods. Without meaning on one machine."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.contracts.pod_patch import pod_patch_problems
from components.contracts.pods import LostNodeRule, Mount, QueueRule, TrustedAuthorities
from pipelines.field_types import Bytes, EnvName, Section, Text, Time

ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
"""Name of a Kubernetes object."""
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
_QUALIFIED = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LabelKey = Annotated[str, StringConstraints(pattern=_QUALIFIED, max_length=317)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[-A-Za-z0-9_.]{1,253}$")]
Cpu = Annotated[str, StringConstraints(pattern=r"^([1-9][0-9]*m|[0-9]+(\.[0-9]{1,3})?)$")]
"""Processor time as Kubernetes writes it: "2", "0.5" or "500m"."""


def _usable_path(text: str) -> str:
    if not text.startswith("/") or ".." in text.split("/") or ":" in text or not text.isprintable():
        raise ValueError(f"is {text!r}; write an absolute path without `..` and `:`")
    if text.rstrip("/") in _TAKEN or text.rstrip("/").startswith("/argosy/"):
        raise ValueError(f"{text} is Argosy's own; choose another folder")
    return text.rstrip("/")


_TAKEN = ("", "/argosy", "/dev/shm", "/proc", "/sys", "/dev", "/etc")


class ArgoSection(Section):
    """Which Argo runs the Workflow."""

    instance_id: LabelValue | None = None
    """Of the Argo controller that is to run it, when several share the cluster: `instanceID` of its configuration."""


class StageResources(Section):
    """What a stage's pod asks for. Its processor is a request without a limit; its memory is both."""

    cpu: Cpu = "250m"
    """Processor time, "2", "0.5" or "500m"."""
    memory: Bytes = 512 * 2**20
    """Memory, for example 512MiB; a stage that takes more is killed and tried again."""

    def manifest(self) -> dict[str, dict[str, str]]:
        """As Kubernetes spells it."""
        memory = quantity(self.memory)
        return {"requests": {"cpu": self.cpu, "memory": memory}, "limits": {"memory": memory}}


class RankResources(Section):
    """What the program's container asks for on each node, for all its ranks together."""

    cpu: Cpu | None = None
    """Processor time, "16" or "500m": a request, without a limit. Default: none is asked for."""
    memory: Bytes | None = None
    """Memory, a request and a limit. Default: nproc_per_node times preflight.memory_per_rank is asked for, no limit."""
    shm: Bytes | None = None
    """Size of /dev/shm, which counts as memory. Default: what Kubernetes gives, half of the memory."""
    devices: dict[LabelKey, Annotated[int, Field(ge=1, le=1024)]] | None = None
    """Devices by the name of their resource: {nvidia.com/gpu: 8}."""


class Toleration(Section):
    """A taint of nodes that pods may run on all the same."""

    key: LabelKey | None = None
    """Key of the taint. Default: every taint."""
    operator: Literal["Equal", "Exists"] = "Exists"
    """Exists: whatever its value."""
    value: LabelValue | None = None
    """Value of the taint; with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Default: every effect."""

    @model_validator(mode="after")
    def _is_whole(self) -> "Toleration":
        if (self.operator == "Equal") != (self.value is not None):
            raise ValueError("operator Equal needs a value, and Exists has none")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("operator Equal needs a key")
        return self

    def manifest(self) -> dict[str, Any]:
        """As Kubernetes spells it."""
        return self.model_dump(exclude_none=True)


class PlacementSection(Section):
    """Where the stages' pods may run; the ranks have launch.node_selector and launch.tolerations."""

    node_selector: dict[LabelKey, LabelValue] | None = None
    """Labels a node must have."""
    tolerations: tuple[Toleration, ...] | None = None
    """Taints of nodes the pods may run on."""


class SecretVariable(Section):
    """Where the value of a variable comes from."""

    secret: ObjectName
    """Name of the Secret."""
    key: SecretKey
    """Key in it."""

    def manifest(self, name: str) -> dict[str, Any]:
        """As Kubernetes spells it."""
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": self.key}}}


class EnvFrom(Section):
    """All keys of a Secret or a ConfigMap as variables."""

    secret: ObjectName | None = None
    """Name of a Secret."""
    config_map: ObjectName | None = None
    """Name of a ConfigMap."""
    prefix: EnvName | None = None
    """Put before every key."""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> "EnvFrom":
        if (self.secret is None) == (self.config_map is None):
            raise ValueError("needs secret or config_map, exactly one")
        return self

    def manifest(self) -> dict[str, Any]:
        """As Kubernetes spells it."""
        kind, name = ("secretRef", self.secret) if self.secret else ("configMapRef", self.config_map)
        return {**({"prefix": self.prefix} if self.prefix else {}), kind: {"name": name}}


class Volume(Section):
    """A folder of the program's container that comes from the cluster. A folder of the node itself is never one."""

    path: Annotated[Text, AfterValidator(_usable_path)]
    """Where the program finds it: an absolute path."""
    claim: ObjectName | None = None
    """Name of a PersistentVolumeClaim."""
    secret: ObjectName | None = None
    """Name of a Secret."""
    config_map: ObjectName | None = None
    """Name of a ConfigMap."""
    scratch: Bytes | None = None
    """Size of an empty folder of the pod's own, for example 100GiB."""
    read_only: bool = False
    """Whether the program may only read it."""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> "Volume":
        if sum(source is not None for source in (self.claim, self.secret, self.config_map, self.scratch)) != 1:
            raise ValueError("needs claim, secret, config_map or scratch, exactly one")
        return self

    def mount(self, name: str) -> Mount:
        """As the launch stage reads it."""
        if self.claim:
            source: dict[str, Any] = {"persistentVolumeClaim": {"claimName": self.claim, "readOnly": self.read_only}}
        elif self.secret:
            source = {"secret": {"secretName": self.secret}}
        elif self.config_map:
            source = {"configMap": {"name": self.config_map}}
        else:
            assert self.scratch is not None  # one of the four
            source = {"emptyDir": {"sizeLimit": quantity(self.scratch)}}
        return Mount(name=name, path=self.path, source=source, read_only=self.read_only)


def _allowed_patch(patch: dict[str, Any]) -> dict[str, Any]:
    if problems := pod_patch_problems(patch, where="pod_patch"):
        raise ValueError("; ".join(f"{item.where} {item.seen}: {item.fix}" for item in problems))
    return patch


PodPatch = Annotated[dict[str, Any], AfterValidator(_allowed_patch)]
"""A part of a pod's spec."""


class RdmaSection(Section):
    """Devices for a fast network between the gang's nodes (InfiniBand, RoCE, EFA), as a device plugin offers them.
    Ranks are not root, so how much memory they may lock is the node's own limit: `LimitMEMLOCK` of its containerd.
    """

    resource: LabelKey
    """Name of the resource, for example rdma/hca_shared_devices_a or vpc.amazonaws.com/efa."""
    count: Annotated[int, Field(ge=1, le=1024)] = 1
    """How many of them each node's ranks get, together: 1 to 1024."""


def _proxy_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable() or " " in text:
        raise ValueError(f"is {text!r}; write http://host:port")
    if parts.username or parts.password:
        raise ValueError("holds credentials, which would be seen in the Workflow; use a proxy that needs none")
    return text


class ProxySection(Section):
    """The way out of the cluster, for stages, agents and the program. Without it the cluster's own addresses are
    reached; a storage_options.endpoint that shall be, too, belongs into no_proxy.
    """

    http: Annotated[str, AfterValidator(_proxy_url)] | None = None
    """Address for http://, as HTTP_PROXY: http://host:port."""
    https: Annotated[str, AfterValidator(_proxy_url)] | None = None
    """Address for https://, as HTTPS_PROXY: http://host:port."""
    no_proxy: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:/_*-]+$")], ...] = ()
    """Hosts, domains (.example.com) and networks (10.0.0.0/8) that are reached directly, besides the cluster's own."""

    @model_validator(mode="after")
    def _names_a_way(self) -> "ProxySection":
        if not self.http and not self.https:
            raise ValueError("names no proxy; set http or https, or leave it out")
        return self

    def told(self) -> dict[str, str]:
        """As the launch stage reads it."""
        values = {"http": self.http, "https": self.https, "no_proxy": ",".join(self.no_proxy)}
        return {name: value for name, value in values.items() if value}


class CaBundleSection(Section):
    """Certificates that stages, agents and the program trust instead of those in their images: one PEM file with all
    that are needed, the public ones included. For the storage, storage_options.ca_secret comes first.
    """

    config_map: ObjectName
    """Name of the ConfigMap that holds it."""
    key: SecretKey = "ca.crt"
    """Key in it."""

    def told(self) -> TrustedAuthorities:
        """As the launch stage reads it."""
        return TrustedAuthorities(config_map=self.config_map, key=self.key)


class QueueSection(Section):
    """Kueue's queue in which the gang waits, without pods, until all of it fits. launch.limits.queue says how long."""

    name: DnsLabel
    """Name of a LocalQueue in the namespace."""
    priority: ObjectName | None = None
    """Name of a WorkloadPriorityClass. Default: the priority of launch.priority_class."""

    def rule(self, limit_seconds: float | None) -> QueueRule:
        """As the launch stage reads it."""
        return QueueRule(name=self.name, priority=self.priority, limit_seconds=limit_seconds or QUEUE_SECONDS)


QUEUE_SECONDS = 7200.0
"""How long a gang waits when the description does not say."""


class LostNodeSection(Section):
    """What becomes of a gang whose node no longer answers: only the node could say that its pods are gone."""

    policy: Literal["wait", "force_after", "fail"] = "force_after"
    """wait (for the node), force_after (the janitor deletes its pods, training goes on elsewhere) or fail."""
    after: Time = 120.0
    """From the node's last sign of life, with force_after and fail."""

    def rule(self) -> LostNodeRule:
        """As the launch stage reads it."""
        return LostNodeRule(policy=self.policy, after_seconds=self.after)


def quantity(num_bytes: int) -> str:
    """A size as Kubernetes writes it: 512Mi, or plain bytes."""
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if num_bytes and num_bytes % size == 0:
            return f"{num_bytes // size}{unit}"
    return str(num_bytes)
