"""How a gang's pods are made: what a run description says about them, as the launch stage reads it."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from components.contracts.document import Document

CA_FOLDER, CA_KEY = "/argosy/ca", "ca.crt"
"""Where pods find the Secret that names the storage's certificate authority, and its key."""

TRUST_FOLDER = "/argosy/trust"
_TRUSTED_FILE = "ca.crt"
TRUSTED_PATH = f"{TRUST_FOLDER}/{_TRUSTED_FILE}"
"""Where they find the certificates to trust instead of those in their images."""
TRUST_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE")
"""What OpenSSL with Python, requests, curl and botocore read the file of trusted certificates from."""

_NEVER_BY_PROXY = ("localhost", "127.0.0.1", "$(KUBERNETES_SERVICE_HOST)", ".svc", ".cluster.local")
"""The cluster's own addresses. Kubernetes puts in that of its API server."""


class LostNodeRule(Document):
    """What becomes of a gang whose node no longer answers: only the node itself could say that its pods are gone."""

    policy: Literal["wait", "force_after", "fail"] = "force_after"
    """wait: for the node, or for somebody to delete it. force_after: the janitor deletes its pods, and a new generation
    begins elsewhere; a node that comes back is fenced by its term. fail: the run ends."""
    after_seconds: NonNegativeFloat = 120.0
    """From the node's last sign of life, with force_after and fail."""


class Mount(Document):
    """A volume and where the program finds it."""

    name: str
    path: str
    source: dict[str, Any]
    """A Kubernetes volume source, for example {"persistentVolumeClaim": {"claimName": "corpus"}}; never hostPath."""
    read_only: bool = False


class QueueRule(Document):
    """The queue of Kueue in which a gang waits, suspended and without pods, until all of it is admitted."""

    name: str
    """Of the LocalQueue in the gang's namespace."""
    priority: str | None = None
    """Name of a WorkloadPriorityClass. None: the priority of the pods' own PriorityClass."""
    limit_seconds: PositiveFloat
    """Longest wait of a generation; those after preemptions share one such wait."""


class TrustedAuthorities(Document):
    """Certificates to trust instead of those in the images: one PEM file, a key of a ConfigMap."""

    config_map: str
    key: str

    def volume(self, name: str) -> dict[str, Any]:
        """A pod's volume to be mounted at TRUST_FOLDER."""
        items = [{"key": self.key, "path": _TRUSTED_FILE}]
        return {"name": name, "configMap": {"name": self.config_map, "items": items}}


class PodOptions(Document):
    """Everything about worker pods that is not the gang's own. Kubernetes objects are spelled as in a manifest."""

    image: str = ""
    """Of the ranks; python3 >= 3.8 is all it must hold. The launch stage's `--input image=` comes first."""
    platform_image: str = ""
    """Of the agent. The launch stage's `--input platform_image=` comes first."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    """Of the worker pods, whose token no container gets. Empty: the namespace's default."""
    resources: dict[str, dict[str, str]] = {}
    """Of the program's container: {"requests": {...}, "limits": {...}}."""
    agent_resources: dict[str, dict[str, str]] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    shm_bytes: NonNegativeInt | None = None
    """Size of /dev/shm; counts as the program's memory. None: half of the container's memory limit, if it has one."""
    env_from: tuple[dict[str, Any], ...] = ()
    """`envFrom` of the program's container."""
    env: tuple[dict[str, Any], ...] = ()
    """`env` of the program's container: variables from secrets and fields."""
    storage_env_from: tuple[dict[str, Any], ...] = ()
    """`envFrom` of the agent: the storage's credentials. What the launcher itself was given is handed on anyway."""
    ca_secret: str = ""
    """Secret whose `ca.crt` the agent trusts when it speaks with the storage."""
    trusted: TrustedAuthorities | None = None
    """What agent and program trust; for the storage `ca_secret` comes first."""
    proxy: dict[str, str] | None = None
    """Variables that name the way out of the cluster, for agent and program."""
    patch: dict[str, Any] | None = None
    """Laid over the pod's spec; `components.contracts.pod_patch` says what it may hold."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    annotations: dict[str, str] = {}
    """Of the worker pods."""
    labels: dict[str, str] = {}
    """Of the worker pods."""
    priority_class: str = ""
    scheduler_name: str = ""
    runtime_class: str = ""
    host_network: bool = False
    mounts: tuple[Mount, ...] = ()
    run_as_user: PositiveInt = 65532
    """Of every container: agent and program share files. Pod Security `restricted` asks for one that is not root."""
    queue: QueueRule | None = None
    """None: the gang is created without asking any queue."""
    lost_node: LostNodeRule = LostNodeRule()
    not_ready_toleration_seconds: NonNegativeInt = 30
    """How long pods stay bound to a node that does not answer before Kubernetes asks for their end."""
    ttl_seconds: NonNegativeInt = 86400
    """How long a gang that has ended stays visible when nobody removes it."""


def proxy_variables(proxy: Mapping[str, str]) -> list[dict[str, Any]]:
    """`env` of a container for `proxy` (http, https, no_proxy), in both spellings that programs know."""
    if not proxy:
        return []
    direct = [*_NEVER_BY_PROXY, *filter(None, [proxy.get("no_proxy", "")])]
    values = {"HTTP_PROXY": proxy.get("http", ""), "HTTPS_PROXY": proxy.get("https", ""), "NO_PROXY": ",".join(direct)}
    return [
        {"name": spelling, "value": value}
        for name, value in values.items()
        if value
        for spelling in (name, name.lower())
    ]
