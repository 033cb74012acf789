"""Two tenants on one cluster, rendered from ten lines each: they cannot read, stop or starve each other."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from components.cluster.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from tests.cluster.harness import wait_until
from tests.cluster.place import ROOT, Place
from tests.cluster.queues import FLAVOR, wait_active

pytestmark = [
    pytest.mark.platform,
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="no cluster"),
]

MODEL = """\
name: {name}
members: ["user:{name}-kim"]
readers: ["user:{name}-lee"]
queue: main
flavor: default-flavor
cohort: {cohort}
quota: {{cpu: "200m", memory: 256Mi}}
borrow: {{cpu: "200m", memory: 256Mi}}
stages: {{cpu: "500m", memory: 512Mi}}
max_pods: 10
"""


@dataclass(frozen=True)
class Team:
    """A tenant's namespace, and kubectl as one of its people or as an administrator."""

    place: Place

    @property
    def name(self) -> str:
        return self.place.namespace

    def as_member(self, *words: str, of: str = "", stdin: str | None = None) -> str:
        """What kubectl says to a member of this team, in the namespace of team `of`, its own by default."""
        there = f"--namespace={of or self.name}"
        return self.place.kubectl(f"--as={self.name}-kim", *words, there, stdin=stdin, may_fail=True)

    def create_job(self, name: str, *, priority: str = "", queue: str = "main") -> None:
        self.place.apply(a_job(name, self.place.image, queue=queue))

    def is_suspended(self, job: str) -> bool:
        return bool(json.loads(self.place.kubectl("get", "job", job, "--output=json"))["spec"].get("suspend"))

    def workload(self, job: str) -> dict[str, Any]:
        items = json.loads(self.place.kubectl("get", "workloads.kueue.x-k8s.io", "--output=json"))["items"]
        owned = [item for item in items if item["metadata"]["ownerReferences"][0]["name"] == job]
        return dict(owned[0]) if owned else {}


def a_job(name: str, image: str, *, queue: str) -> dict[str, Any]:
    """One pod that takes a tenant's whole share, as `restricted` allows it."""
    security = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
        "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    container = {
        "name": "main", "image": image, "command": ["python3", "-c", "import time; time.sleep(3600)"],
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}, "securityContext": security,
    }  # fmt: skip
    pod = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": True, "parallelism": 1, "completions": 1, "template": {"spec": pod}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Team]]:
    """Rendered by the command, applied by kustomize, gone afterwards."""
    folder, mark = tmp_path_factory.mktemp("tenants"), secrets.token_hex(2)
    names = [f"{os.environ.get('ARGOSY_TEST_NAMESPACE', 'argosy-test')}-{letter}-{mark}" for letter in "ab"]
    first, second = (Team(Place(name, folder)) for name in names)
    if not first.place.cluster.serves(LOCAL_QUEUES):
        pytest.skip("the cluster has no Kueue: python -m infra.devcluster add kueue")
    first.place.apply(
        {"apiVersion": CLUSTER_QUEUES.api_version, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}, "spec": {}}
    )
    files = []
    for name in names:
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(MODEL.format(name=name, cohort=f"cohort-{mark}"))
    command = [sys.executable, "-m", "infra.kubernetes.tenant", *map(str, files), "--out", str(folder / "out")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120, capture_output=True)
    try:
        for team in (first, second):
            render = str(folder / "out" / team.name)
            team.place.kubectl("create", "namespace", team.name)
            team.place.kubectl("apply", "--server-side", "--force-conflicts", "--kustomize", render)
            wait_active(team.place, CLUSTER_QUEUES, team.name)
            wait_active(team.place, LOCAL_QUEUES, "main")
        yield first, second
    finally:
        for team in (first, second):
            render = str(folder / "out" / team.name)
            team.place.kubectl("delete", "--wait=false", "--ignore-not-found", "--kustomize", render, may_fail=True)


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary"}, "stringData": {"value": "canary-of-b"}}


def test_a_member_cannot_read_or_stop_anything_of_another_tenant(teams: tuple[Team, Team]) -> None:
    ours, theirs = teams
    theirs.place.apply(SECRET)
    theirs.create_job("their-job")
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "their-run"},
        "spec": {"entrypoint": "none", "suspend": True, "templates": [{"name": "none", "suspend": {}}]},
    }  # fmt: skip
    theirs.place.apply(workflow)
    reading = (
        ("get", "secret", "canary"), ("get", "workflows.argoproj.io"), ("get", "pods"), ("get", "events"),
        ("get", "jobs"), ("get", "jobsets.jobset.x-k8s.io"), ("get", "configmaps"), ("get", "resourcequotas"),
        ("get", "localqueues.kueue.x-k8s.io"), ("get", "workloads.kueue.x-k8s.io"),
    )  # fmt: skip
    writing = (
        ("delete", "workflow.argoproj.io", "their-run"), ("delete", "job", "their-job"),
        ("patch", "workflow.argoproj.io", "their-run", "--type=merge", '--patch={"spec": {"shutdown": "Stop"}}'),
        ("patch", "localqueue", "main", "--type=merge", '--patch={"spec": {"stopPolicy": "HoldAndDrain"}}'),
        ("delete", "resourcequota", "argosy"), ("delete", "pods", "--all"),
    )  # fmt: skip
    for words in (*reading, *writing):
        assert "is forbidden" in ours.as_member(*words, of=theirs.name), words
    new = json.dumps({**workflow, "metadata": {"name": "intruder"}})
    assert "is forbidden" in ours.as_member("create", "--filename", "-", of=theirs.name, stdin=new)
    assert "is forbidden" in ours.as_member("get", "clusterqueue", theirs.name)
    assert "is forbidden" in ours.as_member("get", "workloads.kueue.x-k8s.io", "--all-namespaces")
    assert ours.as_member("get", "clusterqueue", ours.name, "--output=name").strip().endswith(f"/{ours.name}")
    still = json.loads(theirs.place.kubectl("get", "workflow.argoproj.io", "their-run", "--output=json"))
    assert "shutdown" not in still["spec"]


def test_a_member_submits_in_the_own_namespace_and_cannot_widen_it(teams: tuple[Team, Team]) -> None:
    ours, _ = teams
    run = {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "own-run"},
        "spec": {"entrypoint": "none", "suspend": True, "templates": [{"name": "none", "suspend": {}}]},
    }  # fmt: skip
    assert "created" in ours.as_member("create", "--filename", "-", stdin=json.dumps(run))
    for words in (
        ("delete", "resourcequota", "argosy"), ("delete", "limitrange", "argosy"), ("delete", "networkpolicy", "--all"),
        ("create", "rolebinding", "mine", "--clusterrole=cluster-admin", "--user=me"), ("get", "secrets"),
        ("label", "namespace", ours.name, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"),
        ("patch", "clusterqueue", ours.name, "--type=merge", '--patch={"spec": {"cohortName": ""}}'),
        ("create", "token", "argosy-launcher"),
    ):  # fmt: skip
        assert "is forbidden" in ours.as_member(*words), words


def test_pods_that_are_not_restricted_are_refused(teams: tuple[Team, Team]) -> None:
    ours, _ = teams
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": ours.place.image}]},
    }  # fmt: skip
    said = ours.place.kubectl("apply", "--filename", "-", stdin=json.dumps(pod), may_fail=True)
    assert 'violates PodSecurity "restricted' in said


def test_the_namespaces_quota_ends_what_would_eat_the_cluster_and_init_containers_get_requests(
    teams: tuple[Team, Team],
) -> None:
    ours, _ = teams
    template = a_job("x", ours.place.image, queue="main")["spec"]["template"]["spec"]
    greedy = json.loads(json.dumps(template))
    greedy["containers"][0]["resources"]["requests"]["cpu"] = "2"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greedy"}, "spec": greedy}
    said = ours.place.kubectl("apply", "--filename", "-", stdin=json.dumps(pod), may_fail=True)
    assert "exceeded quota: argosy" in said
    modest = json.loads(json.dumps(template))
    del modest["containers"][0]["resources"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "modest"}, "spec": modest}
    ours.place.apply(pod)
    made = json.loads(ours.place.kubectl("get", "pod", "modest", "--output=json"))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m", "memory": "64Mi"}
    ours.place.kubectl("delete", "pod", "modest", "--wait=false")


def test_a_pod_that_would_push_other_tenants_from_their_nodes_is_refused(teams: tuple[Team, Team]) -> None:
    ours, _ = teams
    spec = a_job("x", ours.place.image, queue="main")["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pushy"},
           "spec": {**spec, "priorityClassName": "system-node-critical"}}  # fmt: skip
    said = ours.place.kubectl("apply", "--filename", "-", stdin=json.dumps(pod), may_fail=True)
    assert "exceeded quota: argosy-other-priorities" in said


def test_what_one_tenant_borrows_the_other_gets_back_and_no_more_is_taken(teams: tuple[Team, Team]) -> None:
    ours, theirs = teams
    theirs.place.kubectl("delete", "job", "--all", "--ignore-not-found")
    ours.create_job("own")
    ours.create_job("borrowing")
    ours.create_job("too-much")
    for name in ("own", "borrowing"):
        wait_until(lambda name=name: not ours.is_suspended(name), what=f"{name} to be admitted")  # type: ignore[misc]
    assert ours.is_suspended("too-much")
    theirs.create_job("reclaims")
    wait_until(lambda: not theirs.is_suspended("reclaims"), what="the lender to get its share back")
    running = [name for name in ("own", "borrowing", "too-much") if not ours.is_suspended(name)]
    assert len(running) == 1
    assert ours.is_suspended("too-much")


def test_a_queue_of_another_tenant_is_not_to_be_had_by_its_name(teams: tuple[Team, Team]) -> None:
    ours, theirs = teams
    theirs.place.kubectl("patch", "localqueue", "main", "--type=merge", "--patch={}")
    ours.create_job("thief", queue="theirs")

    def message() -> str:
        conditions = (ours.workload("thief").get("status") or {}).get("conditions") or ()
        return "".join(item["message"] for item in conditions if item["type"] == "QuotaReserved")

    assert "doesn't exist" in wait_until(message, what="Kueue to look at it")
    assert ours.is_suspended("thief")
