"""How every stage's pod is fenced in and what it is told about itself: the same for all stages, so it is said once.

It stands in the Workflow's `podSpecPatch`, because nothing else reaches the containers that Argo adds (init and wait):
without it Pod Security `restricted` and a ResourceQuota refuse the pod. The local engine has no pods.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hera.workflows import models as m

from components.contracts.pods import (
    CA_FOLDER,
    CA_KEY,
    TRUST_FOLDER,
    TRUST_VARIABLES,
    TRUSTED_PATH,
    TrustedAuthorities,
    proxy_variables,
)
from templates.labels import PLATFORM_IMAGE, workflow_parameter

Json = dict[str, Any]

STAGE_SERVICE_ACCOUNT, LAUNCHER_SERVICE_ACCOUNT = "argosy-stage", "argosy-launcher"
"""The stages' own, which may only report to Argo, and that of launch and finish, which handle the gang's objects."""

USER_ID = 65532
"""Not root, and not in any image's /etc/passwd."""

OUTPUT_FOLDER, SCRATCH_FOLDER = "/argosy/out", "/tmp"
TOKEN_FOLDER, NO_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount", "no-token"

LEAST_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
"""Of stages that watch and write a little: launch and finish."""

ARGO_REQUESTS = {"cpu": "10m", "memory": "64Mi"}
"""Of the containers Argo adds; a ResourceQuota wants every container to name some."""

_RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": False, "AWS_SECRET_ACCESS_KEY": False, "AWS_SESSION_TOKEN": True}
"""Keys of the credentials' Secret, which are also the variables -> whether it may lack them."""


def pod_security() -> m.PodSecurityContext:
    """What Pod Security `restricted` asks of a pod."""
    return m.PodSecurityContext(
        run_as_non_root=True, run_as_user=USER_ID, run_as_group=USER_ID, fs_group=USER_ID,
        seccomp_profile=m.SeccompProfile(type="RuntimeDefault"),
    )  # fmt: skip


def stage_pod_patch(
    *, credentials_secret: str | None = None, ca_secret: str | None = None, proxy: Mapping[str, str] = {},
    trusted: TrustedAuthorities | None = None,
) -> str:  # fmt: skip
    """The Workflow's `podSpecPatch`: all three containers restricted, folders a stage may write to, variables."""
    folders = {"out": OUTPUT_FOLDER, "scratch": SCRATCH_FOLDER}
    main: Json = {
        "name": "main",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": _RESTRICTED,
        "env": [*_variables(credentials_secret, _certificates(ca_secret, trusted)), *proxy_variables(proxy)],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
    }
    volumes: list[Json] = [{"name": name, "emptyDir": {}} for name in folders]
    if ca_secret:
        main["volumeMounts"].append({"name": "ca", "mountPath": CA_FOLDER, "readOnly": True})
        volumes.append({"name": "ca", "secret": {"secretName": ca_secret}})
    if trusted:
        main["volumeMounts"].append({"name": "trust", "mountPath": TRUST_FOLDER, "readOnly": True})
        volumes.append(trusted.volume("trust"))
    argos: Json = {"securityContext": _RESTRICTED, "resources": {"requests": ARGO_REQUESTS}}
    patch = {
        "enableServiceLinks": False,
        "initContainers": [{"name": "init", **argos}],
        "containers": [main, {"name": "wait", **argos}],
        "volumes": volumes,
    }
    # Not `canonical_json`, which would take the tag for text: there is nothing of the user's in here but names.
    return json.dumps(patch, sort_keys=True, separators=(",", ":"))


def hidden_token() -> m.Volume:
    """An empty folder, to be mounted where the service account's token would be: a stage without business with the
    API server gets none. (Without `automountServiceAccountToken` Argo's own containers would have none either.)
    """
    return m.Volume(name=NO_TOKEN, empty_dir=m.EmptyDirVolumeSource())


def token_mount() -> m.VolumeMount:
    """Where `hidden_token` goes."""
    return m.VolumeMount(name=NO_TOKEN, mount_path=TOKEN_FOLDER)


def _certificates(ca_secret: str | None, trusted: TrustedAuthorities | None) -> Mapping[str, str]:
    """Variables that say which certificates to trust."""
    everywhere = dict.fromkeys(TRUST_VARIABLES, TRUSTED_PATH) if trusted else {}
    return {**everywhere, **({"AWS_CA_BUNDLE": f"{CA_FOLDER}/{CA_KEY}"} if ca_secret else {})}


def _variables(credentials_secret: str | None, certificates: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    values = {
        "ARGOSY_TARGET": "kubernetes",
        "ARGOSY_OUT": OUTPUT_FOLDER,
        "ARGOSY_IMAGE": workflow_parameter(PLATFORM_IMAGE),
        "HOME": SCRATCH_FOLDER,
        **certificates,
    }
    fields = {
        "ARGOSY_NODE": "spec.nodeName",
        "ARGOSY_NAMESPACE": "metadata.namespace",
        "ARGOSY_POD": "metadata.name",
    }
    variables: list[Json] = [{"name": name, "value": value} for name, value in values.items()]
    variables += [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    for key, may_lack in _CREDENTIALS.items() if credentials_secret else ():
        reference = {"name": credentials_secret, "key": key, **({"optional": True} if may_lack else {})}
        variables.append({"name": key, "valueFrom": {"secretKeyRef": reference}})
    return variables
