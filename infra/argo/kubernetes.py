"""Argo through the Kubernetes API: Workflows are objects like any other, and need no Argo Server."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.cluster.api import KubernetesCluster
from components.cluster.base import Forbidden, LogStream, NamespaceMissing, WatchStream
from components.cluster.kinds import NAMESPACES, SERVICE_ACCOUNTS, WORKFLOW_TEMPLATES, WORKFLOWS
from components.contracts.cluster_names import STOP_ANNOTATION
from components.contracts.stop import StopRequest
from components.errors import BadInput
from infra.argo.argo import MAIN, Strategy, Workflow


def _accounts(workflow: Workflow) -> set[str]:
    spec = workflow["spec"]
    names = {str(item.get("serviceAccountName") or "") for item in (spec, *(spec.get("templates") or ()))}
    return names - {""}


@dataclass(frozen=True)
class ArgoByKubernetes:
    """`Argo` with the rights of a kubeconfig's user."""

    cluster: KubernetesCluster

    @property
    def target(self) -> str:
        return "kubernetes"

    @property
    def place(self) -> str:
        return f"namespace {self.namespace}, context {self.cluster.context}"

    @property
    def namespace(self) -> str:
        return self.cluster.namespace

    def lint(self, workflow: Workflow) -> None:
        """What the API server and its policies refuse, and what only we can know: whose pods the stages are."""
        self._require_accounts(workflow)
        self.cluster.try_create(WORKFLOWS, workflow)

    def require_namespace(self) -> None:
        """As far as this account may look. Raises NamespaceMissing."""
        try:
            is_missing = self.cluster.read(NAMESPACES, self.namespace) is None
        except Forbidden:
            return
        if is_missing:
            fix = f"create it (`kubectl create namespace {self.namespace}`) or choose another"
            raise NamespaceMissing("NamespaceMissing", f"there is no namespace {self.namespace}", fix)

    def _require_accounts(self, workflow: Workflow) -> None:
        try:
            missing = [
                name for name in sorted(_accounts(workflow)) if self.cluster.read(SERVICE_ACCOUNTS, name) is None
            ]
        except Forbidden:
            return  # whoever may not look submits all the same
        if missing:
            self.require_namespace()
            raise BadInput(
                "NoServiceAccount", f"namespace {self.namespace} has no service account {' and no '.join(missing)}",
                "install infra/kubernetes there, or set service_account in the description",
            )  # fmt: skip

    def create(self, workflow: Workflow) -> Workflow:
        return self.cluster.create(WORKFLOWS, workflow)

    def read(self, name: str) -> Workflow | None:
        return self.cluster.read(WORKFLOWS, name)

    def list(self, *, labels: str) -> Sequence[Workflow]:
        return self.cluster.list(WORKFLOWS, labels=labels).items

    def template(self, name: str) -> Workflow | None:
        return self.cluster.read(WORKFLOW_TEMPLATES, name)

    def watch(self, name: str, *, resource_version: str) -> WatchStream:
        return self.cluster.watch(WORKFLOWS, fields=f"metadata.name={name}", resource_version=resource_version)

    def end(self, name: str, *, strategy: Strategy, request: StopRequest) -> bool:
        change = {
            "metadata": {"annotations": {STOP_ANNOTATION: request.to_bytes().decode()}},
            "spec": {"shutdown": strategy},
        }
        return self.cluster.patch(WORKFLOWS, name, change) is not None

    def logs(self, workflow: str, pod: str, *, follow: bool) -> LogStream | None:
        return self.cluster.logs(pod, MAIN, follow=follow)
