"""What was observed of one run, as one document: the evidence that `why` judges, saves, and reads back.

Written by the command line, from the cluster or for a local run; read by `explain` and by `why --evidence`. It holds
what `scrub` lets through and nothing else.
"""

from typing import Any, Literal

from components.contracts.clock import UtcText
from components.contracts.document import Document
from components.contracts.run_view import RunView

Objects = tuple[dict[str, Any], ...]


class Observed(Document):
    """One run and the cluster's objects around it, at one moment."""

    kind: Literal["evidence"] = "evidence"
    version: Literal[1] = 1
    run: str
    namespace: str = ""
    taken_at: UtcText
    """The cluster's clock as well as ours: causes that need an age compare with this."""
    view: RunView
    workflows: Objects = ()
    """Newest last."""
    pods: Objects = ()
    jobs: Objects = ()
    jobsets: Objects = ()
    queued: Objects = ()
    """Kueue's Workloads."""
    queues: Objects = ()
    """Kueue's LocalQueues."""
    events: Objects = ()
    """Those about the run's own objects."""
    nodes: Objects | None = None
    """None: this account may not list them."""
    withheld: dict[str, str] = {}
    """What could not be read, and why."""

    @property
    def is_of_cluster(self) -> bool:
        """Whether a cluster was asked."""
        return bool(self.namespace)
