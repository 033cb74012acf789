"""The kinds of objects Argosy touches, as the API names them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of object: where it is served and what it is called."""

    api_version: str
    """`v1`, or `group/version`."""
    plural: str
    """As in the path: `pods`."""
    kind: str
    """As in a manifest: `Pod`."""
    is_namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; empty for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """What permissions call it: `workflows.argoproj.io`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def root(self) -> str:
        """Path of the API that serves it."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(self, namespace: str, name: str = "") -> str:
        """Path of the collection, or of one object."""
        place = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"{self.root()}{place}/{self.plural}" + (f"/{name}" if name else "")


PODS = Kind("v1", "pods", "Pod")
SERVICES = Kind("v1", "services", "Service")
SECRETS = Kind("v1", "secrets", "Secret")
CONFIG_MAPS = Kind("v1", "configmaps", "ConfigMap")
EVENTS = Kind("v1", "events", "Event")
NODES = Kind("v1", "nodes", "Node", is_namespaced=False)
NAMESPACES = Kind("v1", "namespaces", "Namespace", is_namespaced=False)
SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts", "ServiceAccount")
PERSISTENT_VOLUME_CLAIMS = Kind("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PRIORITY_CLASSES = Kind("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", is_namespaced=False)
RUNTIME_CLASSES = Kind("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", is_namespaced=False)
LEASES = Kind("coordination.k8s.io/v1", "leases", "Lease")
DEPLOYMENTS = Kind("apps/v1", "deployments", "Deployment")
JOBS = Kind("batch/v1", "jobs", "Job")
JOB_SETS = Kind("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet")
WORKFLOWS = Kind("argoproj.io/v1alpha1", "workflows", "Workflow")
WORKLOADS = Kind("kueue.x-k8s.io/v1beta2", "workloads", "Workload")
"""What Kueue makes of a gang that is to wait in a queue."""
LOCAL_QUEUES = Kind("kueue.x-k8s.io/v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES = Kind("kueue.x-k8s.io/v1beta2", "clusterqueues", "ClusterQueue", is_namespaced=False)
WORKLOAD_PRIORITIES = Kind(
    "kueue.x-k8s.io/v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", is_namespaced=False
)
WORKFLOW_TEMPLATES = Kind("argoproj.io/v1alpha1", "workflowtemplates", "WorkflowTemplate")
CRON_WORKFLOWS = Kind("argoproj.io/v1alpha1", "cronworkflows", "CronWorkflow")
WORKFLOW_EVENT_BINDINGS = Kind("argoproj.io/v1alpha1", "workfloweventbindings", "WorkflowEventBinding")
ROLES = Kind("rbac.authorization.k8s.io/v1", "roles", "Role")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
