"""Argo as the command line needs it, behind one protocol: Workflows in one namespace, as plain JSON."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from components.cluster.base import LogStream, WatchStream
from components.contracts.stop import StopRequest

Workflow = dict[str, Any]
"""A Workflow as its JSON says."""

Strategy = Literal["Stop", "Terminate"]
"""How a Workflow is ended: with its exit handler, or at once and without it."""

MAIN = "main"
"""The container of a pod that runs the stage."""


class Argo(Protocol):
    """Where Workflows are submitted to. Errors are those of `components.cluster.base`."""

    @property
    def target(self) -> str:
        """`kubernetes` or `argo-server`."""

    @property
    def place(self) -> str:
        """For people: `namespace ml, context dev`."""

    @property
    def namespace(self) -> str: ...

    def lint(self, workflow: Workflow) -> None:
        """Have the place itself look at the Workflow, where it can. Raises Refused."""

    def require_namespace(self) -> None:
        """Raises NamespaceMissing where the place can tell."""

    def create(self, workflow: Workflow) -> Workflow:
        """Submit. Raises AlreadyThere."""

    def read(self, name: str) -> Workflow | None: ...

    def list(self, *, labels: str) -> Sequence[Workflow]: ...

    def template(self, name: str) -> Workflow | None:
        """The WorkflowTemplate of that name."""

    def watch(self, name: str, *, resource_version: str) -> WatchStream:
        """What happens to one Workflow."""

    def end(self, name: str, *, strategy: Strategy, request: StopRequest) -> bool:
        """Ask for its end; False when there is no such Workflow."""

    def logs(self, workflow: str, pod: str, *, follow: bool) -> LogStream | None:
        """Output of a stage's container; None when there is none (yet, or any more)."""
