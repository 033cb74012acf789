"""Sets the scene for the cases of `why` on the development cluster, plays them, and takes the scene down."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from components.cluster.api import KubernetesCluster
from components.cluster.fields import name_of, quantity
from components.cluster.kinds import JOB_SETS, JOBS, NODES, PODS, WORKFLOWS
from components.contracts.cluster_names import RUN_LABEL
from tests.cluster.why_cases import DEVICES, NUM_DEVICES, Case, Manifest, gang, workflow

BASE = os.environ.get("ARGOSY_WHY_NAMESPACE") or f"why-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
REGISTRY = Path(__file__).parent / "why_registry.py"
_SLEEP = ["python3", "-c", "import time; time.sleep(7200)"]
_KUBECTL = os.environ.get("KUBECTL", "kubectl")

_PRIORITIES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"why-{name}"}, "value": value}
    for name, value in (("low", 10), ("high", 1000))
]
_QUOTA: list[Manifest] = [
    {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"},
     "spec": {"hard": {"requests.cpu": "2", "requests.memory": "4Gi"}}},
    {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "sizes"},
     "spec": {"limits": [{"type": "Container", "max": {"memory": "2Gi"}, "default": {"memory": "128Mi", "cpu": "3"},
                          "defaultRequest": {"cpu": "10m", "memory": "32Mi"}}]}},
]  # fmt: skip


def kubectl(*words: str, stdin: str | None = None, check: bool = True) -> str:
    done = subprocess.run([_KUBECTL, *words], input=stdin, capture_output=True, text=True, check=False, timeout=120)
    if check and done.returncode:
        raise RuntimeError(f"kubectl {' '.join(words[:4])}: {done.stderr.strip()}")
    return done.stdout


def apply(*items: Mapping[str, Any], namespace: str = "") -> None:
    where = ["-n", namespace] if namespace else []
    kubectl(*where, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all([dict(item) for item in items]))


def policy(namespace: str) -> list[Manifest]:
    """Refuses images of one host in that namespace alone."""
    name = "why-policy"
    api = "admissionregistration.k8s.io/v1"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    spec = {
        "failurePolicy": "Fail", "matchConstraints": {**where, "resourceRules": rules},
        "validations": [{"expression": "object.spec.containers.all(c, !c.image.startsWith('evil.example/'))",
                         "message": "images of evil.example are not allowed here"}],
    }  # fmt: skip
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": where}
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]  # fmt: skip


@dataclass
class Stage:
    """Namespaces, devices, a registry, and pods that hold half of the devices."""

    image: str
    platform_image: str
    clusters: dict[str, KubernetesCluster] = field(default_factory=dict)
    registries: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def namespace(self, case: Case) -> str:
        return f"{BASE}-{case.namespace}" if case.namespace else BASE

    def cluster(self, case: Case) -> KubernetesCluster:
        where = self.namespace(case)
        if where not in self.clusters:
            self.clusters[where] = KubernetesCluster.connect(namespace=where)
        return self.clusters[where]

    def nodes(self) -> list[str]:
        found = KubernetesCluster.connect(namespace=BASE).list(NODES).items
        return [name_of(node) for node in found]

    def play(self, case: Case) -> None:
        """Create the case's objects."""
        cluster, name = self.cluster(case), run_of(case)
        for item in case.objects:
            where = "" if item["kind"] == "RuntimeClass" else self.namespace(case)
            apply(item, namespace=where)
        made = cluster.create(WORKFLOWS, workflow(case, name=name, image=self.platform_image))
        if case.is_stage:
            return
        body = gang(
            case, name=name, uid=made["metadata"]["uid"], namespace=self.namespace(case), image=self.image,
            platform_image=self.platform_image,
        )  # fmt: skip
        self._fill_in(body)
        cluster.create(JOBS if case.is_job else JOB_SETS, body)

    def act(self, case: Case) -> bool:
        """What a case wants done when its pod runs; False while it does not."""
        pods = self.pods(case)
        if not pods or pods[0]["status"].get("phase") != "Running":
            return False
        name, where = pods[0]["metadata"]["name"], self.namespace(case)
        match case.then:
            case "delete":
                kubectl("-n", where, "delete", "pod", name, "--wait=false", "--grace-period=1")
            case "evict":
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": where}}
                kubectl("create", "--raw", f"/api/v1/namespaces/{where}/pods/{name}/eviction", "-f", "-",
                        stdin=json.dumps(body))  # fmt: skip
            case "hold":
                change = {
                    "metadata": {"finalizers": [*(pods[0]["metadata"].get("finalizers") or ()), "why.example/hold"]}
                }
                self.cluster(case).patch(PODS, name, change)
                kubectl("-n", where, "delete", "pod", name, "--wait=false", "--grace-period=1")
            case "preempt":
                apply(self._preemptor(pods[0]["spec"]["nodeName"]), namespace=where)
        return True

    def pods(self, case: Case) -> list[Manifest]:
        label = f"workflows.argoproj.io/workflow={run_of(case)}" if case.is_stage else f"{RUN_LABEL}={run_of(case)}"
        return list(self.cluster(case).list(PODS, labels=label).items)

    def _preemptor(self, node: str) -> Manifest:
        device = {DEVICES[1]: "6"}
        container = {
            "name": "main", "image": self.image, "command": ["python3", "-c", "import time; time.sleep(600)"],
            "resources": {"requests": device, "limits": device},
        }  # fmt: skip
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "why-preemptor"},
            "spec": {"priorityClassName": "why-high", "nodeSelector": {"kubernetes.io/hostname": node},
                     "containers": [container], "terminationGracePeriodSeconds": 1},
        }  # fmt: skip

    def _fill_in(self, body: Manifest) -> None:
        """`ALMOST` is nearly all that the larger node has, and more than is free beside the holders."""
        jobs = body["spec"].get("replicatedJobs")
        pod = (jobs[0]["template"]["spec"] if jobs else body["spec"])["template"]["spec"]
        resources = next(item for item in pod["containers"] if item["name"] == "program").get("resources") or {}
        for name, amount in (resources.get("requests") or {}).items():
            if amount == "ALMOST":
                nodes = KubernetesCluster.connect(namespace=BASE).list(NODES).items
                most = max(quantity(node["status"]["allocatable"][name]) for node in nodes)
                less = most - 0.12 if name == "cpu" else most - 140 * 2**20
                resources["requests"][name] = f"{round(less * 1000)}m" if name == "cpu" else str(round(less))


def run_of(case: Case) -> str:
    return f"why-{case.name}"


@contextmanager
def scene(image: str, platform_image: str, *, is_plain: bool = False) -> Iterator[Stage]:
    """Everything the cases stand on, or, plain, a namespace alone; gone afterwards."""
    stage = Stage(image, platform_image)
    suffixes = () if is_plain else ("quota", "strict", "policy")
    names = [BASE, *(f"{BASE}-{suffix}" for suffix in suffixes)]
    try:
        for name in names:
            # An earlier scene's may still be going.
            kubectl("wait", "--for=delete", f"namespace/{name}", "--timeout=110s", check=False)
            subprocess.run(
                [sys.executable, "-m", "infra.devcluster", "namespace", name],
                check=True,
                timeout=200,
                capture_output=True,
            )
        if not is_plain:
            _furnish(stage)
        yield stage
    finally:
        for process in stage.registries:
            process.send_signal(signal.SIGKILL)
            process.wait()
        _clean(names)


def _furnish(stage: Stage) -> None:
    """Rules of namespaces, devices, registries, and pods that hold half of the devices."""
    kubectl("label", "namespace", f"{BASE}-strict", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    apply(*_PRIORITIES, *policy(f"{BASE}-policy"))
    apply(*_QUOTA, namespace=f"{BASE}-quota")
    nodes = stage.nodes()
    for node in nodes:
        _devices(node, str(NUM_DEVICES))
        stage.registries.append(_registry(node))
    apply(*(_holder(node, stage.image) for node in nodes), namespace=BASE)


def _clean(names: list[str]) -> None:
    for name in names:
        held = json.loads(kubectl("-n", name, "get", "pods", "-o", "json", check=False) or '{"items": []}')
        for pod in held["items"]:
            if "why.example/hold" in (pod["metadata"].get("finalizers") or ()):
                kubectl("-n", name, "patch", "pod", name_of(pod), "--type=merge", "-p",
                        '{"metadata":{"finalizers":null}}', check=False)  # fmt: skip
        kubectl("-n", name, "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false", check=False)
        kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found", check=False)
        kubectl("delete", "pv", f"site-packages-{name}", "--wait=false", "--ignore-not-found", check=False)
    for kind, name in (
        ("priorityclass", "why-low"), ("priorityclass", "why-high"), ("runtimeclass", "why-odd"),
        ("validatingadmissionpolicybinding", "why-policy"), ("validatingadmissionpolicy", "why-policy"),
    ):  # fmt: skip
        kubectl("delete", kind, name, "--ignore-not-found", check=False)
    if len(names) > 1:
        for node in json.loads(kubectl("get", "nodes", "-o", "json", check=False) or '{"items": []}')["items"]:
            _devices(name_of(node), None)


def _devices(node: str, amount: str | None) -> None:
    change = {"status": {"capacity": dict.fromkeys(DEVICES, amount), "allocatable": dict.fromkeys(DEVICES, amount)}}
    kubectl(
        "patch",
        "node",
        node,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(change),
        check=amount is not None,
    )


def _registry(node: str) -> "subprocess.Popen[bytes]":
    """In the node's own network, where its container runtime looks for `localhost`."""
    return subprocess.Popen(["nsenter", f"--net=/run/netns/argosy-{node}", sys.executable, str(REGISTRY)])


def _holder(node: str, image: str) -> Manifest:
    held = {DEVICES[0]: "4", "cpu": "150m", "memory": "160Mi"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"holder-{node}"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": image, "command": _SLEEP,
                            "resources": {"requests": held, "limits": {DEVICES[0]: "4"}}}],
        },
    }  # fmt: skip
