"""Causes by hand: what was observed, the reason, who acts, words that the first line holds.

What a real cluster showed lies in `cases/`; these are from documented shapes, and other versions' wordings.
"""
# ruff: noqa: E501 -- the sentences stand as they are said

from components.cluster.avoidance import avoiding
from components.contracts.gang import FailureKind
from components.contracts.lifecycle import RunState
from components.diagnosis.observed import Observed
from tests.components.diagnosis.made import (
    GANG,
    a_cluster_node,
    a_job,
    a_jobset,
    a_pod,
    an_event,
    creating,
    ended,
    evidence,
    launching,
    meta,
    not_reserved,
    queued,
    refused,
    running,
    starting,
    taken,
    time,
    unscheduled,
    waiting,
)
from tests.runs import RUN, a_failed_attempt, a_failure, a_gang, a_node, a_stage_record, a_stop, a_view, an_engine

Row = tuple[str, Observed, str, str, tuple[str, ...]]

PULL = 'Back-off pulling image "r/train:1": ErrImagePull: '
_OLD_SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "9f": plugin '
    'type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized'
)
_GPU_NODES = tuple(a_cluster_node(f"gpu-{n}", taint="nvidia.com/gpu") for n in range(4))
_CPU_NODES = tuple(a_cluster_node(f"cpu-{n}", gpus=0) for n in range(6))
_GPU_TAINTED = (
    "0/10 nodes are available: 4 node(s) had untolerated taint(s), 6 Insufficient nvidia.com/gpu. "
    "no new claims to deallocate, preemption: 0/10 nodes are available: 10 Preemption is not helpful for scheduling."
)


def events_of(pod: dict, *told: tuple[str, str, float]) -> tuple[dict, ...]:
    return tuple(an_event(pod, reason, message, seconds) for reason, message, seconds in told)


def starts(reason: str, message: str) -> Observed:
    """A pod being created, with one complaint."""
    pod = creating()
    return evidence(pod, events=events_of(pod, (reason, message, 30)))


def creation_refused(message: str) -> Observed:
    job = a_job(status={"active": 0})
    return evidence(jobsets=(a_jobset(),), jobs=(job,), events=(an_event(job, "FailedCreate", message),))


def in_queue(*conditions: dict, queues: tuple[dict, ...] = (), **changes: object) -> Observed:
    labels = {"kueue.x-k8s.io/queue-name": "gold"}
    jobset = a_jobset(metadata={"labels": {**a_jobset()["metadata"]["labels"], **labels}}, spec={"suspend": True})
    return evidence(jobsets=(jobset,), queued=(queued(*conditions, **changes),), queues=queues)


def launch_failed(kind: FailureKind, message: str, code: int = 83) -> Observed:
    """The pods are gone; the launcher's last words stay."""
    failure = a_failure(kind, rank=None, node_rank=1, exit_code=None, message=message)
    node = a_node("launch", "Failed", exit_code=code)
    record = a_stage_record("launch", code, reason="Stopped", message="Stopped: the gang did not start")
    gang = a_gang(RunState.FAILED, attempts=(a_failed_attempt(failure),), last_step=None, steps=())
    return evidence(view=a_view(engine=an_engine(node, phase="Failed"), stages=(record,), gangs=(gang,)))


def stage_lost(message: str, phase: str = "Error") -> Observed:
    node = a_node("preflight", phase, exit_code=None, message=message)
    return evidence(view=a_view(engine=an_engine(node, phase="Failed")))


def stage_ended(*pods: dict, task: str = "preflight") -> Observed:
    said = "main: Error (exit code 143): Terminated: a SIGTERM came"
    node = a_node(task, "Failed", exit_code=143, message=said)
    view = a_view(engine=an_engine(node, phase="Failed"))
    return evidence(*pods, view=view, workflows=({"metadata": meta(RUN), "status": {"phase": "Failed"}},))


def stage_pod(node: str) -> dict:
    labels, annotations = {"workflows.argoproj.io/workflow": RUN}, {"workflows.argoproj.io/node-name": f"{RUN}.{node}"}
    state = {"name": "main", "state": {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": time(30)}}}
    status = {"phase": "Failed", "containerStatuses": [state]}
    return {"metadata": meta(f"{RUN}-{node}", labels=labels, annotations=annotations), "spec": {}, "status": status}


ROWS: tuple[Row, ...] = (
    # Scheduling
    ("GPUs in use", evidence(unscheduled("0/4 nodes are available: 4 Insufficient nvidia.com/gpu."), nodes=tuple(
        a_cluster_node(f"g{n}") for n in range(4))), "GpuShortage", "wait", ("8 nvidia.com/gpu", "of 4 nodes 4")),
    ("GPUs in use, nodes unseen", evidence(unscheduled("0/4 nodes are available: 1 node(s) were unschedulable, "
     "3 Insufficient nvidia.com/gpu.")), "GpuShortage", "wait", ("3 with too little nvidia.com/gpu", "1 not ready")),
    ("the nodes with GPUs are tainted", evidence(unscheduled(_GPU_TAINTED), nodes=(*_GPU_NODES, *_CPU_NODES)),
     "TaintNotTolerated", "you", ("nvidia.com/gpu", "4 with a taint")),
    ("the nodes with GPUs are outside the selector", evidence(unscheduled(
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient nvidia.com/gpu.",
        spec={"nodeSelector": {"pool": "b"}}), nodes=(a_cluster_node("g", pool="a"), *(
            a_cluster_node(f"c{n}", gpus=0, pool="b") for n in range(2)))), "SelectorMatchesNoNode", "you", ("pool=b",)),
    ("the nodes with GPUs are down", evidence(unscheduled(
        "0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 2 Insufficient "
        "nvidia.com/gpu."), nodes=(a_cluster_node("g", ready="Unknown"), *(
            a_cluster_node(f"c{n}", gpus=0) for n in range(2)))), "NodesDown", "admin", ("1 not ready or cordoned",)),
    ("no node so large", evidence(unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), nodes=(
        a_cluster_node("g", gpus=4), a_cluster_node("h", gpus=2))), "TooLargeForAnyNode", "you", ("more than 4",)),
    ("taint, Kubernetes 1.21", evidence(unscheduled("0/5 nodes are available: 5 node(s) had taint {dedicated: infra}, "
     "that the pod didn't tolerate.")), "TaintNotTolerated", "you", ("dedicated: infra", "of 5 nodes 5")),
    ("taint, Kubernetes 1.25", evidence(unscheduled("0/5 nodes are available: 5 node(s) had untolerated taint "
     "{dedicated: infra}. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.")),
     "TaintNotTolerated", "you", ("dedicated: infra",)),
    ("taint, Kubernetes 1.35", evidence(unscheduled("0/5 nodes are available: 5 node(s) had untolerated taint(s). no new "
     "claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.")),
     "TaintNotTolerated", "you", ("of 5 nodes 5",)),
    ("selector, Kubernetes 1.18", evidence(unscheduled("0/3 nodes are available: 3 node(s) didn't match node selector.",
     spec={"nodeSelector": {"gpu": "h100"}})), "SelectorMatchesNoNode", "you", ("gpu=h100",)),
    ("the nodes it selects are tainted, others are not selected", evidence(unscheduled(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
        spec={"nodeSelector": {"pool": "a"}}), nodes=(a_cluster_node("g", taint="reserved", pool="a"), *(
            a_cluster_node(f"o{n}", pool="b") for n in range(2)))), "TaintNotTolerated", "you", ("(reserved)",)),
    ("a tainted control plane beside nodes that are not selected", evidence(unscheduled(
        "0/3 nodes are available: 2 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 1 node(s) "
        "didn't match Pod's node affinity/selector.", spec={"nodeSelector": {"pool": "a"}})), "SelectorMatchesNoNode", "you",
     ("pool=a",)),
    ("all nodes were found unfit before", evidence(unscheduled(
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        spec={"affinity": dict(avoiding(["g0", "g1"]))}), nodes=tuple(a_cluster_node(f"g{n}") for n in range(2))),
     "NodesAvoided", "admin", ("g0, g1",)),
    ("cordoned nodes", evidence(unscheduled("0/2 nodes are available: 2 node(s) were unschedulable.")), "NodesDown",
     "admin", ()),
    ("too many pods", evidence(unscheduled("0/2 nodes are available: 2 Too many pods.")), "NodesFull", "wait", ()),
    ("unbound claim, without a count", evidence(unscheduled("0/3 nodes are available: pod has unbound immediate "
     "PersistentVolumeClaims. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")),
     "VolumeUnbound", "admin", ()),
    ("volume in another zone", evidence(unscheduled("0/3 nodes are available: 3 node(s) had volume node affinity "
     "conflict.")), "VolumeUnbound", "admin", ()),
    ("spread", evidence(unscheduled("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.")),
     "PlacedApart", "wait", ()),
    ("a gang that does not fit", evidence(unscheduled("gang: podgroup ml/x has fewer than minCount pods schedulable")),
     "GangIncomplete", "wait", ()),
    ("an autoscaler at work", (lambda pod: evidence(pod, events=(an_event(
        pod, "TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2}]", type="Normal"),)))(
            unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")), "ScalingUp", "wait", ()),
    ("an affinity the scheduler cannot read", evidence(unscheduled(
        'parsing affinity: "x y" is not a valid label', reason="SchedulerError")), "SchedulerError", "you", ()),
    # Images
    ("Docker Hub, private or absent", evidence(waiting("ErrImagePull",
     'failed to pull and unpack image "docker.io/a/b:1": failed to resolve reference "docker.io/a/b:1": pull access denied, '
     "repository does not exist or may require authorization: server message: insufficient_scope: authorization failed")),
     "ImageNotAllowed", "you", ("docker.io/a/b:1",)),
    ("Docker Hub, rate limit", evidence(waiting("ImagePullBackOff", PULL + 'failed to pull and unpack image "r/train:1": '
     "failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/r/train/blobs: "
     "429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.")),
     "ImageRateLimited", "wait", ("r/train:1",)),
    ("a registry with an unknown authority", evidence(waiting("ErrImagePull", 'failed to pull and unpack image "r/train:1": '
     'failed to do request: Head "https://r/v2/": tls: failed to verify certificate: x509: certificate signed by unknown '
     "authority")), "RegistryNotTrusted", "admin", ()),
    ("an image for another machine", evidence(waiting("ErrImagePull", 'failed to pull and unpack image "r/train:1": no match '
     "for platform in manifest: not found")), "ImageWrongPlatform", "you", ()),
    ("a full image store", evidence(waiting("ErrImagePull", 'failed to pull and unpack image "r/train:1": failed to extract '
     "layer sha256:aa: write /var/lib/containerd/x: no space left on device")), "NodeDiskFull", "admin", ()),
    ("cri-o, manifest unknown", evidence(waiting("ErrImagePull", "initializing source docker://r/train:1: reading manifest 1 "
     "in r/train: manifest unknown")), "ImageNotFound", "you", ()),
    ("a back-off that does not say why, and the event that does", (lambda pod: evidence(pod, events=events_of(
        pod, ("Failed", 'Failed to pull image "r/train:1": rpc error: code = NotFound desc = failed to pull and unpack image '
              '"r/train:1": failed to resolve reference "r/train:1": r/train:1: not found', 20),
        ("Failed", "Error: ImagePullBackOff", 40))))(waiting("ImagePullBackOff", 'Back-off pulling image "r/train:1"')),
     "ImageNotFound", "you", ("r/train:1",)),
    ("a back-off that nobody explains", evidence(waiting("ImagePullBackOff", 'Back-off pulling image "r/train:1"')),
     "ImageNotPulled", "you", ("not known",)),
    ("a signature that does not count", evidence(waiting("SignatureValidationFailed", "image signature validation failed")),
     "ImageNotSigned", "you", ()),
    # Node, network, volumes
    ("no pod network", starts("FailedCreatePodSandBox", _OLD_SANDBOX), "NetworkNotReady", "admin", ()),
    ("no address left", starts("FailedCreatePodSandBox", 'plugin type="bridge" failed (add): failed to allocate for range 0: '
     "no IP addresses available in range set: 10.0.0.1-10.0.0.254"), "NetworkNotReady", "admin", ()),
    ("network plugin absent", starts("NetworkNotReady", "network is not ready: container runtime network not ready: "
     "NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"), "NetworkNotReady", "admin", ()),
    ("a sandbox that fails otherwise", starts("FailedCreatePodSandBox", "rpc error: code = Unknown desc = failed to create "
     "containerd task: failed to create shim task: OCI runtime create failed"), "SandboxFailed", "admin", ()),
    ("a disk attached elsewhere", starts("FailedAttachVolume", 'Multi-Attach error for volume "pvc-7" Volume is already '
     "exclusively attached to one node and can't be attached to another"), "VolumeAttachedElsewhere", "admin", ("pvc-7",)),
    ("a file server that does not answer", starts("FailedMount", 'MountVolume.SetUp failed for volume "nfs": mount failed: '
     "exit status 32 mount.nfs: Connection timed out"), "VolumeNotMounted", "admin", ()),
    ("a device plugin that fails", evidence(refused("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no "
     "healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected")), "DevicePlugin",
     "admin", ("gpu-1",)),
    ("no NUMA node with all of it", evidence(refused("TopologyAffinityError", "Pod was rejected: Resources cannot be "
     "allocated with Topology locality")), "TopologyRefused", "you", ()),
    ("a node that shuts down", evidence(refused("Terminated", "Pod was terminated in response to imminent node shutdown.")),
     "NodeShutdown", "wait", ()),
    ("memory pressure", evidence(refused("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, "
     "available: 50Mi. Container program was using 30Gi, request is 0, has larger consumption of memory.")), "Evicted",
     "wait", ("memory",)),
    ("a taint that drives pods away", evidence(taken("DeletionByTaintManager", "Taint manager: deleting due to NoExecute "
     "taint"), nodes=(a_cluster_node("gpu-1", taint="maintenance"),)), "TaintedAway", "wait", ()),
    ("a node that left the cluster", evidence(taken("DeletionByPodGC", "PodGC: node no longer exists"), nodes=()), "NodeLost",
     "admin", ("gpu-1",)),
    ("a node that does not answer, nodes unseen", evidence(running(status={"conditions": [
        {"type": "Ready", "status": "False", "reason": "NodeStatusUnknown", "lastTransitionTime": time(40)}]})), "NodeLost",
     "admin", ("gpu-1",)),
    ("a lost node keeps its pod", evidence(running(metadata={"deletionTimestamp": time(30),
     "deletionGracePeriodSeconds": 10}), seconds=400, nodes=(a_cluster_node("gpu-1", ready="Unknown"),)), "NodeLost",
     "admin", ("cannot end",)),
    ("an unknown disruption", evidence(taken("DeletionByMoonlight", "the moon is full")), "Disrupted", "admin",
     ("DeletionByMoonlight",)),
    ("a kubelet that lost track", evidence(ended(0, 137, "ContainerStatusUnknown", 30, said="The container could not be located when the pod was deleted.  The container used to be Running")), "NodeLost", "admin", ()),
    # Admission
    ("a webhook that does not answer", creation_refused("Internal error occurred: failed calling webhook \"mpod.kb.io\": "
     "failed to call webhook: Post \"https://x\": connect: connection refused"), "WebhookSilent", "admin", ("mpod.kb.io",)),
    ("a webhook that refuses", creation_refused('admission webhook "validate.kyverno.svc-fail" denied the request: labels '
     "are missing"), "AdmissionRefused", "admin", ("kyverno",)),
    ("a namespace on its way out", creation_refused('pods "x" is forbidden: unable to create new content in namespace ml '
     "because it is being terminated"), "NamespaceEnding", "you", ()),
    ("a quota that wants amounts", creation_refused('pods "x" is forbidden: failed quota: team: must specify limits.memory '
     "for: files,program"), "QuotaWantsAmounts", "you", ("team",)),
    ("a right that is missing", stage_lost('pods "x" is forbidden: User "system:serviceaccount:argo:argo" cannot create '
     'resource "pods" in API group "" in the namespace "ml"'), "RightMissing", "admin", ("cannot create",)),
    # Controllers
    ("no Argo controller", evidence(workflows=({"metadata": meta(RUN), "spec": {}, "status": {}},), view=a_view(
        engine=an_engine(phase="Pending", alive=True))), "ArgoSilent", "admin", ()),
    ("no JobSet controller", evidence(jobsets=(a_jobset(status={"conditions": []}),)), "JobSetSilent", "admin", ()),
    ("no Job controller", evidence(jobsets=(a_jobset(),), jobs=(
        {**a_job(), "status": {}},)), "JobControllerSilent", "admin", ()),
    ("a Job whose last pod does not go", evidence(jobsets=(a_jobset(),), jobs=(a_job(status={"terminating": 1, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": time(10)}]}),),
        seconds=300), "GangStuckEnding", "admin", ("1 of its pods",)),
    # Queue
    ("quota in use, Kueue 0.17", in_queue(not_reserved("Pending", "couldn't assign flavors to pod set node: insufficient "
     "unused quota for nvidia.com/gpu in flavor h100, 8 more needed")), "QueueWaits", "wait", ("gold", "8 more needed")),
    ("quota in use, newer Kueue", in_queue(not_reserved("WaitingForQuota", "insufficient unused quota")), "QueueWaits", "wait",
     ()),
    ("a gang beyond any quota", in_queue(not_reserved("Pending", "couldn't assign flavors to pod set node: insufficient quota "
     "for nvidia.com/gpu in flavor h100, request > maximum capacity (64 > 16)")), "LargerThanQuota", "you", ("gold",)),
    ("no such queue", in_queue(not_reserved("Inadmissible", "LocalQueue gold doesn't exist")), "QueueMissing", "you",
     ("gold",)),
    ("a stopped queue", in_queue(not_reserved("Inadmissible", "LocalQueue gold is inactive")), "QueueStopped", "admin", ()),
    ("a stopped queue, by its own word", in_queue(not_reserved("Pending", "Workload didn't fit"), queues=(
        {"metadata": meta("gold"), "spec": {"clusterQueue": "all", "stopPolicy": "Hold"}},)), "QueueStopped", "admin", ()),
    ("no flavor suits", in_queue(not_reserved("Pending", "couldn't assign flavors to pod set node: untolerated taint {gpu yes "
     "NoSchedule} in flavor h100")), "NoMatchingFlavor", "you", ()),
    ("no place close together", in_queue(not_reserved("Pending", 'couldn\'t assign flavors to pod set node: topology "dc" '
     "doesn't allow to fit any of 4 pod(s)")), "TopologyFull", "wait", ()),
    ("others give way", in_queue(not_reserved("Pending", "couldn't assign flavors: insufficient unused quota. Pending the "
     "preemption of 1 workload(s)")), "Preempting", "wait", ()),
    ("behind others", in_queue(), "QueueWaits", "wait", ("behind others",)),
    ("an admission check", in_queue({"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}, status={
        "admissionChecks": [{"name": "provision", "state": "Pending", "message": "no capacity yet"}]}),
     "AdmissionCheckWaits", "wait", ("provision",)),
    ("an admission check that refuses", in_queue({"type": "QuotaReserved", "status": "True"}, status={
        "admissionChecks": [{"name": "provision", "state": "Rejected", "message": "no such machine type"}]}),
     "AdmissionCheckRejected", "you", ("no such machine type",)),
    ("preempted in its queue", in_queue(
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "Preempted to accommodate a workload"},
        {"type": "Preempted", "status": "True", "reason": "InClusterQueue"}), "Preempted", "wait", ("gold",)),
    ("given up by its queue", in_queue({"type": "Evicted", "status": "True", "reason": "DeactivatedDueToRequeuingLimitExceeded",
     "message": "exceeding the maximum number of re-queuing retries"}, spec={"active": False}), "Deactivated", "you", ()),
    ("a queue that says something new", in_queue(not_reserved("Moonstruck", "the moon is full")), "Unknown", "admin",
     ("the moon is full",)),
    # Meeting
    ("agents that do not meet", evidence(running(0), running(1, node="gpu-2"), view=starting(1), seconds=120),
     "RendezvousUnreachable", "admin", ("only 1",)),
    # Not a fault
    ("a container being created", evidence(creating()), "Starting", "wait", ("not a fault yet",)),
    ("an image being pulled", (lambda pod: evidence(pod, events=events_of(
        pod, ("Pulling", 'Pulling image "r/train:1"', 20))))(creating()), "ImagePulling", "wait", ("40s", "not a fault yet")),
    ("a long pull", (lambda pod: evidence(pod, seconds=900, events=events_of(
        pod, ("Pulling", 'Pulling image "r/train:1"', 20))))(creating()), "SlowImagePull", "wait", ("long",)),
    ("a start that no event explains", evidence(creating(), seconds=600), "SlowStart", "admin", ("no event says why",)),
    # Rarer words
    ("a cache that is not filled", evidence(waiting("CreateContainerConfigError", "failed to sync configmap cache: timed out "
     "waiting for the condition")), "ContainerConfig", "you", ()),
    ("a runtime that does not answer", evidence(waiting("CreateContainerError", "context deadline exceeded")),
     "ContainerNotCreated", "admin", ()),
    ("network cards in use", evidence(unscheduled("0/2 nodes are available: 2 Insufficient rdma/hca.")), "ResourceShortage",
     "wait", ("rdma/hca",)),
    ("labels that changed on the way", evidence(refused("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: "
     "node(s) didn't match Pod's node affinity/selector")), "NodeChanged", "admin", ()),
    ("a queue that leads nowhere", in_queue(not_reserved("Inadmissible", "ClusterQueue all doesn't exist")),
     "QueueMisconfigured", "admin", ("gold",)),
    ("a resource the queue does not know", in_queue(not_reserved("Pending", "couldn't assign flavors to pod set node: resource "
     "nvidia.com/gpu unavailable in ClusterQueue")), "ResourceNotInQueue", "admin", ("gold",)),
    ("a gate that nobody lifts", evidence(a_pod(spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]})),
     "SchedulingGated", "admin", ("kueue.x-k8s.io/topology",)),
    # Ended runs, from the last words
    ("a start limit, for want of GPUs", launch_failed(FailureKind.START_DEADLINE, "0 of 2 nodes joined; node 1 never started "
     "(program: ImagePullBackOff: Back-off pulling image \"r/x:1\": ErrImagePull: failed to resolve reference \"r/x:1\": "
     "r/x:1: not found)"), "ImageNotFound", "you", ("r/x:1",)),
    ("a stage killed for memory", stage_lost("OOMKilled (exit code 137)"), "OutOfMemory", "you", ("preflight",)),
    ("a stage whose pod was deleted after it had said that it ends", stage_ended(), "PodDeleted", "admin", ("preflight",)),
    ("a stage whose pod was deleted", stage_lost("pod deleted"), "PodDeleted", "admin", ("preflight",)),
    ("a stage evicted", stage_lost("The node was low on resource: ephemeral-storage. Threshold"), "Evicted", "wait",
     ("ephemeral-storage",)),
    ("a stop", evidence(unscheduled("0/2 nodes are available: 2 Insufficient cpu."), view=a_view(
        engine=an_engine(a_node("launch", "Failed", exit_code=83), phase="Failed", stop=a_stop()))), "StopRequested", "you",
     ("ada@box",)),
)  # fmt: skip
"""Each is one cause, so that the first answer is the only right one."""

_old = a_pod(0, uid="uid-older")
_first, _second = waiting("ImagePullBackOff", PULL + "r/train:1: not found", rank=1), unscheduled(
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", 0)  # fmt: skip
_healed = creating()
_job = a_job(status={"active": 2})

ADVERSARIAL: tuple[Row, ...] = (
    ("a wrong image comes before a shortage: when GPUs are free the image is still wrong",
     evidence(_second, _first), "ImageNotFound", "you", ("node 1 of the gang",)),
    ("events of an older pod of the same name say nothing",
     evidence(creating(uid="uid-newer"), events=(an_event(_old, "FailedMount", "MountVolume.SetUp failed"),)), "Starting",
     "wait", ()),
    ("a complaint that a pull has followed is over", evidence(_healed, events=events_of(
        _healed, ("FailedCreatePodSandBox", _OLD_SANDBOX, 15), ("Pulling", 'Pulling image "r/train:1"', 30))),
     "ImagePulling", "wait", ()),
    ("a refusal that a creation has followed is over", evidence(
        creating(), jobs=(_job,), jobsets=(a_jobset(),), events=(
            an_event(_job, "FailedCreate", "exceeded quota: team", 15), an_event(_job, "SuccessfulCreate", "pod x", 20))),
     "Starting", "wait", ()),
    ("a quota that is full now is waited for", evidence(
        jobs=(_job,), jobsets=(a_jobset(),), events=(an_event(
            _job, "FailedCreate", "exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9", 15),)),
     "NamespaceQuota", "wait", ("team",)),
    ("an older generation's trouble is not this one's", evidence(
        waiting("ErrImagePull", "x: not found") | {"metadata": a_pod(0, generation=1)["metadata"]},
        unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.") | {
            "metadata": a_pod(0, generation=2)["metadata"]}), "GpuShortage", "wait", ()),
    ("who ended first is to blame, not who was killed after", evidence(
        ended(0, 137, "Error", 45, asked=41), ended(1, 137, "OOMKilled", 40), ended(2, 143, "Error", 46, asked=41)),
     "OutOfMemory", "you", ("node 1 of the gang",)),
    ("a scheduler's word that is not known is not guessed at", evidence(unscheduled(
        "0/7 nodes are available: 7 node(s) failed the frobnication predicate.")), "Unknown", "admin", ("frobnication",)),
    ("an unknown constraint that removes most nodes outweighs a known one", evidence(unscheduled(
        "0/7 nodes are available: 1 Insufficient cpu, 6 node(s) failed frobnication.")), "Unknown", "admin", ("frobnication",)),
    ("a known constraint that removes most nodes leads", evidence(unscheduled(
        "0/7 nodes are available: 1 node(s) failed frobnication, 6 Insufficient cpu.")), "CpuShortage", "wait",
     ("6 with too little cpu", "1 by a constraint not known here")),
    ("a container's reason that is not known is not guessed at", evidence(waiting("MoonPhaseError", "the moon is full")),
     "Unknown", "admin", ("the moon is full",)),
    ("a kubelet's reason that is not known is not guessed at", evidence(refused("MoonPhase", "the moon is full")), "Unknown",
     "admin", ("the moon is full",)),
    ("an API server's refusal that is not known is not guessed at", creation_refused("the moon is full"), "Unknown", "admin",
     ("the moon is full",)),
    ("a lost node is the cause, what hangs on it the consequence", evidence(
        running(metadata={"deletionTimestamp": time(30), "deletionGracePeriodSeconds": 10}), seconds=400,
        nodes=(a_cluster_node("gpu-1", ready="Unknown"),), jobsets=(a_jobset(),), jobs=(a_job(status={
            "terminating": 1, "conditions": [{"type": "FailureTarget", "status": "True", "lastTransitionTime": time(40)}]}),)),
     "NodeLost", "admin", ()),
    ("ranks that train are not disturbed by a stage's old pod", evidence(
        running(0), running(1), waiting("ErrImagePull", "x: not found") | {"metadata": meta(
            "old", labels={"workflows.argoproj.io/workflow": "another"})}, view=launching(gangs=(a_gang(),)),
        workflows=({"metadata": meta(RUN), "spec": {}, "status": {"phase": "Running"}},)), "Training", "wait", ()),
    ("a traceback says more than a killed pod", evidence(
        ended(0, 137, "Error", 45, asked=41), view=a_view(engine=an_engine(
            a_node("launch", "Failed", exit_code=90), phase="Failed"),
            stages=(a_stage_record("launch", 90, reason="WorkerFailed", message="WorkerFailed: a rank failed"),),
            gangs=(a_gang(RunState.FAILED, attempts=(a_failed_attempt(a_failure(last_lines=("ValueError: x",))),)),))),
     "WorkerFailed", "you", ("ValueError: x",)),
    ("a stage being prepared is no fault, whoever is asked", evidence(
        {"metadata": meta("s", labels={"workflows.argoproj.io/workflow": RUN}, annotations={
            "workflows.argoproj.io/node-name": f"{RUN}.preflight"}), "spec": {"nodeName": "gpu-1"},
         "status": {"phase": "Pending", "startTime": time(30), "containerStatuses": [
             {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]}},
        workflows=({"metadata": meta(RUN), "spec": {}, "status": {"phase": "Running"}},),
        view=a_view(engine=an_engine(a_node("preflight", "Pending", message="PodInitializing")))), "Starting", "wait",
     ("stage preflight", "not a fault yet")),
    ("GANG is a name, not a cause", evidence(a_pod(0, node="gpu-1", metadata={"name": GANG}, status={"containerStatuses": [
        {"name": "program", "state": {"waiting": {"reason": "PodInitializing"}}}]})), "Starting", "wait", ()),
    ("a place that vanished while it looked", evidence(
        view=a_view(engine=an_engine(phase="Running", alive=False))), "WorkflowGone", "you", ()),
    ("a template that is not there", evidence(
        workflows=({"metadata": meta(RUN), "spec": {}, "status": {
            "phase": "Error", "message": 'workflowtemplates.argoproj.io "nope" not found'}},),
        view=a_view(engine=an_engine(phase="Error", alive=False, message='workflowtemplates.argoproj.io "nope" not found'))),
     "TemplateMissing", "you", ("there is no WorkflowTemplate nope",)),
    ("one of many tasks is called as its stage calls itself", evidence(
        workflows=({"metadata": meta(RUN), "spec": {}, "status": {"phase": "Running", "nodes": {"n": {
            "displayName": "shard-task(2:2)(0)", "phase": "Pending", "type": "Pod",
            "message": 'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9'}}},
          },)), "NamespaceQuota", "wait", ("the pod of stage shard-task-2 is not created",)),
    ("the same of one of many tasks", stage_ended(stage_pod("shard-task(1:1)(0)"), task="shard-task-1"), "Terminated",
     "admin", ("shard-task-1",)),
    ("a SIGTERM to a stage whose pod is still there: nobody deleted that", stage_ended(stage_pod("preflight(0)")),
     "Terminated", "admin", ("preflight",)),
)  # fmt: skip
"""Two causes at once, stale facts, words nobody knows: what must not lead astray."""
