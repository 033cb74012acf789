"""The cluster is not open: identities, kubelets, webhooks."""

from pathlib import Path

import pytest

from infra.devcluster import control, manifests, node, pki
from infra.devcluster.layout import Layout


@pytest.fixture
def identities() -> dict[str, pki.Identity]:
    return {identity.file: identity for identity in pki.identities(Layout(2))}


def test_a_node_is_who_its_certificate_says(identities: dict[str, pki.Identity]) -> None:
    assert identities["node-1"].subject == "/O=system:nodes/CN=system:node:node-1"
    assert "subjectAltName=IP:10.213.0.11,DNS:node-1" in identities["node-1"].extensions
    assert "extendedKeyUsage=clientAuth,serverAuth" in identities["node-1"].extensions


def test_controllers_are_their_upstream_service_accounts(identities: dict[str, pki.Identity]) -> None:
    assert identities["argo-controller"].subject == (
        "/O=system:serviceaccounts/O=system:serviceaccounts:argo/CN=system:serviceaccount:argo:argo"
    )
    assert identities["jobset"].name == "system:serviceaccount:jobset-system:jobset-controller-manager"


def test_only_the_administrator_is_a_master(identities: dict[str, pki.Identity]) -> None:
    assert [file for file, identity in identities.items() if "system:masters" in identity.groups] == ["admin"]


def test_a_server_certificate_is_no_client_certificate(identities: dict[str, pki.Identity]) -> None:
    assert "extendedKeyUsage=serverAuth" in identities["argo-server-tls"].extensions


def test_a_webhook_is_called_by_url_with_our_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "pki", property(lambda _: tmp_path))
    (tmp_path / "ca.crt").write_text("authority")
    service = {"name": "jobset-webhook-service", "namespace": "jobset-system", "path": "/mutate--v1-pod"}
    hook = {"name": "mpod.kb.io", "failurePolicy": "Fail", "clientConfig": {"service": service}}
    found = manifests.by_url({"kind": "MutatingWebhookConfiguration", "webhooks": [hook]}, Layout(1))
    assert found["webhooks"] == [
        {
            "name": "mpod.kb.io",
            "failurePolicy": "Fail",
            "clientConfig": {"url": "https://10.213.0.2:9443/mutate--v1-pod", "caBundle": "YXV0aG9yaXR5"},
        }
    ]


def test_a_kubelet_asks_the_api_server_who_calls() -> None:
    layout = Layout(2)
    config = node.kubelet_config(layout.nodes[0], layout)
    assert config["authentication"] == {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/var/lib/argosy-devcluster/pki/ca.crt"},
    }
    assert config["authorization"] == {"mode": "Webhook"}
    assert config["readOnlyPort"] == 0


def test_two_nodes_share_no_folder_and_no_control_group() -> None:
    layout = Layout(2)
    first, second = (node.kubelet_config(n, layout) for n in layout.nodes)
    shared = {key for key in first if first[key] == second[key] and "node-" in str(first[key])}
    assert shared == set()
    assert (first["cgroupRoot"], second["cgroupRoot"]) == ("/argosy-devcluster/node-0", "/argosy-devcluster/node-1")


def test_the_api_server_takes_no_stranger() -> None:
    flags = set(control.api_server(Layout(2)).argv)
    wanted = {"--anonymous-auth=false", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"}
    assert wanted <= flags
