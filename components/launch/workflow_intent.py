"""What the Workflow says about a SIGTERM that its launch stage got: told to stop, deleted, out of time, or nothing."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from components.cluster.base import Cluster
from components.cluster.kinds import WORKFLOWS
from components.contracts.cluster_names import STOP_ANNOTATION
from components.errors import ArgosyError
from components.launch.failure_policy import StopCause
from components.launch.pod_template import WorkflowReference
from components.runtime.log import Log

_SLACK_SECONDS = 5.0
"""The controller notices a deadline a little late, and another machine's clock is another clock."""


def find_workflow(cluster: Cluster, name: str) -> WorkflowReference | None:
    """The Workflow this stage belongs to; None without one, as when it was started by hand."""
    found = cluster.read(WORKFLOWS, name) if name else None
    return None if found is None else WorkflowReference(name, str(found["metadata"]["uid"]))


def ask_workflow(cluster: Cluster, reference: WorkflowReference, log: Log) -> Callable[[], StopCause | None]:
    """A question to ask once, when the SIGTERM came. None: it says nothing, or cannot be read."""

    def ask() -> StopCause | None:
        try:
            found = cluster.read(WORKFLOWS, reference.name)
        except ArgosyError as error:
            log.warning("cannot read the Workflow: the gang is left alone", seen=str(error))
            return None
        return cause_of(found, uid=reference.uid, now=datetime.now(UTC))

    return ask


def cause_of(workflow: Mapping[str, Any] | None, *, uid: str, now: datetime) -> StopCause | None:
    """Why its stages are told to go. Argo sends the same SIGTERM for a stop, a deadline and a lost pod."""
    if workflow is None or workflow["metadata"].get("uid") != uid:
        return StopCause.REQUESTED  # deleted; another may have its name by now
    metadata, spec = workflow["metadata"], workflow.get("spec") or {}
    is_asked = spec.get("shutdown") or STOP_ANNOTATION in (metadata.get("annotations") or {})
    if metadata.get("deletionTimestamp") or is_asked:
        return StopCause.REQUESTED
    started_at, seconds = (workflow.get("status") or {}).get("startedAt"), spec.get("activeDeadlineSeconds")
    if started_at and seconds:
        ran = (now - datetime.fromisoformat(started_at)).total_seconds()
        if ran >= float(seconds) - _SLACK_SECONDS:
            return StopCause.DEADLINE
    return None
