"""What a tenant is in Kubernetes: namespace, queue, quota, rights, network; objects by the file they go to. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from components.cluster.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from components.cluster.quantities import parse_quantity, write_quantity
from components.contracts.cluster_names import COORDINATOR_PORT, DOMAIN, GANG_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from infra.kubernetes.permissions import (
    JANITOR,
    LAUNCHER,
    NODES_ROLE,
    RBAC,
    READER,
    STAGE,
    SUBMITTER,
    Account,
    Manifest,
    Rule,
    cluster_role,
    role,
)  # fmt: skip
from infra.kubernetes.tenant.tenant import Tenant

TENANT_LABEL = f"{DOMAIN}/tenant"
_JANITOR_YAML = Path(__file__).parent.parent / "janitor" / "janitor.yaml"
_OBJECTS = {"count/workflows.argoproj.io": "1000", "count/jobsets.jobset.x-k8s.io": "200", "count/jobs.batch": "500",
            "count/secrets": "1000", "count/configmaps": "1000", "services": "200"}  # fmt: skip
"""A namespace that fills the cluster's database would starve every other."""


def render(tenant: Tenant) -> dict[str, list[Manifest]]:
    """Objects by file name; the kustomization is among them."""
    files = {
        "namespace.yaml": [_namespace(tenant)],
        "quota.yaml": [_resource_quota(tenant), _no_other_priorities(tenant), _limit_range(tenant)],
        "queue.yaml": list(_queues(tenant)),
        "access.yaml": list(_access(tenant)),
        "network.yaml": list(_network(tenant)),
    }
    if tenant.platform_image is not None:
        files["janitor.yaml"] = list(_janitor(tenant, tenant.platform_image))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": sorted(files),
    }  # fmt: skip
    return {**files, "kustomization.yaml": [kustomization]}


def _metadata(tenant: Tenant, name: str, *, is_namespaced: bool = True) -> Manifest:
    place = {"namespace": tenant.name} if is_namespaced else {}
    return {"name": name, **place, "labels": {MANAGED_BY_LABEL: MANAGED_BY, TENANT_LABEL: tenant.name}}


def _namespace(tenant: Tenant) -> Manifest:
    metadata = _metadata(tenant, tenant.name, is_namespaced=False)
    levels = {
        f"pod-security.kubernetes.io/{mode}": level
        for mode, level in (("enforce", tenant.pod_security), ("warn", "restricted"), ("audit", "restricted"))
    }
    return {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {**metadata, "labels": {**metadata["labels"], **levels}},
    }  # fmt: skip


# --- its share


def _resource_quota(tenant: Tenant) -> Manifest:
    """On requests only: gangs' quota, what they may borrow, and the stages beside them."""
    names = sorted({*tenant.quota, *tenant.borrow, *tenant.stages})
    hard = {
        f"requests.{name}": write_quantity(
            sum((parse_quantity(part[name]) for part in (tenant.quota, tenant.borrow, tenant.stages) if name in part),
                start=parse_quantity("0"))
        )
        for name in names
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(tenant, "argosy"),
        "spec": {"hard": {**hard, "pods": str(tenant.max_pods), **_OBJECTS}},
    }  # fmt: skip


def _no_other_priorities(tenant: Tenant) -> Manifest:
    """No pod of another PriorityClass than the tenant may use: `system-node-critical` is open to every namespace, and
    for a pod that has it the scheduler ends those of other tenants.
    """
    allowed = sorted(set(tenant.priority_classes))
    scope: list[Manifest] = [{"scopeName": "PriorityClass", "operator": "Exists"}]
    if allowed:
        scope.append({"scopeName": "PriorityClass", "operator": "NotIn", "values": allowed})
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(tenant, "argosy-other-priorities"),
        "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": scope}},
    }  # fmt: skip


def _limit_range(tenant: Tenant) -> Manifest:
    """Requests for containers that name none: Argo's init and wait, without which the quota refuses every pod."""
    limits = [{"type": "Container", "defaultRequest": {"cpu": "50m", "memory": "64Mi"}}]
    return {
        "apiVersion": "v1", "kind": "LimitRange", "metadata": _metadata(tenant, "argosy"), "spec": {"limits": limits},
    }  # fmt: skip


def _queues(tenant: Tenant) -> Iterator[Manifest]:
    """Every field that Kueue's webhooks would default is here: clusters run without them."""
    if tenant.cluster_queue is None:
        resources = [
            {
                "name": name, "nominalQuota": quota,
                **({"borrowingLimit": tenant.borrow.get(name, "0")} if tenant.cohort else {}),
            }
            for name, quota in sorted(tenant.quota.items())
        ]  # fmt: skip
        yield {
            "apiVersion": CLUSTER_QUEUES.api_version, "kind": CLUSTER_QUEUES.kind,
            "metadata": _metadata(tenant, tenant.name, is_namespaced=False),
            "spec": {
                **({"cohortName": tenant.cohort} if tenant.cohort else {}),
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.name}},
                "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
                "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
                # What it lent it takes back; nobody of another tenant is touched for anything else.
                "preemption": {
                    "withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any" if tenant.cohort else "Never",
                    "borrowWithinCohort": {"policy": "Never"},
                },
                "resourceGroups": [
                    {
                        "coveredResources": sorted(tenant.quota),
                        "flavors": [{"name": tenant.flavor, "resources": resources}],
                    }
                ],
            },
        }  # fmt: skip
    yield {
        "apiVersion": LOCAL_QUEUES.api_version, "kind": LOCAL_QUEUES.kind, "metadata": _metadata(tenant, tenant.queue),
        "spec": {"clusterQueue": tenant.cluster_queue_name, "stopPolicy": "None"},
    }  # fmt: skip


# --- its rights


def _access(tenant: Tenant) -> Iterator[Manifest]:
    for account in (STAGE, LAUNCHER):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(tenant, account.name)}
        yield _role(tenant, account)
        yield _bind(tenant, account.name, [_account(tenant, account.name)])
    for account, people in ((SUBMITTER, tenant.members), (READER, [*tenant.members, *tenant.readers])):
        yield _role(tenant, account)
        yield _bind(tenant, account.name, [_person(text) for text in dict.fromkeys(people)])
    launcher = _account(tenant, LAUNCHER.name)
    # One of its own: whoever removes a tenant as a whole would take one that is shared from all the others.
    yield {**cluster_role(NODES_ROLE), "metadata": _metadata(tenant, _nodes_role(tenant), is_namespaced=False)}
    yield _bind_cluster(tenant, LAUNCHER.name, _nodes_role(tenant), [launcher])
    members = [_person(text) for text in tenant.members]
    for name, rule, subjects in _queue_rules(tenant, [launcher], members):
        role_name = f"argosy-{name}-{tenant.name}"
        yield {
            "apiVersion": f"{RBAC}/v1", "kind": "ClusterRole",
            "metadata": _metadata(tenant, role_name, is_namespaced=False), "rules": [item.manifest() for item in rule],
        }  # fmt: skip
        yield _bind_cluster(tenant, "argosy", role_name, subjects)


def _queue_rules(
    tenant: Tenant, launcher: list[Manifest], members: list[Manifest]
) -> Iterator[tuple[str, list[Rule], list[Manifest]]]:
    """A ClusterQueue shows sums, never names; other tenants' workloads only with `sees_others`."""
    group = CLUSTER_QUEUES.group
    own = (tenant.cluster_queue_name,)
    rules = [
        Rule(group, ("clusterqueues",), ("get",), "its quota, and what is in use", names=own),
        Rule(group, ("workloadpriorityclasses",), ("get",), "is there such a priority"),
    ]
    yield "queue", rules, [*launcher, *members]
    if tenant.sees_others:
        yield "others", [Rule(group, ("workloads",), ("list",), "who else is in the queue")], launcher


def _role(tenant: Tenant, account: Account) -> Manifest:
    return {**role(account), "metadata": _metadata(tenant, account.name)}


def _bind(tenant: Tenant, name: str, subjects: list[Manifest]) -> Manifest:
    return {
        "apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": _metadata(tenant, name),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": subjects,
    }  # fmt: skip


def _nodes_role(tenant: Tenant) -> str:
    return f"argosy-sees-nodes-{tenant.name}"


def _bind_cluster(tenant: Tenant, who: str, role_name: str, subjects: list[Manifest]) -> Manifest:
    name = f"{tenant.name}-{who}-{role_name.removeprefix('argosy-').removesuffix(f'-{tenant.name}')}"
    return {
        "apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding",
        "metadata": _metadata(tenant, name, is_namespaced=False),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role_name},
        "subjects": subjects,
    }  # fmt: skip


def _account(tenant: Tenant, name: str) -> Manifest:
    return {"kind": "ServiceAccount", "name": name, "namespace": tenant.name}


def _person(text: str) -> Manifest:
    kind, _, name = text.partition(":")
    return {"kind": kind.capitalize(), "name": name, "apiGroup": RBAC}


def _janitor(tenant: Tenant, image: str) -> Iterator[Manifest]:
    """As `janitor.yaml` installs it, in this namespace."""
    for item in yaml.safe_load_all(_JANITOR_YAML.read_text(encoding="utf-8")):
        if item["kind"] == "ClusterRole":
            continue  # access.yaml has it
        if item["kind"] == "ClusterRoleBinding":
            yield _bind_cluster(tenant, JANITOR.name, _nodes_role(tenant), [_account(tenant, JANITOR.name)])
            continue
        metadata = _metadata(tenant, item["metadata"]["name"])
        labels = {**item["metadata"].get("labels", {}), **metadata["labels"]}
        made = {**item, "metadata": {**metadata, "labels": labels}}
        for subject in made.get("subjects", ()):
            subject["namespace"] = tenant.name
        if made["kind"] == "Deployment":
            made["spec"]["template"]["spec"]["containers"][0]["image"] = image
        yield made


# --- its network


def _network(tenant: Tenant) -> Iterator[Manifest]:
    """Nobody from outside reaches a pod of the tenant, and only gangs reach gangs: rendezvous and collectives take
    ports of the moment, so all but the privileged ones are open between gangs.
    """
    everything: Mapping[str, Any] = {}
    gangs = {"matchExpressions": [{"key": GANG_LABEL, "operator": "Exists"}]}
    others = {"matchExpressions": [{"key": GANG_LABEL, "operator": "DoesNotExist"}]}
    yield _policy(tenant, "argosy-closed", everything, ["Ingress"])
    yield _policy(tenant, "argosy-same-namespace", others, ["Ingress"], ingress=[{"from": [{"podSelector": {}}]}])
    between = [{"protocol": "TCP", "port": COORDINATOR_PORT}, {"protocol": "TCP", "port": 1024, "endPort": 65535}]
    peers = [{"podSelector": gangs}]
    yield _policy(tenant, "argosy-gangs", gangs, ["Ingress"], ingress=[{"from": peers, "ports": between}])
    if tenant.egress is not None:
        names = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
        yield _policy(
            tenant, "argosy-gangs-outwards", gangs, ["Egress"],
            egress=[
                {"to": peers, "ports": between}, {"ports": names},
                {"to": [{"ipBlock": {"cidr": network}} for network in tenant.egress]},
            ],
        )  # fmt: skip


def _policy(
    tenant: Tenant, name: str, pods: Mapping[str, Any], types: list[str], **rules: list[Manifest]
) -> Manifest:  # fmt: skip
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _metadata(tenant, name),
        "spec": {"podSelector": dict(pods), "policyTypes": types, **rules},
    }  # fmt: skip
