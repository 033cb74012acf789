"""A patch adds to the gang's pods what is allowed, and everything else is refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from components.contracts.pod_patch import OUR_VOLUMES, pod_patch_problems
from components.launch.pod_patch import patched
from components.launch.pod_template import pod_template
from tests.components.launch.test_gang_objects import a_plan


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"serviceAccountName": "admin"}, "x.serviceAccountName may not be patched"),
        ({"automountServiceAccountToken": True}, "no container of the gang gets a token"),
        ({"securityContext": {"runAsUser": 0}}, "is the platform's"),
        ({"initContainers": []}, "the agent and its files are ours"),
        ({"hostNetwork": True}, "write launch.host_network"),
        ({"hostIPC": True}, "the pods stay in their own namespaces"),
        ({"nodeName": "node-1"}, "the scheduler places the pods"),
        ({"somethingNew": 1}, "it may hold affinity, containers, dnsConfig"),
        ({"volumes": [{"name": "gang", "emptyDir": {}}]}, "is called gang, as a volume of ours is"),
        ({"volumes": [{"name": "volume-0", "emptyDir": {}}]}, "is called volume-0, as a volume of ours is"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "x.volumes[0].hostPath is no source that a gang"),
        ({"volumes": [{"name": "a"}]}, "has 0 sources"),
        ({"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {}}]}}]}, "account token"),
        ({"volumes": {"name": "a"}}, "is no list of mappings"),
        ({"containers": [{"name": "agent", "env": []}]}, "may name the program's container only"),
        ({"containers": [{"name": "program"}, {"name": "more"}]}, "may name the program's container only"),
        ({"containers": [{"name": "program", "command": ["sh"]}]}, "write launch.command"),
        ({"containers": [{"name": "program", "image": "a"}]}, "write image"),
        ({"containers": [{"name": "program", "securityContext": {"privileged": True}}]}, "is the platform's"),
        ({"containers": [{"name": "program", "env": [{"name": "ARGOSY_RUN", "value": "a"}]}]}, "which is ours"),
        ({"containers": [{"name": "program", "volumeMounts": [{"name": "gang", "mountPath": "/a"}]}]}, "of ours"),
        ({"containers": [{"name": "program", "volumeMounts": [{"name": "a", "mountPath": "/argosy/bin"}]}]}, "covers"),
        ({"containers": [{"name": "program", "volumeMounts": [{"name": "a", "mountPath": "/"}]}]}, "covers /"),
        ({"containers": [{"name": "program", "volumeMounts": [{"name": "a", "mountPath": "b"}]}]}, "absolute path"),
        (
            {"containers": [{"name": "program", "volumeMounts": [
                {"name": "a", "mountPath": "/a", "mountPropagation": "Bidirectional"}
            ]}]},
            "needs a privileged container",
        ),
        ({"affinity": []}, "is no mapping"),
        ({"preemptionPolicy": "Maybe"}, "write Never or PreemptLowerPriority"),
    ],
)  # fmt: skip
def test_what_could_leave_the_pods_fence_is_refused(patch: dict[str, Any], expected: str) -> None:
    problems = pod_patch_problems(patch, where="x")

    assert expected in "; ".join(f"{item.where} {item.seen}: {item.fix}" for item in problems)


def test_every_fault_of_a_patch_is_told() -> None:
    assert [item.where for item in pod_patch_problems({"hostPID": True, "volumes": [{}], "nodeName": "a"})] == [
        "launch.pod_patch.hostPID", "launch.pod_patch.volumes[0]", "launch.pod_patch.volumes[0]",
        "launch.pod_patch.nodeName",
    ]  # fmt: skip


def test_the_names_of_our_volumes_are_all_known() -> None:
    plan = a_plan(ca_secret="ca", trusted={"config_map": "a", "key": "b"})
    assert {item["name"] for item in pod_template(plan)["spec"]["volumes"]} == OUR_VOLUMES


def test_a_patch_adds_to_lists_and_to_the_programs_container() -> None:
    spec = {
        "containers": [{"name": "program", "env": [{"name": "A"}], "resources": {"limits": {"memory": "1Gi"}}}],
        "volumes": [{"name": "work"}], "topologySpreadConstraints": [1],
    }  # fmt: skip
    patch = {
        "containers": [{"name": "program", "env": [{"name": "B"}], "resources": {"limits": {"cpu": "1"}}}],
        "volumes": [{"name": "mine"}], "topologySpreadConstraints": [2], "preemptionPolicy": "Never",
    }  # fmt: skip

    assert patched(spec, patch) == {
        "containers": [
            {
                "name": "program", "env": [{"name": "A"}, {"name": "B"}],
                "resources": {"limits": {"memory": "1Gi", "cpu": "1"}},
            }
        ],
        "volumes": [{"name": "work"}, {"name": "mine"}], "topologySpreadConstraints": [1, 2],
        "preemptionPolicy": "Never",
    }  # fmt: skip
    assert spec["volumes"] == [{"name": "work"}]


def test_no_variable_is_named_twice_and_the_last_word_counts() -> None:
    proxy = {"http": "http://p:1"}
    options = {"env": ({"name": "HTTP_PROXY", "value": "mine"},), "proxy": proxy, "ca_secret": "ca"}
    patch = {"containers": [{"name": "program", "env": [{"name": "http_proxy", "value": "patched"}]}]}
    plan = replace(
        a_plan(**options, trusted={"config_map": "a", "key": "b"}, patch=patch),
        agent_variables=("HTTP_PROXY", "NO_PROXY", "AWS_CA_BUNDLE"),
    )
    spec = pod_template(plan)["spec"]
    for container in (spec["initContainers"][1], spec["containers"][0]):
        names = [item["name"] for item in container["env"]]
        assert len(names) == len(set(names))
    agent = {item["name"]: item.get("value") for item in spec["initContainers"][1]["env"]}
    program = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
    assert (agent["HTTP_PROXY"], agent["AWS_CA_BUNDLE"]) == ("http://p:1", "/argosy/ca/ca.crt")
    assert (program["HTTP_PROXY"], program["http_proxy"]) == ("mine", "patched")
