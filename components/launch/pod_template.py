"""A worker pod as a manifest: the user's image under the guard, the agent beside it as a native sidecar. Pure.

    files (init)        platform image   copies guard.py into the pod
    agent (sidecar)     platform image   starts before the program and ends after it
    program             user's image     python3 guard.py, which starts the ranks

The program's container gets neither the gang's secret, nor the storage's credentials, nor a service-account token.
Every field that an admission webhook or a controller would default and that matters to us is spelled out.
"""

import math
from dataclasses import dataclass
from typing import Any

from components.cluster.avoidance import avoiding
from components.contracts.cluster_names import (
    EXPERIMENT_LABEL,
    FORCE_AFTER_ANNOTATION,
    GANG_LABEL,
    GENERATION_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    RUN_LABEL,
    WORKFLOW_ANNOTATION,
    WORKFLOW_UID_ANNOTATION,
)
from components.contracts.gang import GangSpec
from components.contracts.names import gang_name
from components.contracts.pods import (
    CA_FOLDER,
    CA_KEY,
    TRUST_FOLDER,
    TRUST_VARIABLES,
    TRUSTED_PATH,
    PodOptions,
    proxy_variables,
)
from components.launch.pod_patch import one_each, patched

Manifest = dict[str, Any]

PROGRAM, AGENT, FILES = "program", "agent", "files"
"""Names of the containers."""

GRACE_MARGIN_SECONDS = 10
"""Added to `limits.stop`: the agents kill the ranks at that limit, and then still have to leave."""

BIN, WORK, CACHE, GANG = "/argosy/bin", "/argosy/work", "/argosy/cache", "/argosy/gang"
HOME, SHM, TMP = "/argosy/home", "/dev/shm", "/tmp"
SOCKET = f"{WORK}/guard.sock"
SPEC_KEY, SECRET_KEY = "spec.json", "secret"
"""Keys of the gang's Secret; its other keys are variables of the agent."""


@dataclass(frozen=True)
class WorkflowReference:
    """The Workflow whose launch stage makes the gang."""

    name: str
    uid: str

    def owner(self) -> Manifest:
        """Not the controller: Argo must not take a gang for one of its pods."""
        return {
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": self.name, "uid": self.uid,
            "controller": False, "blockOwnerDeletion": False,
        }  # fmt: skip


@dataclass(frozen=True)
class GangPlan:
    """All that the objects of one generation are made of."""

    spec: GangSpec
    pods: PodOptions
    namespace: str
    workflow: WorkflowReference | None = None
    agent_variables: tuple[str, ...] = ()
    """Names of variables the agent finds in the gang's Secret."""
    excluded_nodes: tuple[str, ...] = ()
    """Names of Kubernetes nodes this generation must not run on."""

    @property
    def name(self) -> str:
        return gang_name(self.spec.run, self.spec.generation)

    @property
    def labels(self) -> dict[str, str]:
        return {
            MANAGED_BY_LABEL: MANAGED_BY, EXPERIMENT_LABEL: self.spec.experiment, RUN_LABEL: self.spec.run,
            GANG_LABEL: self.name, GENERATION_LABEL: str(self.spec.generation),
        }  # fmt: skip

    def metadata(self) -> Manifest:
        """Of each of the gang's own objects: all have its name."""
        annotations = (
            {WORKFLOW_ANNOTATION: self.workflow.name, WORKFLOW_UID_ANNOTATION: self.workflow.uid}
            if self.workflow
            else {}
        )
        return {
            "name": self.name, "namespace": self.namespace, "labels": self.labels, "annotations": annotations,
            "ownerReferences": [self.workflow.owner()] if self.workflow else [],
        }  # fmt: skip


def pod_template(plan: GangPlan) -> Manifest:
    """`spec.template` of the gang's Job."""
    options, limits = plan.pods, plan.spec.limits
    annotations = {**options.annotations, "kubectl.kubernetes.io/default-container": PROGRAM}
    if options.lost_node.policy == "force_after":
        annotations[FORCE_AFTER_ANNOTATION] = f"{options.lost_node.after_seconds:g}"
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(limits.stop_seconds) + GRACE_MARGIN_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "ClusterFirstWithHostNet" if options.host_network else "ClusterFirst",
        "hostNetwork": options.host_network,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": options.run_as_user, "runAsGroup": options.run_as_user,
            "fsGroup": options.run_as_user, "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_files(plan), _agent(plan)],
        "containers": [_program(plan)],
        "volumes": _volumes(plan),
        "nodeSelector": options.node_selector,
        "tolerations": [*options.tolerations, *_node_tolerations(options)],
        "topologySpreadConstraints": [_spread(plan)],
    }  # fmt: skip
    optional = {
        "serviceAccountName": options.service_account,
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "priorityClassName": options.priority_class,
        "schedulerName": options.scheduler_name,
        "runtimeClassName": options.runtime_class,
        "affinity": avoiding(plan.excluded_nodes),
    }
    spec.update({key: value for key, value in optional.items() if value})
    spec = patched(spec, options.patch or {})
    return {"metadata": {"labels": {**options.labels, **plan.labels}, "annotations": annotations}, "spec": spec}


def _files(plan: GangPlan) -> Manifest:
    return _ours(
        plan, FILES, ["python", "-m", "components.agent.handover", BIN], mounts=[_mount("bin", BIN)],
        resources={"requests": {"cpu": "10m", "memory": "32Mi"}},
    )  # fmt: skip


def _agent(plan: GangPlan) -> Manifest:
    command = [
        "python", "-m", "components.agent", "--spec-file", f"{GANG}/{SPEC_KEY}", "--secret-file",
        f"{GANG}/{SECRET_KEY}", "--workdir", WORK, "--guard-socket", SOCKET,
    ]  # fmt: skip
    mounts = [
        _mount("work", WORK), _mount("cache", CACHE), _mount("tmp", TMP), _mount("gang", GANG, read_only=True),
    ]  # fmt: skip
    variables: list[Manifest] = [
        _node_name(),
        {"name": "ARGOSY_WORKFLOW", "value": plan.workflow.name if plan.workflow else ""},
        {"name": "ARGOSY_IMAGE", "value": plan.pods.image},
        {"name": "ARGOSY_CACHE", "value": CACHE},
        {"name": "HOME", "value": TMP},
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": plan.name, "key": name}}}
            for name in sorted(plan.agent_variables)
        ),
    ]
    variables += _way_out(plan.pods)
    if plan.pods.trusted:
        mounts.append(_mount("trust", TRUST_FOLDER, read_only=True))
    if plan.pods.ca_secret:
        mounts.append(_mount("ca", CA_FOLDER, read_only=True))
        variables.append({"name": "AWS_CA_BUNDLE", "value": f"{CA_FOLDER}/{CA_KEY}"})
    agent = _ours(plan, AGENT, command, mounts=mounts, resources=plan.pods.agent_resources)
    return {
        **agent, "restartPolicy": "Always", "env": one_each(variables), "envFrom": list(plan.pods.storage_env_from),
    }  # fmt: skip


def _program(plan: GangPlan) -> Manifest:
    options = plan.pods
    wait = math.ceil(plan.spec.limits.start_seconds)
    return {
        "name": PROGRAM,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        # Isolated, and without site: nothing of the user's environment may change what the guard imports.
        "command": ["python3", "-I", "-S", f"{BIN}/guard.py", "--socket", SOCKET, "--in-pod", str(wait)],
        "env": one_each([
            # A user id that is not in the image's /etc/passwd has no home and no name; many libraries ask for both.
            {"name": "HOME", "value": HOME},
            {"name": "USER", "value": "argosy"},
            _node_name(),
            *_way_out(options),
            *options.env,
        ]),
        "envFrom": list(options.env_from),
        "resources": options.resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            _mount("bin", BIN, read_only=True), _mount("work", WORK), _mount("cache", CACHE, read_only=True),
            _mount("home", HOME), _mount("shm", SHM),
            *([_mount("trust", TRUST_FOLDER, read_only=True)] if options.trusted else []),
            *(_mount(mount.name, mount.path, read_only=mount.read_only) for mount in options.mounts),
        ],
    }  # fmt: skip


def _ours(plan: GangPlan, name: str, command: list[str], *, mounts: list[Manifest], resources: Manifest) -> Manifest:
    """A container of the platform image."""
    return {
        "name": name,
        "image": plan.pods.platform_image,
        "imagePullPolicy": plan.pods.image_pull_policy,
        "command": command,
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }  # fmt: skip


def _node_name() -> Manifest:
    """The variable that tells a container the name of its Kubernetes node."""
    return {"name": "ARGOSY_NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}


def _mount(name: str, path: str, *, read_only: bool = False) -> Manifest:
    return {"name": name, "mountPath": path, "readOnly": read_only}


def _volumes(plan: GangPlan) -> list[Manifest]:
    shm: Manifest = {"medium": "Memory"}
    if plan.pods.shm_bytes is not None:
        shm["sizeLimit"] = str(plan.pods.shm_bytes)
    volumes: list[Manifest] = [{"name": name, "emptyDir": {}} for name in ("bin", "work", "cache", "home", "tmp")]
    volumes.append({"name": "shm", "emptyDir": shm})
    # 0440: through fsGroup readable for the agent, which does not run as root.
    volumes.append({"name": "gang", "secret": {"secretName": plan.name, "defaultMode": 0o440}})
    if plan.pods.ca_secret:
        volumes.append({"name": "ca", "secret": {"secretName": plan.pods.ca_secret, "defaultMode": 0o444}})
    if plan.pods.trusted:
        volumes.append(plan.pods.trusted.volume("trust"))
    volumes += [{"name": mount.name, **mount.source} for mount in plan.pods.mounts]
    return volumes


def _way_out(options: PodOptions) -> list[Manifest]:
    """Variables that every container which speaks with the world needs."""
    variables = proxy_variables(options.proxy or {})
    if options.trusted:
        variables += [{"name": name, "value": TRUSTED_PATH} for name in TRUST_VARIABLES]
    return variables


def _node_tolerations(options: PodOptions) -> list[Manifest]:
    return [
        {
            "key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": options.not_ready_toleration_seconds,
        }
        for taint in ("not-ready", "unreachable")
    ]  # fmt: skip


def _spread(plan: GangPlan) -> Manifest:
    """A node each where that is possible; resources decide whether it must be."""
    return {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {GANG_LABEL: plan.name}},
    }  # fmt: skip
