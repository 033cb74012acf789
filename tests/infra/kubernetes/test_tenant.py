"""Ten lines about a team become its namespace, share, rights and network; what cannot be meant is refused by name."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import BadInput
from infra.kubernetes.tenant.folder import HEADER, write_render
from infra.kubernetes.tenant.render import render
from infra.kubernetes.tenant.tenant import Tenant, read_tenants

TEN_LINES = """\
name: vision
members: [group:vision, user:kim]
readers: [group:everyone]
queue: main
flavor: h100
cohort: research
quota: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "16"}
borrow: {nvidia.com/gpu: "8"}
max_pods: 200
platform_image: registry.example/argosy@sha256:aa
"""


def a_tenant(tmp_path: Path, text: str = TEN_LINES, name: str = "tenant.yaml") -> Tenant:
    path = tmp_path / name
    path.write_text(text)
    (tenant,) = read_tenants([path])
    return tenant


def objects(tenant: Tenant, kind: str) -> dict[str, Any]:
    found = [item for items in render(tenant).values() for item in items if item["kind"] == kind]
    return {item["metadata"]["name"]: item for item in found}


def refused(tmp_path: Path, *texts: str) -> str:
    paths = []
    for index, text in enumerate(texts):
        paths.append(tmp_path / f"t{index}.yaml")
        paths[-1].write_text(text)
    with pytest.raises(BadInput) as caught:
        read_tenants(paths)
    return str(caught.value)


def test_the_namespace_enforces_restricted_pods(tmp_path: Path) -> None:
    labels = objects(a_tenant(tmp_path), "Namespace")["vision"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_quota_holds_gangs_what_they_may_borrow_and_the_stages(tmp_path: Path) -> None:
    hard = objects(a_tenant(tmp_path), "ResourceQuota")["argosy"]["spec"]["hard"]
    assert hard["requests.cpu"] == "72"
    assert hard["requests.memory"] == "544Gi"
    assert hard["requests.nvidia.com/gpu"] == "24"
    assert hard["pods"] == "200"
    assert not [name for name in hard if name.startswith("limits.")]


def test_no_pod_has_a_priority_that_ends_those_of_other_tenants_unless_the_file_says_which(tmp_path: Path) -> None:
    def scope(text: str) -> Any:
        spec = objects(a_tenant(tmp_path, text), "ResourceQuota")["argosy-other-priorities"]["spec"]
        assert spec["hard"] == {"pods": "0"}
        return spec["scopeSelector"]["matchExpressions"]

    any_class = {"scopeName": "PriorityClass", "operator": "Exists"}
    assert scope(TEN_LINES) == [any_class]
    assert scope(f"{TEN_LINES}priority_classes: [team-low, team-high]\n") == [
        any_class, {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["team-high", "team-low"]},
    ]  # fmt: skip


def test_containers_without_requests_get_some_and_no_limit(tmp_path: Path) -> None:
    (limit,) = objects(a_tenant(tmp_path), "LimitRange")["argosy"]["spec"]["limits"]
    assert limit == {"type": "Container", "defaultRequest": {"cpu": "50m", "memory": "64Mi"}}


def test_its_own_cluster_queue_takes_its_namespace_only_and_takes_back_what_it_lent(tmp_path: Path) -> None:
    tenant = a_tenant(tmp_path)
    spec = objects(tenant, "ClusterQueue")["vision"]["spec"]
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "vision"}}
    assert spec["preemption"] == {
        "withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"},
    }  # fmt: skip
    (flavor,) = spec["resourceGroups"][0]["flavors"]
    assert flavor == {
        "name": "h100",
        "resources": [
            {"name": "cpu", "nominalQuota": "64", "borrowingLimit": "0"},
            {"name": "memory", "nominalQuota": "512Gi", "borrowingLimit": "0"},
            {"name": "nvidia.com/gpu", "nominalQuota": "16", "borrowingLimit": "8"},
        ],
    }
    assert objects(tenant, "LocalQueue")["main"]["spec"] == {"clusterQueue": "vision", "stopPolicy": "None"}


def test_without_a_cohort_nothing_says_borrowing(tmp_path: Path) -> None:
    tenant = a_tenant(tmp_path, 'name: a\nmembers: ["user:kim"]\nquota: {cpu: "4"}\n')
    spec = objects(tenant, "ClusterQueue")["a"]["spec"]
    assert spec["preemption"]["reclaimWithinCohort"] == "Never"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"] == [{"name": "cpu", "nominalQuota": "4"}]


def test_a_shared_cluster_queue_is_named_and_not_made(tmp_path: Path) -> None:
    tenant = a_tenant(tmp_path, 'name: a\nmembers: ["user:kim"]\nquota: {cpu: "4"}\ncluster_queue: shared\n')
    assert objects(tenant, "ClusterQueue") == {}
    assert objects(tenant, "LocalQueue")["main"]["spec"]["clusterQueue"] == "shared"


def test_everything_but_what_belongs_to_no_namespace_is_in_its_own(tmp_path: Path) -> None:
    free = {"Namespace", "ClusterQueue", "ClusterRole", "ClusterRoleBinding", "Kustomization"}
    for items in render(a_tenant(tmp_path)).values():
        for item in items:
            assert (item["kind"] in free) == ("namespace" not in item.get("metadata", {}))
            for subject in item.get("subjects", ()):
                assert subject.get("namespace", "vision") == "vision"


def test_tenants_share_no_object_so_that_one_can_be_removed_whole(tmp_path: Path) -> None:
    def cluster_wide(name: str) -> dict[tuple[str, str], Any]:
        tenant = a_tenant(tmp_path, TEN_LINES.replace("vision", name), f"{name}.yaml")
        kinds = ("Namespace", "ClusterQueue", "ClusterRole", "ClusterRoleBinding")
        return {(kind, key): item for kind in kinds for key, item in objects(tenant, kind).items()}

    one, other = cluster_wide("vision"), cluster_wide("speech")
    assert not one.keys() & other.keys()
    for tenant_objects in (one, other):
        roles = {name for kind, name in tenant_objects if kind == "ClusterRole"}
        bound = {item["roleRef"]["name"] for (kind, _), item in tenant_objects.items() if kind == "ClusterRoleBinding"}
        assert bound == roles


def rights(tenant: Tenant, kind: str) -> list[Any]:
    return [rule for item in objects(tenant, kind).values() for rule in item["rules"]]


def test_nobody_of_a_tenant_may_touch_rights_quotas_secrets_lists_or_the_queue_itself(tmp_path: Path) -> None:
    writing = {"create", "update", "patch", "delete", "deletecollection", "*"}
    guarded = {"roles", "rolebindings", "resourcequotas", "limitranges", "networkpolicies", "localqueues", "workloads",
               "clusterqueues", "namespaces", "serviceaccounts"}  # fmt: skip
    tenant = a_tenant(tmp_path)
    for rule in [*rights(tenant, "Role"), *rights(tenant, "ClusterRole")]:
        assert not (guarded & set(rule["resources"]) and writing & set(rule["verbs"]))
        assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
        assert not ("secrets" in rule["resources"] and {"list", "watch"} & set(rule["verbs"]))


def test_other_tenants_workloads_are_named_to_nobody_unless_the_file_says_so(tmp_path: Path) -> None:
    def seen(text: str) -> list[Any]:
        return [rule for rule in rights(a_tenant(tmp_path, text), "ClusterRole") if "workloads" in rule["resources"]]

    assert seen(TEN_LINES) == []
    assert seen(f"{TEN_LINES}sees_others: true\n") == [
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]}
    ]
    own = [rule for rule in rights(a_tenant(tmp_path), "ClusterRole") if "clusterqueues" in rule["resources"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in own] == [(["vision"], ["get"])]


def test_members_submit_and_readers_only_look(tmp_path: Path) -> None:
    bindings = objects(a_tenant(tmp_path), "RoleBinding")
    assert [item["name"] for item in bindings["argosy-submitter"]["subjects"]] == ["vision", "kim"]
    assert [item["name"] for item in bindings["argosy-reader"]["subjects"]] == ["vision", "kim", "everyone"]
    reader = objects(a_tenant(tmp_path), "Role")["argosy-reader"]
    assert {verb for rule in reader["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_gangs_are_reached_by_gangs_of_their_namespace_only(tmp_path: Path) -> None:
    policies = objects(a_tenant(tmp_path), "NetworkPolicy")
    assert policies["argosy-closed"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    gangs = {"matchExpressions": [{"key": "argosy.dev/gang", "operator": "Exists"}]}
    spec = policies["argosy-gangs"]["spec"]
    assert spec["podSelector"] == gangs
    (rule,) = spec["ingress"]
    assert rule["from"] == [{"podSelector": gangs}]
    assert rule["ports"][0] == {"protocol": "TCP", "port": 29400}
    assert "argosy-gangs-outwards" not in policies
    closed = a_tenant(tmp_path, f"{TEN_LINES}egress: [10.0.0.0/8]\n")
    egress = objects(closed, "NetworkPolicy")["argosy-gangs-outwards"]["spec"]["egress"]
    assert egress[-1] == {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}


def test_the_janitor_comes_with_an_image_and_acts_in_the_namespace_only(tmp_path: Path) -> None:
    tenant = a_tenant(tmp_path)
    deployment = objects(tenant, "Deployment")["argosy-janitor"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/argosy@sha256:aa"
    assert "vision-argosy-janitor-sees-nodes" in objects(tenant, "ClusterRoleBinding")
    without = a_tenant(tmp_path, TEN_LINES.replace("platform_image", "# platform_image"))
    assert "janitor.yaml" not in render(without)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: kube-x\n", "kube-x is a namespace of the cluster's own"),
        ("name: argo\n", "argo is a namespace of the cluster's own"),
        ("name: Vision\n", "name: 'Vision' is no name; use lowercase letters"),
        ("members: []\n", "members: List should have at least 1 item"),
        ("members: [kim]\n", "members[0]: 'kim' is nobody; write user:NAME or group:NAME"),
        ("quota: {cpu: 4}\n", "quota.cpu: 4 is no text; put it in quotes"),
        ('quota: {cpu: "lots"}\n', "'lots' is no quantity"),
        ('quota: {cpu: "-4"}\n', "'-4' is negative"),
        ('borrow: {cpu: "4"}\n', "borrow has no meaning without cohort"),
        ('cohort: c\nborrow: {x.com/gpu: "4"}\n', "borrow names x.com/gpu, of which quota has none"),
        ('quota: {pods: "7", requests.cpu: "4"}\n', "pods is nothing that a container asks for"),
        ('quota: {nvidia.com/gpu: "0.5"}\n', "nvidia.com/gpu: '0.5' is no whole number"),
        ('quota: {cpu: "1e999999"}\n', "'1e999999' is more than Kubernetes can count"),
        ('members: ["user:k\\u202eim"]\n', "has characters that cannot be seen"),
        ("egress: [999.1.1.1/8]\n", "egress[0]: '999.1.1.1/8' is no network"),
        ("egress: [10.0.0.1/8]\n", "egress[0]: '10.0.0.1/8' is no network"),
        ("platform_image: registry.example/argosy:1\n", "platform_image: 'registry.example/argosy:1' has no digest"),
        ("nane: a\n", "nane: is no field; did you mean name?"),
        ("readers: " + "[" * 3000, "is nested too deeply"),
        ("cluster_queue: shared\nflavor: h100\n", "cohort and flavor have no meaning with it"),
        ("max_pods: 1\n", "max_pods: Input should be greater than or equal to 10"),
        ("qouta: {}\n", "qouta: is no field; did you mean quota?"),
        ("name: a\nname: b\n", "name stands there twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    base = {"name": "a", "members": ["user:kim"], "quota": {"cpu": "4"}}
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in base.items() if f"{key}:" not in text)
    assert words in refused(tmp_path, lines + text)


def test_two_tenants_of_one_name_are_refused_and_so_is_a_queue_of_anothers(tmp_path: Path) -> None:
    one, other = TEN_LINES, TEN_LINES.replace("kim", "lee")
    assert "is called vision, as" in refused(tmp_path, one, other)
    thief = 'name: speech\nmembers: ["user:lee"]\nquota: {cpu: "1"}\ncluster_queue: vision\n'
    assert "draws on ClusterQueue vision, which is another tenant's own" in refused(tmp_path, one, thief)


def command(arguments: Sequence[str | Path]) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "infra.kubernetes.tenant", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_command_writes_a_folder_that_kustomize_takes_whole(tmp_path: Path) -> None:
    path = tmp_path / "vision.yaml"
    path.write_text(TEN_LINES)
    done = command([path, "--out", tmp_path / "out"])
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "out" / "vision"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    there = sorted(item.name for item in folder.iterdir() if item.name != "kustomization.yaml")
    assert kustomization["resources"] == there
    refusal = command([tmp_path / "nowhere.yaml", "--out", tmp_path / "out"])
    assert refusal.returncode == 78
    assert "No such file" in refusal.stderr


def test_rendering_again_gives_the_same_bytes_drops_old_files_and_leaves_foreign_ones(tmp_path: Path) -> None:
    tenant = a_tenant(tmp_path)
    assert write_render(tmp_path / "out", render(tenant)) == []
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert write_render(tmp_path / "out", render(tenant)) == ["notes.txt"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {**before, "notes.txt": b"mine"}
    files = {name: items for name, items in render(tenant).items() if name != "janitor.yaml"}
    write_render(tmp_path / "out", files)
    assert not (tmp_path / "out" / "janitor.yaml").exists()
    assert all(text.startswith(HEADER.encode()) for text in before.values())


def test_a_right_that_a_changed_file_no_longer_gives_is_named_since_apply_would_leave_it(tmp_path: Path) -> None:
    path, out = tmp_path / "vision.yaml", tmp_path / "out"
    path.write_text(f"{TEN_LINES}sees_others: true\negress: [10.0.0.0/8]\n")
    assert "no longer rendered" not in command([path, "--out", out]).stdout
    path.write_text(TEN_LINES)
    told = command([path, "--out", out]).stdout.splitlines()
    assert [line.partition("kubectl delete ")[2] for line in told if line.startswith("no longer rendered")] == [
        "clusterrole.rbac.authorization.k8s.io argosy-others-vision",
        "clusterrolebinding.rbac.authorization.k8s.io vision-argosy-others",
        "networkpolicy.networking.k8s.io argosy-gangs-outwards --namespace vision",
    ]
    assert "no longer rendered" not in command([path, "--out", out]).stdout


def test_a_foreign_file_in_the_way_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "quota.yaml").write_text("mine")
    with pytest.raises(BadInput, match=r"quota\.yaml: not written by this command"):
        write_render(tmp_path, render(a_tenant(tmp_path)))
    assert (tmp_path / "quota.yaml").read_text() == "mine"
    assert not (tmp_path / "namespace.yaml").exists()
