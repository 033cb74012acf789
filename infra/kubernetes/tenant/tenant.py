"""A tenant: a team's namespace, its share of the cluster and who belongs to it, as a file of ten lines says."""

import difflib
import ipaddress
import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from components.cluster.quantities import parse_quantity
from components.contracts.document import path_of
from components.errors import BadInput, Problem

_RESERVED = frozenset(("default", "argo", "argocd", "kueue-system", "jobset-system", "argosy"))


def _free_name(name: str) -> str:
    if name.startswith("kube-") or name in _RESERVED:
        raise ValueError(f"{name} is a namespace of the cluster's own; choose another")
    return name


def _quantity(text: str) -> str:
    value = parse_quantity(text)
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    if value > _MOST:
        raise ValueError(f"{text!r} is more than Kubernetes can count")
    return text


def _resources(amounts: dict[str, str]) -> dict[str, str]:
    wrong = [
        f"{name} is nothing that a container asks for; write cpu, memory, ephemeral-storage, "
        "or a device such as nvidia.com/gpu"
        for name in sorted(amounts)
        if name not in _STANDARD and not _DEVICE.fullmatch(name)
    ]
    wrong += [
        f"{name}: {amount!r} is no whole number, and devices cannot be shared"
        for name, amount in sorted(amounts.items())
        if "/" in name and parse_quantity(amount) % 1
    ]
    if wrong:
        raise ValueError("; ".join(wrong))
    return amounts


def _subject(text: str) -> str:
    if not re.fullmatch(r"(user|group):\S+", text):
        raise ValueError(f"{text!r} is nobody; write user:NAME or group:NAME, as the cluster's sign-in names them")
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that cannot be seen; whoever reads it would take it for another")
    return text


def _network(text: str) -> str:
    try:
        if "/" not in text:
            raise ValueError
        return str(ipaddress.ip_network(text))
    except ValueError:
        example = "10.0.0.0/8 or 2001:db8::/64, with no bit set beyond the prefix"
        raise ValueError(f"{text!r} is no network; write for example {example}") from None


def _by_digest(image: str) -> str:
    if not re.fullmatch(r"[^\s@]+@sha256:[0-9a-f]+", image):
        raise ValueError(f"{image!r} has no digest, so it could become other code; write NAME@sha256:…")
    return image


_MOST = Decimal(2**63 - 1)
_STANDARD = frozenset(("cpu", "memory", "ephemeral-storage"))
_DEVICE = re.compile(r"(?!requests\.)[a-z0-9][-a-z0-9.]*/[a-zA-Z0-9][-a-zA-Z0-9_.]*")


Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Quantity = Annotated[str, AfterValidator(_quantity)]
Resources = Annotated[dict[str, Quantity], AfterValidator(_resources)]
Subject = Annotated[str, AfterValidator(_subject)]
"""`user:kim` or `group:vision`, as the cluster's sign-in names them."""
Network = Annotated[str, AfterValidator(_network)]
ClassName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class Tenant(BaseModel):
    """One team. The cluster's administrators write it; nothing in it is the team's to choose."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[Name, AfterValidator(_free_name)]
    """The namespace; also in the names of what belongs to no namespace."""
    members: Annotated[list[Subject], Field(min_length=1)]
    """May submit, stop and resume runs, read their state and logs: [group:vision, user:kim]."""
    readers: list[Subject] = []
    """May look, and change nothing."""
    queue: Name = "main"
    """LocalQueue: what `queue.name` in a run description says."""
    cluster_queue: Name | None = None
    """An existing ClusterQueue to draw on. Default: one of its own, made from flavor, quota, cohort and borrow."""
    flavor: Name = "default-flavor"
    """ResourceFlavor that its own ClusterQueue counts; it exists already."""
    cohort: Name | None = None
    """ClusterQueues that lend each other what they do not use. Default: none."""
    quota: Annotated[Resources, Field(min_length=1)]
    """What its gangs may always have: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "16"}."""
    borrow: Resources = {}
    """What they may have on top while others in the cohort leave it unused."""
    stages: Resources = {"cpu": "8", "memory": "32Gi"}
    """What shard, preflight, launch, verify and retain may take beside the gangs."""
    max_pods: Annotated[int, Field(ge=10, le=100_000)] = 500
    """Pods at a time, gangs and stages together."""
    priority_classes: list[ClassName] = []
    """PriorityClasses that its pods may have. The scheduler ends pods of others, any tenant's, to make room for a
    higher one, whatever queues say; so by default none. A cluster whose default is a class needs that one here.
    """
    platform_image: Annotated[str, AfterValidator(_by_digest)] | None = None
    """Image of the janitor, by digest. Default: no janitor, so `lost_node: force_after` is refused there."""
    egress: list[Network] | None = None
    """Networks its gangs may reach beside each other and DNS, for example the storage's: [10.0.0.0/8]. Default: all."""
    sees_others: bool = False
    """Whether its launchers may name other tenants' workloads while a gang waits. Default: only their sum is shown."""
    pod_security: Literal["restricted", "baseline"] = "restricted"
    """Pod Security level enforced in the namespace; baseline only for a GPU runtime that needs it."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "Tenant":
        wrong = []
        if self.borrow and self.cohort is None:
            wrong.append("borrow has no meaning without cohort")
        wrong += [f"borrow names {name}, of which quota has none" for name in sorted(self.borrow.keys() - self.quota)]
        if self.cluster_queue is not None and (self.cohort is not None or "flavor" in self.model_fields_set):
            wrong.append("cluster_queue is another's: cohort and flavor have no meaning with it")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def cluster_queue_name(self) -> str:
        """Of the ClusterQueue it draws on: its own, or the one that was named."""
        return self.cluster_queue or self.name


def read_tenants(paths: list[Path]) -> list[Tenant]:
    """One tenant a file. Raises BadInput with every fault of every file, names that collide among them."""
    tenants: list[Tenant] = []
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            tenant = Tenant.model_validate(_load(path))
        except ValidationError as error:
            problems += [Problem(f"{path} {path_of(item['loc'])}".strip(), _words(item)) for item in error.errors()]
            continue
        except RecursionError:
            problems.append(Problem(str(path), "cannot be read: it is nested too deeply"))
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
            problems.append(Problem(str(path), f"cannot be read: {' '.join(str(error).split())}"))
            continue
        if tenant.name in seen:
            fix = "two tenants need two names: everything of theirs is told apart by it"
            problems.append(Problem(str(path), f"is called {tenant.name}, as {seen[tenant.name]} is", fix))
        seen.setdefault(tenant.name, path)
        tenants.append(tenant)
    queues = {tenant.name: tenant for tenant in tenants if tenant.cluster_queue is None}
    problems += [
        Problem(f"tenant {tenant.name}", f"draws on ClusterQueue {tenant.cluster_queue}, which is another tenant's own",
                "leave cluster_queue out, or name one that is nobody's")
        for tenant in tenants
        if tenant.cluster_queue in queues
    ]  # fmt: skip
    if problems:
        raise BadInput("BadTenant", "the tenants cannot be rendered", "correct what is listed", problems=problems)
    return tenants


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands there twice: the first would be ignored in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"line {node.start_mark.line + 1}: {', '.join(twice)} stands there twice")
        return super().construct_mapping(node, deep)


def _load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)


def _words(item: Any) -> str:
    kind, name = item["type"], str(item["loc"][-1]) if item["loc"] else ""
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(name, Tenant.model_fields, n=1)
        return f"is no field; did you mean {close[0]}?" if close else f"is no field; there are {_FIELDS}"
    if kind == "missing":
        return "is missing"
    if kind == "model_type":
        return "is no mapping of fields to values, such as `name: vision`"
    if kind == "string_type":
        return f'{item["input"]!r} is no text; put it in quotes, as in "64"'
    if kind == "string_pattern_mismatch":
        return f"{item['input']!r} is no name; use lowercase letters, digits and hyphens, a letter first"
    return str(item["msg"]).removeprefix("Value error, ")


_FIELDS = ", ".join(Tenant.model_fields)
