"""Kueue, for whoever asks for it: `up --with kueue`, or `add kueue` to a cluster that runs. The default has none.

Its webhooks for Jobs and JobSets act in tenants' namespaces only, so nobody else's gangs wait for it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.devcluster import manifests, pki
from infra.devcluster.build import Group, build_group, rendered
from infra.devcluster.control import webhook_controller
from infra.devcluster.layout import STATE, Layout
from infra.devcluster.process import Component, start, wait_ready
from infra.kubernetes.tenant.render import TENANT_LABEL

GROUP = Group("kueue", ("kueue",))
MODULE = "sigs.k8s.io/kueue"
NAMESPACE = "kueue-system"
WEBHOOK_PORT = 9444
TENANTS = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}
"""Namespaces in which Jobs and JobSets go through Kueue's webhooks."""

_WEBHOOKS = ("clusterqueue", "cohort", "resourceflavor", "workload", "job", "jobset")
_CERTIFICATES = Path("/etc/kueue")
"""Where the program looks for its metrics' certificate, whatever its configuration says."""

Say = Callable[[str], None]


def is_wanted(layout: Layout) -> bool:
    """Whether it belongs to the cluster that is up."""
    return _folder(layout).is_dir()


def install(layout: Layout, say: Say) -> None:
    """Build it if need be, and make it run in the cluster that is up. Raises EnvironmentUnfit when it does not."""
    build_group(GROUP, say)
    pki.issue(layout, identities(layout))
    _folder(layout).mkdir(exist_ok=True)
    objects = _upstream()
    definitions = [_converted(o, layout) for o in objects if o["kind"] == "CustomResourceDefinition"]
    manifests.apply_once(layout, "kueue-definitions", [manifests.namespace(NAMESPACE), *definitions])
    names = [f"crd/{o['metadata']['name']}" for o in definitions]
    manifests.kubectl(layout, "wait", "--for=condition=Established", "--timeout=60s", *names)
    manifests.apply_once(layout, "kueue-access", [o for o in objects if _is_access(o)])
    running = component(layout)
    start(running)
    wait_ready(running)
    # Last: while they are registered and nobody answers, every Job of a tenant is refused.
    manifests.apply_once(layout, "kueue-webhooks", [_narrowed(o, layout) for o in objects if _is_webhook(o)])
    say("kueue runs")


def component(layout: Layout) -> Component:
    """Beside the other controllers."""
    folder = _folder(layout)
    certificates = _CERTIFICATES / "metrics" / "certs"
    if not certificates.exists():
        certificates.parent.mkdir(parents=True, exist_ok=True)
        certificates.unlink(missing_ok=True)
        certificates.symlink_to(folder)
    return webhook_controller(
        "kueue", layout, folder, webhook_port=WEBHOOK_PORT, metrics_port=8444, health_port=8082,
        config={
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": NAMESPACE,
            "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        },
        options=("--feature-gates=VisibilityOnDemand=false",),
    )  # fmt: skip


def forget() -> None:
    """Take away what stands outside the cluster's own folder."""
    certificates = _CERTIFICATES / "metrics" / "certs"
    if certificates.is_symlink() and certificates.readlink().is_relative_to(STATE):
        shutil.rmtree(_CERTIFICATES)


def identities(layout: Layout) -> tuple[pki.Identity, ...]:
    return (
        pki.service_account("kueue", NAMESPACE, "kueue-controller-manager"),
        pki.Identity("kueue-tls", "kueue-webhook", addresses=(layout.control.address,), client=False),
    )


def _folder(layout: Layout) -> Path:
    return layout.control.folder / "kueue"


def _upstream() -> list[manifests.Object]:
    """Kueue's own installation."""
    objects: list[manifests.Object] = json.loads(rendered("kueue", GROUP, MODULE, "config/default").read_text())
    return objects


def _is_access(o: manifests.Object) -> bool:
    """Roles and accounts; the server that shows queues by position is not run, so its reader is left out."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    return o["kind"] in kinds and "visibility" not in o["metadata"]["name"]


def _is_webhook(o: manifests.Object) -> bool:
    return bool(o["kind"].endswith("WebhookConfiguration"))


def _narrowed(o: manifests.Object, layout: Layout) -> manifests.Object:
    """Only the kinds we have, by URL, and of others' kinds only those of tenants."""
    name = f"kueue-{o['metadata']['name'].removeprefix('kueue-')}"
    hooks = []
    for hook in o["webhooks"]:
        kind = hook["name"].partition(".")[0][1:]
        if kind in _WEBHOOKS:
            place = {"namespaceSelector": TENANTS} if kind in ("job", "jobset") else {}
            path = hook["clientConfig"]["service"]["path"]
            hooks.append({**hook, **place, "clientConfig": manifests.client_config(layout, WEBHOOK_PORT, path)})
    return {**o, "metadata": {**o["metadata"], "name": name}, "webhooks": hooks}


def _converted(o: manifests.Object, layout: Layout) -> manifests.Object:
    """Versions are converted by the same server, by URL."""
    conversion: dict[str, Any] | None = o["spec"].get("conversion")
    if conversion is None:
        return o
    webhook = {**conversion["webhook"], "clientConfig": manifests.client_config(layout, WEBHOOK_PORT, "/convert")}
    return {**o, "spec": {**o["spec"], "conversion": {**conversion, "webhook": webhook}}}
