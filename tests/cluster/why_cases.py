"""Ways to make a run wait or fail on a real cluster, one a case, and the answer each must get.

A case is a Workflow that carries the run's label and, for what happens to a gang, a JobSet as the launcher renders it
with one thing spoilt. Where a case needs more (a claim, a taint, a policy), `objects` has it.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from components.contracts.cluster_names import RUN_LABEL
from components.contracts.gang import GangLimits, GangSpec, ResumeRule
from components.contracts.pods import PodOptions
from components.launch.gang_objects import job_object, jobset_object
from components.launch.pod_template import GangPlan, WorkflowReference

Manifest = dict[str, Any]
Spoil = Callable[[Manifest], None]

DEVICES = ("amd.com/gpu", "habana.ai/gaudi", "gpu.intel.com/i915")
"""Patched onto the nodes: eight each. The first is half in use, the others are for a case each."""
NUM_DEVICES = 8
CANARY = "canary-5f1c9e77aa"
"""In a variable of every pod, and nowhere in any evidence."""
EAT = "x = bytearray(200_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(60)"


@dataclass(frozen=True)
class Case:
    """One way to fail."""

    name: str
    reason: str
    who: str
    names: tuple[str, ...] = ()
    """Words that the first line must hold."""
    spoil: Spoil = lambda spec: None
    """Changes the gang's pod spec."""
    num_nodes: int = 1
    is_stage: bool = False
    """Spoils a stage's Workflow instead of a gang."""
    wrap: Spoil = lambda jobset: None
    """Changes the JobSet."""
    objects: tuple[Manifest, ...] = ()
    namespace: str = ""
    """A suffix: another namespace, with rules of its own."""
    is_job: bool = False
    needs: tuple[str, ...] = ()
    """`registry`, `devices`: what must be played for it."""
    then: str = ""
    """What is done when it runs: delete, evict, hold."""
    labels: Mapping[str, str] = field(default_factory=dict)


def program(spec: Manifest) -> Manifest:
    return next(item for item in spec["containers"] if item["name"] in ("program", "main"))


def sets(**changes: Any) -> Spoil:
    """Sets fields of the pod's spec."""
    return lambda spec: spec.update(copy.deepcopy(changes))


def sets_program(**changes: Any) -> Spoil:
    """Sets fields of the program's container."""
    return lambda spec: program(spec).update(copy.deepcopy(changes))


def asks(**amounts: str) -> Spoil:
    """Resources of the program; `_` in a name stands for what Python forbids there."""
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in amounts.items()}
    return sets_program(resources={"requests": named, "limits": named})


def runs(*lines: str, **more: Any) -> Spoil:
    """The program is a few lines of Python."""
    return sets_program(command=["python3", "-c", "\n".join(lines)], **more)


def with_volume(source: Manifest) -> Spoil:
    def spoil(spec: Manifest) -> None:
        spec["volumes"].append({"name": "extra", **source})
        program(spec)["volumeMounts"].append({"name": "extra", "mountPath": "/extra"})

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(spec: Manifest) -> None:
        for item in spoils:
            item(spec)

    return spoil


def workflow(case: Case, *, name: str, image: str) -> Manifest:
    """A DAG of one stage that waits for ever, or whose pod is spoilt."""
    main: Manifest = {
        "image": image, "imagePullPolicy": "IfNotPresent", "command": ["python", "-c", "import time; time.sleep(3600)"],
        "env": [{"name": "SECRET_SAUCE", "value": CANARY}], "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }  # fmt: skip
    stage: Manifest = {"name": "preflight", "container": main} if case.is_stage else {"name": "launch", "suspend": {}}
    if case.is_stage:
        pod: Manifest = {"containers": [{"name": "main", **main}], "volumes": []}
        case.spoil(pod)
        stage["container"] = {key: value for key, value in pod["containers"][0].items() if key != "name"}
        rest = {key: value for key, value in pod.items() if key not in ("containers",) and value}
        for key in ("volumes", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
            if key in rest:
                stage[key] = rest[key]
    entry = {"name": "train", "dag": {"tasks": [{"name": stage["name"], "template": stage["name"]}]}}
    return {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": name, "labels": {RUN_LABEL: name, **case.labels}},
        "spec": {
            "entrypoint": "train", "serviceAccountName": "workflow", "templates": [entry, stage],
            "podMetadata": {"labels": {"app.kubernetes.io/managed-by": "argosy"}},
        },
    }  # fmt: skip


def gang(case: Case, *, name: str, uid: str, namespace: str, image: str, platform_image: str) -> Manifest:
    """The gang's object, with the one thing spoilt; its program and agent wait unless the case says otherwise."""
    spec = GangSpec(
        run=name, generation=1, experiment="why", model_version="v1", storage="", data_version="d1",
        num_nodes=case.num_nodes, nproc_per_node=1, command=("python3",), start="rank", workdir="", env={}, seed=1,
        limits=GangLimits(start_seconds=600.0, run_seconds=3600.0, no_progress_seconds=60.0, stop_seconds=5.0),
        run_seconds_used=0.0, max_restarts=0, resume=ResumeRule(source="latest", on_new_data="refuse"),
        memory_per_rank_bytes=0, begin_reason="Start", begin_charged=False, coordinator_host="h", coordinator_port=1,
        coordinator_file="",
    )  # fmt: skip
    options = PodOptions(
        image=image, platform_image=platform_image, agent_resources={"requests": {"cpu": "10m", "memory": "32Mi"}}
    )
    plan = GangPlan(spec, options, namespace, WorkflowReference(name, uid))
    item = job_object(plan) if case.is_job else jobset_object(plan)
    job = item["spec"] if case.is_job else item["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    wait = ["python3", "-c", "import time; time.sleep(3600)"]
    pod["initContainers"][1]["command"] = ["python", "-c", "import time; time.sleep(3600)"]
    program(pod).update(command=wait, env=[*program(pod)["env"], {"name": "SECRET_SAUCE", "value": CANARY}])
    pod["volumes"] = [item for item in pod["volumes"] if item["name"] != "gang"]
    pod["initContainers"][1]["volumeMounts"] = [
        mount for mount in pod["initContainers"][1]["volumeMounts"] if mount["name"] != "gang"
    ]
    pod["terminationGracePeriodSeconds"] = 5
    case.spoil(pod)
    case.wrap(item)
    return item


def agent_ends(spec: Manifest) -> None:
    spec["initContainers"][1]["command"] = ["python", "-c", "raise SystemExit('no coordinator')"]


def files_fail(spec: Manifest) -> None:
    spec["initContainers"][0]["command"] = ["python", "-c", "raise SystemExit('cannot copy the guard')"]


def on_node(node: str) -> Spoil:
    return sets(nodeSelector={"kubernetes.io/hostname": node})


def claim(name: str) -> Manifest:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                 "storageClassName": "none-such"},
    }  # fmt: skip


def apart(label: str) -> Manifest:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {RUN_LABEL: label}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def into_queue(item: Manifest) -> None:
    item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gold"
    item["spec"]["suspend"] = True


def by_nobody(item: Manifest) -> None:
    item["spec"]["managedBy"] = "why.example/nobody"


def at_registry(name: str) -> Spoil:
    return sets_program(image=f"localhost:5999/{name}:1", imagePullPolicy="Always")


CASES = (
    # Images
    Case("image-host-unknown", "RegistryUnreachable", "admin", ("registry.invalid/argosy/train:1",),
         sets_program(image="registry.invalid/argosy/train:1")),
    Case("image-stage-unreachable", "RegistryUnreachable", "admin", ("stage preflight",),
         sets_program(image="localhost:5998/none:1"), is_stage=True),
    Case("image-name-invalid", "ImageNameInvalid", "you", (), sets_program(image="Train:Bad Name")),
    Case("image-never-pulled", "ImageNeverPulled", "you", ("localhost/absent:1",),
         sets_program(image="localhost/absent:1", imagePullPolicy="Never")),
    Case("image-not-found", "ImageNotFound", "you", ("localhost:5999/missing:1",), at_registry("missing"),
         needs=("registry",)),
    Case("image-not-allowed", "ImageNotAllowed", "you", ("localhost:5999/private:1",), at_registry("private"),
         needs=("registry",)),
    Case("image-rate-limited", "ImageRateLimited", "wait", ("localhost:5999/busy:1",), at_registry("busy"),
         needs=("registry",)),
    Case("image-slow", "ImagePulling", "wait", ("not a fault yet",), at_registry("slow"), needs=("registry",)),
    # What a container refers to
    Case("secret-missing", "SecretMissing", "you", ("no-such-secret",), sets_program(env=[
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}}}])),
    Case("secret-key-missing", "SecretMissing", "you", ("lacks the key no-such-key",), sets_program(env=[
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s3-credentials", "key": "no-such-key"}}}])),
    Case("configmap-missing", "ConfigMapMissing", "you", ("no-such-map",),
         sets_program(envFrom=[{"configMapRef": {"name": "no-such-map"}}])),
    Case("secret-volume-missing", "SecretMissing", "you", ("no-such-volume-secret",),
         with_volume({"secret": {"secretName": "no-such-volume-secret"}})),
    Case("stage-secret-missing", "SecretMissing", "you", ("stage preflight", "no-such-secret"), sets_program(env=[
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}}}]), is_stage=True),
    Case("command-missing", "CommandNotFound", "you", ("/no/such/program",),
         sets_program(command=["/no/such/program"])),
    Case("runs-as-root", "RunsAsRoot", "you", (), lambda spec: program(spec)["securityContext"].update(runAsUser=0)),
    Case("init-fails", "InitFailed", "you", ("files", "cannot copy the guard"), files_fail),
    Case("crash-loop", "CrashLoop", "you", ("agent",), agent_ends),
    # Volumes, sandbox
    Case("claim-missing", "VolumeClaimMissing", "you", ("no-such-claim",),
         with_volume({"persistentVolumeClaim": {"claimName": "no-such-claim"}})),
    Case("claim-unbound", "VolumeUnbound", "admin", (),
         with_volume({"persistentVolumeClaim": {"claimName": "unbound"}}),
         objects=(claim("unbound"),)),
    Case("mount-fails", "VolumeNotMounted", "admin", (),
         with_volume({"hostPath": {"path": "/no/such/folder", "type": "Directory"}})),
    Case("runtime-class-unknown", "RuntimeClassMissing", "you", ("no-such-class",),
         sets(runtimeClassName="no-such-class")),
    Case("runtime-handler-unknown", "RuntimeClassMissing", "admin", ("no-such-handler",),
         sets(runtimeClassName="why-odd"),
         objects=({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "why-odd"},
                   "handler": "no-such-handler"},)),
    # Scheduling
    Case("gpu-shortage", "GpuShortage", "wait", ("6 amd.com/gpu", "of 2 nodes 2 with too little amd.com/gpu"),
         asks(amd_com__gpu="6"), needs=("devices",)),
    Case("gpu-never", "TooLargeForAnyNode", "you", ("no node has more than 8",), asks(amd_com__gpu="16"),
         needs=("devices",)),
    Case("gpu-of-no-node", "TooLargeForAnyNode", "you", ("no node has any",), asks(example_com__gpu="1")),
    Case("cpu-never", "TooLargeForAnyNode", "you", ("1000.01 cpu",), asks(cpu="1000")),
    Case("memory-shortage", "MemoryShortage", "wait", (), sets_program(resources={"requests": {"memory": "ALMOST"}}),
         needs=("devices", "almost")),
    Case("cpu-shortage", "CpuShortage", "wait", (), sets_program(resources={"requests": {"cpu": "ALMOST"}}),
         needs=("devices", "almost")),
    Case("selector-of-no-node", "SelectorMatchesNoNode", "you", ("disktype=quantum",),
         sets(nodeSelector={"disktype": "quantum"})),
    Case("kept-apart", "PlacedApart", "wait", (), sets(affinity=apart("why-kept-apart")), num_nodes=3),
    Case("ports-taken", "PortsTaken", "you", (), sets_program(ports=[{"containerPort": 31998, "hostPort": 31998}]),
         num_nodes=3),
    Case("gated", "SchedulingGated", "admin", ("example.com/hold",),
         sets(schedulingGates=[{"name": "example.com/hold"}])),
    Case("scheduler-absent", "SchedulerSilent", "admin", ("nobody",), sets(schedulerName="nobody")),
    Case("node-full", "NodeFilledUp", "wait", ("cpu",), both(asks(cpu="900"), sets(nodeName="node-0"))),
    # Admission
    Case("service-account-missing", "ServiceAccountMissing", "admin", ("nobody-here",),
         sets(serviceAccountName="nobody-here")),
    Case("priority-class-missing", "PriorityClassMissing", "you", ("no-such-priority",),
         sets(priorityClassName="no-such-priority")),
    Case("quota-exceeded", "NamespaceQuota", "you", ("team", "3010m requests.cpu of 2"),
         asks(cpu="3", memory="64Mi"), namespace="quota"),
    Case("quota-stage", "NamespaceQuota", "you", ("preflight",), asks(cpu="3", memory="64Mi"), is_stage=True,
         namespace="quota"),
    Case("limit-range", "LimitRange", "you", ("maximum memory usage per Container",), asks(cpu="1", memory="3Gi"),
         namespace="quota"),
    Case("pod-security", "PodSecurity", "admin", ("restricted",), sets(hostNetwork=True), namespace="strict"),
    Case("privileged", "SpecInvalid", "you", ("disallowed by cluster policy",), lambda spec: program(spec)[
        "securityContext"].update(privileged=True, allowPrivilegeEscalation=True)),
    Case("policy-refuses", "AdmissionRefused", "admin", ("why-policy",), sets_program(image="evil.example/x:1"),
         namespace="policy"),
    Case("queue-without-controller", "QueueSilent", "admin", ("queue gold",), wrap=into_queue,
         needs=("no kueue",)),
    # Ends
    Case("out-of-memory", "OutOfMemory", "you", ("64Mi",), runs(
        EAT, resources={"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m"}})),
    Case("disk-limit", "DiskLimit", "you", (), runs(
        "f = open('/tmp/x', 'wb')", "for i in range(40): f.write(b'x' * 1_000_000)", "f.flush()", "import time",
        "time.sleep(600)", resources={"limits": {"ephemeral-storage": "10Mi"}})),
    Case("deadline-passed", "DeadlinePassed", "you", (), sets(activeDeadlineSeconds=5)),
    Case("evicted-by-drain", "Evicted", "wait", ("drained",), both(
        runs("import signal, time", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "time.sleep(600)"),
        sets(terminationGracePeriodSeconds=300)), then="evict"),
    Case("stuck-terminating", "StuckTerminating", "admin", ("why.example/hold",), then="hold"),
    Case("stage-pod-deleted", "PodDeleted", "admin", (), is_stage=True, then="delete"),
    Case("preempted", "PreemptedByScheduler", "wait", ("higher priority",), both(
        asks(habana_ai__gaudi="6"), sets(priorityClassName="why-low", terminationGracePeriodSeconds=200),
        lambda spec: program(spec).update(command=[
            "python3", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"])),
        needs=("devices",), then="preempt"),
    # Controllers that look elsewhere
    Case("argo-other-instance", "ArgoSilent", "admin", ("no Argo controller",), is_stage=True,
         labels={"workflows.argoproj.io/controller-instanceid": "elsewhere"}),
    Case("jobset-other-manager", "JobSetSilent", "admin", ("no JobSet controller",), wrap=by_nobody),
    Case("job-other-manager", "JobControllerSilent", "admin", ("no Job controller",), wrap=by_nobody, is_job=True),
    # Two at once
    Case("two-causes", "SecretMissing", "you", ("no-such-secret",), both(
        asks(gpu_intel_com__i915="5"), sets_program(env=[
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}}}])),
        num_nodes=3, needs=("devices",)),
    Case("healthy", "Starting", "wait", (), then="runs"),
)  # fmt: skip
