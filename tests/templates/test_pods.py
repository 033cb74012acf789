"""What all stage pods have in common: enough for Pod Security `restricted`, and no more rights than a stage needs."""

import json
from typing import Any

import pytest

from infra.pod_view import read_pod_patch
from templates.pods import stage_pod_patch


def patch(**changes: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(stage_pod_patch(**changes))
    return loaded


def main(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in patch(**changes)["containers"] if item["name"] == "main")
    return found


def test_every_container_of_a_pod_is_restricted_also_those_argo_adds() -> None:
    containers = [*patch()["initContainers"], *patch()["containers"]]

    assert [item["name"] for item in containers] == ["init", "main", "wait"]
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_a_quota_finds_requests_in_the_containers_argo_adds() -> None:
    assert patch()["initContainers"][0]["resources"] == {"requests": {"cpu": "10m", "memory": "64Mi"}}
    assert patch()["containers"][1]["resources"] == {"requests": {"cpu": "10m", "memory": "64Mi"}}


def test_a_stage_can_write_its_outputs_and_scratch_files_and_nothing_else() -> None:
    assert main()["volumeMounts"] == [
        {"mountPath": "/argosy/out", "name": "out"},
        {"mountPath": "/tmp", "name": "scratch"},
    ]
    assert patch()["volumes"] == [{"emptyDir": {}, "name": "out"}, {"emptyDir": {}, "name": "scratch"}]


def test_a_stage_is_told_where_it_is() -> None:
    variables = {item["name"]: item.get("value", item.get("valueFrom")) for item in main()["env"]}

    assert variables == {
        "ARGOSY_TARGET": "kubernetes",
        "ARGOSY_OUT": "/argosy/out",
        "ARGOSY_IMAGE": "{{workflow.parameters.platform_image}}",
        "HOME": "/tmp",
        "ARGOSY_NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "ARGOSY_NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "ARGOSY_POD": {"fieldRef": {"fieldPath": "metadata.name"}},
    }


def test_credentials_come_from_the_named_secret_key_by_key() -> None:
    found = [item for item in main(credentials_secret="s3")["env"] if item["name"].startswith("AWS_")]

    assert found == [
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"key": "AWS_ACCESS_KEY_ID", "name": "s3"}}},
        {
            "name": "AWS_SECRET_ACCESS_KEY",
            "valueFrom": {"secretKeyRef": {"key": "AWS_SECRET_ACCESS_KEY", "name": "s3"}},
        },
        {
            "name": "AWS_SESSION_TOKEN",
            "valueFrom": {"secretKeyRef": {"key": "AWS_SESSION_TOKEN", "name": "s3", "optional": True}},
        },
    ]


def test_the_certificates_of_a_secret_are_mounted_and_named() -> None:
    assert {"name": "AWS_CA_BUNDLE", "value": "/argosy/ca/ca.crt"} in main(ca_secret="ca")["env"]
    assert {"mountPath": "/argosy/ca", "name": "ca", "readOnly": True} in main(ca_secret="ca")["volumeMounts"]
    assert {"name": "ca", "secret": {"secretName": "ca"}} in patch(ca_secret="ca")["volumes"]


def test_the_strict_view_knows_the_whole_patch() -> None:
    assert read_pod_patch(stage_pod_patch(credentials_secret="s3", ca_secret="ca")).enable_service_links is False


@pytest.mark.parametrize(
    "change",
    [
        {"hostNetwork": True},
        {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
        {"terminationGracePeriodSeconds": 5},
        {"containers": [{"name": "main", "securityContext": {"privileged": True}}]},
        {"containers": [{"name": "other"}]},
    ],
)
def test_what_would_open_a_pod_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="holds what Argosy does not emit"):
        read_pod_patch(json.dumps({**patch(), **change}))
