"""Who may do what in a namespace that runs Argosy: the one table, from which `access.yaml` is written.

A row is there because code needs it; each says for what. `python -m infra.kubernetes.permissions` prints the YAML.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from components.contracts.cluster_names import JANITOR_NAME

Manifest = dict[str, Any]

NODES_ROLE = "argosy-nodes"
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Rule:
    """Verbs on resources of one API group, and what they are for."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """Only these objects."""

    def manifest(self) -> Manifest:
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.group], "resources": list(self.resources), **names, "verbs": list(self.verbs)}


@dataclass(frozen=True)
class Account:
    """A Role, and the ServiceAccount that has it unless it is for people."""

    name: str
    about: str
    rules: tuple[Rule, ...]
    is_for_people: bool = False
    sees_nodes: bool = False


_EXECUTOR = Rule("argoproj.io", ("workflowtaskresults",), ("create", "patch"), "Argo's wait container reports outputs")
_WORKFLOWS = ("argoproj.io", ("workflows",))

_WHY = (
    Rule("", ("pods", "events"), ("list",), "why: what waits, and what is said about it; pods: logs as well"),
    Rule("batch", ("jobs",), ("list",), "why a gang lacks pods"),
    Rule("jobset.x-k8s.io", ("jobsets",), ("list",), "why a gang does not begin"),
    Rule("kueue.x-k8s.io", ("workloads",), ("list",), "why a gang stays in its queue"),
)
"""Without one of these `why` names it, and answers from what is left. Nodes are a ClusterRole of their own."""

STAGE = Account("argosy-stage", "shard, preflight, verify and retain", (_EXECUTOR,))
LAUNCHER = Account(
    "argosy-launcher",
    "launch and finish",
    (
        _EXECUTOR,
        Rule(*_WORKFLOWS, ("get", "list"), "is the run asked to stop; does another Workflow hold the claim"),
        Rule("jobset.x-k8s.io", ("jobsets",), ("create", "delete", "get", "list", "watch"), "the gang"),
        Rule("batch", ("jobs",), ("create", "delete", "get", "list", "watch"), "the gang, where it is a Job"),
        Rule(
            "", ("secrets",), ("create", "delete", "get", "patch"), "what agents must know: its owner is set afterwards"
        ),
        Rule("", ("services",), ("create", "delete", "get", "patch"), "names for the pods of a gang that is a Job"),
        Rule("", ("pods",), ("list", "watch"), "the gang's pods"),
        Rule("", ("events",), ("list", "watch"), "why a pod does not start"),
        Rule("apps", ("deployments",), ("get",), "is there a janitor", names=(JANITOR_NAME,)),
        Rule("kueue.x-k8s.io", ("localqueues",), ("get", "list"), "the queue of a gang: is it there, is it open"),
        Rule("kueue.x-k8s.io", ("workloads",), ("list", "watch"), "why a gang waits, its place, was it preempted"),
    ),
    sees_nodes=True,
)
JANITOR = Account(
    JANITOR_NAME,
    "ends what no stage can: lost pods, runs whose pods stay Pending, gangs whose Workflow is over",
    (
        Rule("", ("pods",), ("list", "watch", "delete"), "pods of lost nodes, and those that stay Pending"),
        Rule("batch", ("jobs",), ("list", "watch", "delete"), "gangs"),
        Rule("jobset.x-k8s.io", ("jobsets",), ("list", "watch", "delete"), "gangs"),
        Rule(*_WORKFLOWS, ("list", "watch", "patch"), "whose gang is it; stop the one whose pod stays Pending"),
    ),
    sees_nodes=True,
)
SUBMITTER = Account(
    "argosy-submitter",
    "people and CI: submit, status, logs, why, stop, resume, runs with --target kubernetes or argo-server",
    (
        Rule(*_WORKFLOWS, ("create", "get", "list", "watch", "patch"), "submit, follow, stop"),
        Rule("argoproj.io", ("workflowtemplates",), ("get",), "submit --from-template"),
        Rule("", ("pods/log",), ("get",), "logs of stages"),
        Rule("", ("pods",), ("watch",), "logs through the Argo Server, which finds the pods in the caller's name"),
        Rule("apps", ("deployments",), ("get",), "is there a janitor", names=(JANITOR_NAME,)),
        Rule("kueue.x-k8s.io", ("localqueues",), ("get", "list"), "is there such a queue, is it open"),
        *_WHY,
    ),
    is_for_people=True,
)
READER = Account(
    "argosy-reader",
    "people who look and change nothing",
    (
        Rule(*_WORKFLOWS, ("get", "list", "watch"), "status, runs"),
        Rule("", ("pods", "events"), ("get", "list", "watch"), "what runs, and what does not"),
        Rule("", ("pods/log",), ("get",), "logs of a stage that is still running"),
        Rule("", ("resourcequotas",), ("get", "list"), "what is left of the namespace's share"),
        Rule("jobset.x-k8s.io", ("jobsets",), ("get", "list", "watch"), "gangs"),
        Rule("kueue.x-k8s.io", ("localqueues", "workloads"), ("get", "list", "watch"), "the queue"),
        Rule("batch", ("jobs",), ("list",), "why a gang lacks pods"),
    ),
    is_for_people=True,
)
ACCOUNTS = (STAGE, LAUNCHER, JANITOR, SUBMITTER, READER)
"""The janitor's is installed with its Deployment, by `janitor/janitor.yaml`; the reader's in tenants' namespaces."""


def access_manifests() -> Iterator[Manifest]:
    """ServiceAccounts, Roles and bindings of all accounts but the janitor's."""
    for account in (STAGE, LAUNCHER, SUBMITTER):
        if not account.is_for_people:
            yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account.name}}
        yield role(account)
        if not account.is_for_people:
            yield binding("RoleBinding", account.name, "Role", account.name, account=account.name)
        if account.sees_nodes:
            yield binding(
                "ClusterRoleBinding", f"{account.name}-nodes", "ClusterRole", NODES_ROLE, account=account.name
            )


def role(account: Account) -> Manifest:
    """The Role of `account`."""
    return {
        "apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": account.name},
        "rules": [rule.manifest() for rule in account.rules],
    }  # fmt: skip


def cluster_role(name: str) -> Manifest:
    """The right to see nodes, which belong to no namespace. Optional: without, a lost node is noticed by its pods."""
    return {
        "apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}],
    }  # fmt: skip


def access_yaml() -> str:
    """The content of `access.yaml`."""
    head = (
        "# Service accounts and Roles of Argosy. Written by `python -m infra.kubernetes.permissions > access.yaml`.\n"
        "# Role argosy-submitter is for people: bind it to users and groups of your own.\n"
    )
    return head + "".join(f"---\n{yaml.safe_dump(item, sort_keys=False)}" for item in access_manifests())


def binding(
    kind: str, name: str, role_kind: str, role_name: str, *, account: str, namespace: str = ""
) -> Manifest:  # fmt: skip
    """Gives a ServiceAccount that Role. Without `namespace` the kustomization writes the account's, which would leave
    one that stands here as it is.
    """
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "name": account, **place}],
    }  # fmt: skip


if __name__ == "__main__":
    print(access_yaml(), end="")
