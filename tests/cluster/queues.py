"""A share of the cluster for a place's namespace, with a queue, as `infra/kubernetes/tenant` renders it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from components.cluster.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, Kind
from infra.kubernetes.tenant.render import render
from infra.kubernetes.tenant.tenant import Tenant
from tests.cluster.place import Place

FLAVOR = "default-flavor"
ONE_GANG = {"cpu": "450m", "memory": "1200Mi"}
"""Room for one gang of two small nodes, agents beside them, and not for two."""


def a_share(place: Place, *, priorities: tuple[str, ...] = (), **changes: Any) -> Iterator[Tenant]:
    """For a fixture: queue and rights of a tenant in the namespace of `place`; what is cluster-wide goes with it."""
    if not place.cluster.serves(LOCAL_QUEUES):
        pytest.skip("the cluster has no Kueue: python -m infra.devcluster add kueue")
    tenant = Tenant(**{"name": place.namespace, "members": ["user:nobody"], "quota": ONE_GANG, **changes})
    place.kubectl("label", "namespace", place.namespace, f"argosy.dev/tenant={place.namespace}")
    place.apply({"apiVersion": CLUSTER_QUEUES.api_version, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR},
                 "spec": {}})  # fmt: skip
    wide = [item for item in render(tenant)["access.yaml"] if _is_ours(item, tenant)]
    made = [*render(tenant)["queue.yaml"], *wide]
    made += [
        {
            "apiVersion": CLUSTER_QUEUES.api_version, "kind": "WorkloadPriorityClass", "value": 1000 * (number + 1),
            "metadata": {"name": f"{place.namespace}-{name}"}, "description": "of a test",
        }
        for number, name in enumerate(priorities)
    ]  # fmt: skip
    for item in made:
        place.apply(item)
    wait_active(place, CLUSTER_QUEUES, tenant.cluster_queue_name)
    wait_active(place, LOCAL_QUEUES, tenant.queue)
    yield tenant
    for item in reversed(made):
        if "namespace" not in item["metadata"]:
            place.kubectl("delete", item["kind"], item["metadata"]["name"], "--ignore-not-found", "--wait=false",
                          may_fail=True)  # fmt: skip


def wait_active(place: Place, kind: Kind, name: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        found = place.cluster.read(kind, name) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        if any(item["type"] == "Active" and item["status"] == "True" for item in conditions):
            return
        assert time.monotonic() < deadline, f"{kind.kind} {name} is not active: {conditions}"
        time.sleep(0.5)


def _is_ours(item: dict[str, Any], tenant: Tenant) -> bool:
    """The right to see the queue's quota; the rest of the access is installed in the place already."""
    return bool(item["kind"].startswith("ClusterRole")) and "queue" in item["metadata"]["name"].replace(tenant.name, "")
