"""Kueue on the development cluster acts on tenants' gangs only, and needs no Service to be reached."""

import pytest

from infra.devcluster import kueue, manifests
from infra.devcluster.layout import Layout
from infra.devcluster.manifests import Object


def hook(name: str) -> Object:
    service = {"name": "webhook-service", "namespace": "kueue-system", "path": f"/{name}"}
    return {"name": f"{name}.kb.io", "clientConfig": {"service": service}, "rules": []}


@pytest.fixture
def layout(monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(manifests, "client_config", lambda layout, port, path: {"url": f"https://here{path}"})
    return Layout(2)


def test_webhooks_of_others_kinds_are_for_tenants_and_those_of_kinds_we_lack_are_left_out(layout: Layout) -> None:
    names = ("mjob", "mjobset", "mworkload", "mpod", "mdeployment", "mrayjob")
    made = kueue._narrowed(
        {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [hook(n) for n in names]},
        layout,
    )
    assert made["metadata"]["name"] == "kueue-m"
    assert {item["name"]: "namespaceSelector" in item for item in made["webhooks"]} == {
        "mjob.kb.io": True, "mjobset.kb.io": True, "mworkload.kb.io": False,
    }  # fmt: skip
    assert all(set(item["clientConfig"]) == {"url"} for item in made["webhooks"])


def test_versions_are_converted_by_url_where_upstream_converts_them(layout: Layout) -> None:
    webhook = {"clientConfig": {"service": {}}, "conversionReviewVersions": ["v1"]}
    made = kueue._converted({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}, layout)
    assert made["spec"]["conversion"]["webhook"] == {
        "clientConfig": {"url": "https://here/convert"}, "conversionReviewVersions": ["v1"],
    }  # fmt: skip
    plain = {"spec": {"versions": []}}
    assert kueue._converted(plain, layout) is plain


def test_roles_are_upstreams_without_the_server_that_is_not_run() -> None:
    def kept(kind: str, name: str) -> bool:
        return kueue._is_access({"kind": kind, "metadata": {"name": name}})

    assert kept("ClusterRole", "kueue-manager-role")
    assert not kept("RoleBinding", "kueue-visibility-server-auth-reader")
    assert not kept("Deployment", "kueue-controller-manager")
