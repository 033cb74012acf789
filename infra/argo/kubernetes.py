"""Argo through the Kubernetes API: Workflows are objects like any other, and need no Argo Server."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.cluster.api import KubernetesCluster
from components.cluster.base import LogStream, WatchStream
from components.cluster.kinds import WORKFLOW_TEMPLATES, WORKFLOWS
from components.contracts.stop import StopRequest
from infra.argo.argo import MAIN, STOP_ANNOTATION, Strategy, Workflow


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
        """Nothing: the API server checks the Workflow's shape when it is created, and our own lint knows the rest."""

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
