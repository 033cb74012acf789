"""The objects of the cluster: upstream's custom resources and Roles as they are, and the few of our own."""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from infra.devcluster.build import manifest_path
from infra.devcluster.commands import run, write
from infra.devcluster.control import S3_KEY, S3_SECRET
from infra.devcluster.layout import ARGO_NAMESPACE, JOBSET_NAMESPACE, JOBSET_WEBHOOK_PORT, KUBECTL, NAMESPACE, Layout

Object = dict[str, Any]
UPSTREAM_RUNS_THESE = ("Deployment", "Service", "Secret", "PriorityClass")
"""Left out: the controllers run on the host, with their identities."""


def apply(layout: Layout, objects: Iterable[Object]) -> None:
    """Server-side, so that custom resources of any size fit."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    kubectl(layout, "apply", "--server-side", "--force-conflicts", "--filename", "-", stdin=text)


def apply_once(layout: Layout, name: str, objects: Iterable[Object]) -> None:
    """Unless just these were applied to this cluster before: the custom resources alone keep its API server busy."""
    chosen = list(objects)
    digest = hashlib.sha256(json.dumps(chosen).encode()).hexdigest()
    stamp = layout.control.folder / f"applied-{name}"
    if not stamp.exists() or stamp.read_text() != digest:
        apply(layout, chosen)
        write(stamp, digest)


def kubectl(layout: Layout, *words: str, stdin: str | None = None) -> str:
    """As administrator."""
    return run([KUBECTL, f"--kubeconfig={layout.pki / 'admin.kubeconfig'}", *words], stdin=stdin)


def definitions() -> list[Object]:
    """Namespaces and custom resources: what everything else refers to."""
    jobset = _upstream("jobset")
    return [
        *(namespace(name) for name in (ARGO_NAMESPACE, JOBSET_NAMESPACE)),
        *_upstream("argo-crds"), *(_of_one_version(o) for o in jobset if o["kind"] == "CustomResourceDefinition"),
    ]  # fmt: skip


def settings(layout: Layout, site_packages: Path) -> list[Object]:
    """Roles, webhooks, configuration, and a namespace to work in."""
    jobset = [
        o
        for o in _upstream("jobset")
        if o["kind"] not in (*UPSTREAM_RUNS_THESE, "CustomResourceDefinition", "Namespace")
    ]
    argo = [o for o in _upstream("argo") if o["kind"] not in UPSTREAM_RUNS_THESE]
    return [
        *argo, *(by_url(o, layout) for o in jobset), *_coredns_role(), *_kubelet_access(),
        _tls_secret(layout, "argo-server-tls", ARGO_NAMESPACE), *workspace(NAMESPACE, layout, site_packages),
    ]  # fmt: skip


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def workspace(name: str, layout: Layout, site_packages: Path) -> list[Object]:
    """A namespace in which workflows can run: their account, S3 credentials, a claim on the host's site-packages.

    And `tester`, an account that may do what Argo's own role for administrators allows, for clients of the Argo Server.
    """
    inside = {"namespace": name}
    result_role = {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    return [
        namespace(name),
        *(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": who, **inside}}
            for who in ("workflow", "tester")
        ),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "workflow-results", **inside}, "rules": [result_role],
        },
        *(_bind(name, "Role", "workflow-results", account) for account in ("workflow", "default")),
        _bind(name, "ClusterRole", "argo-aggregate-to-admin", "tester"), _bind(name, "ClusterRole", "view", "tester"),
        {
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "tester-token", **inside, "annotations": {"kubernetes.io/service-account.name": "tester"},
            },
        },
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-credentials", **inside},
            "stringData": {
                "AWS_ACCESS_KEY_ID": S3_KEY, "AWS_SECRET_ACCESS_KEY": S3_SECRET, "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL_S3": layout.s3_url,
            },
        },
        *_site_packages(name, site_packages),
    ]  # fmt: skip


def by_url(o: Object, layout: Layout) -> Object:
    """A webhook configuration that names a URL and our authority instead of a Service; anything else unchanged."""
    if not o["kind"].endswith("WebhookConfiguration"):
        return o
    hooks = [
        {**hook, "clientConfig": client_config(layout, JOBSET_WEBHOOK_PORT, hook["clientConfig"]["service"]["path"])}
        for hook in o["webhooks"]
    ]
    return {**o, "webhooks": hooks}


def client_config(layout: Layout, port: int, path: str) -> Object:
    """How the API server reaches a webhook of a controller, which runs on the control plane's machine."""
    authority = base64.b64encode((layout.pki / "ca.crt").read_bytes()).decode()
    return {"url": f"https://{layout.control.address}:{port}{path}", "caBundle": authority}


def _of_one_version(o: Object) -> Object:
    """A custom resource with one version needs no webhook that converts versions; upstream registers one by Service."""
    assert len(o["spec"]["versions"]) == 1
    return {**o, "spec": {key: value for key, value in o["spec"].items() if key != "conversion"}}


def _site_packages(name: str, folder: Path) -> list[Object]:
    """Makes torch available without images of 5 GB. By volume and claim: Pod Security `restricted` refuses hostPath."""
    volume = f"site-packages-{name}"
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    return [
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {
                **common, "capacity": {"storage": "10Gi"}, "hostPath": {"path": str(folder), "type": "Directory"},
                "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"name": "site-packages", "namespace": name},
            },
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "site-packages", "namespace": name},
            "spec": {**common, "volumeName": volume, "resources": {"requests": {"storage": "10Gi"}}},
        },
    ]  # fmt: skip


def _bind(where: str, kind: str, role: str, account: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": f"{account}-{role}", "namespace": where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": where}],
    }  # fmt: skip


def _cluster_bind(name: str, role: str, user: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }  # fmt: skip


def _coredns_role() -> list[Object]:
    """As CoreDNS' own deployment has it."""
    verbs = ["list", "watch"]
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": verbs},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
            ],
        },
        _cluster_bind("system:coredns", "system:coredns", "system:coredns"),
    ]  # fmt: skip


def _kubelet_access() -> list[Object]:
    """What `kubectl logs` and `exec` need: the API server in front of a kubelet that asks who it is."""
    return [_cluster_bind("apiserver-to-kubelet", "system:kubelet-api-admin", "kube-apiserver-kubelet-client")]


def _tls_secret(layout: Layout, name: str, where: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": where},
        "stringData": {f"tls.{end}": (layout.pki / f"{name}.{end}").read_text() for end in ("crt", "key")},
    }  # fmt: skip


def _upstream(name: str) -> list[Object]:
    objects: list[Object] = json.loads(manifest_path(name).read_text())
    return objects
