"""Watches one namespace and does what the rules say. Everything it does may be done twice, or by two janitors."""

import threading
import time
from collections.abc import Callable
from typing import Any

from components.cluster.base import Cluster, Object
from components.cluster.gangs import gang_kinds
from components.cluster.kinds import JOB_SETS, JOBS, NODES, PODS, WORKFLOWS, Kind
from components.cluster.live import FIRST_LOOK_SECONDS, LiveObjects
from components.cluster.silent import readiness, silent_nodes
from components.contracts.clock import now_text
from components.contracts.cluster_names import EXPERIMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL, STOP_ANNOTATION
from components.contracts.stop import StopRequest
from components.errors import ArgosyError, EnvironmentUnfit, Transient
from components.runtime.log import Log
from infra.kubernetes.janitor.rules import Action, Limits, Memory, Sight, decide

LOOK_SECONDS = 5.0
_KINDS = {"Pod": PODS, "JobSet": JOB_SETS, "Job": JOBS}


class Janitor:
    """One namespace."""

    def __init__(self, cluster: Cluster, *, limits: Limits, log: Log) -> None:
        self._cluster, self._limits, self._log = cluster, limits, log
        self._memory = Memory()
        ours = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
        self._pods = self._watch(PODS, labels=EXPERIMENT_LABEL, keep=_pod)
        self._workflows = self._watch(WORKFLOWS, keep=_workflow)
        self._nodes = self._watch(NODES, keep=readiness)
        self._gangs = [self._watch(kind, labels=ours, keep=_gang(kind)) for kind in gang_kinds(cluster)]
        self._all = (self._pods, self._workflows, self._nodes, *self._gangs)

    def run(self, stopped: threading.Event) -> None:
        """Until `stopped`.

        Raises EnvironmentUnfit when this account may not watch what it must, Transient when no first look is had.
        """
        for live in self._all:
            if not live.wait_until_listed(FIRST_LOOK_SECONDS):
                raise Transient("NoAnswer", "the API server does not answer", "it is tried again")
        self._log.info("the janitor watches", namespace=self._cluster.namespace)
        while not stopped.wait(LOOK_SECONDS):
            for live in self._all:
                live.require_sight()
            for action in decide(self._sight(), self._memory, limits=self._limits, now=time.monotonic()):
                self._do(action)

    def close(self) -> None:
        """End the watches."""
        for live in self._all:
            live.close()

    def _watch(self, kind: Kind, *, keep: Callable[[Object], Object | None], labels: str = "") -> LiveObjects:
        return LiveObjects(
            self._cluster, kind, on_change=lambda: None, log=self._log, labels=labels, keep=keep, remembers=False
        )

    def _sight(self) -> Sight:
        workflows = self._workflows.living()
        return Sight(
            pods=self._pods.living(),
            gangs=[item for live in self._gangs for item in live.living()],
            workflows={item["metadata"]["name"]: item for item in workflows},
            unready_nodes=silent_nodes(self._nodes.living(), seconds_since_away=self._cluster.seconds_since_away),
        )

    def _do(self, action: Action) -> None:
        self._log.info(f"{action.verb} {action.kind} {action.name}: {action.why}", reason=action.verb)
        try:
            if action.kind == "Workflow":
                self._end_workflow(action)
            else:
                self._delete(action)
        except EnvironmentUnfit:
            raise  # this account may not do what it is there for: say so, by ending
        except ArgosyError as error:
            self._log.warning("that did not work; it is tried again", seen=str(error))

    def _delete(self, action: Action) -> None:
        is_forced = action.verb == "force-delete"
        self._cluster.delete(
            _KINDS[action.kind], action.name, uid=action.uid, grace_seconds=0 if is_forced else None,
            propagation="Background" if action.kind == "Pod" else "Foreground",
        )  # fmt: skip

    def _end_workflow(self, action: Action) -> None:
        """As `stop` does, with the reason in the place of who asked; a second ending keeps the reason of the first."""
        request = StopRequest(by=f"the janitor: {action.why}", at=now_text())
        told = {} if action.verb == "terminate" else {"annotations": {STOP_ANNOTATION: request.to_bytes().decode()}}
        body = {"metadata": {"uid": action.uid, **told}, "spec": {"shutdown": action.verb.capitalize()}}
        self._cluster.patch(WORKFLOWS, action.name, body)


def _pod(pod: Object) -> Object:
    """What the rules read; thousands of pods stay small."""
    return {
        "metadata": _metadata(pod), "spec": {"nodeName": pod.get("spec", {}).get("nodeName", "")},
        "status": {"phase": (pod.get("status") or {}).get("phase")},
    }  # fmt: skip


def _workflow(workflow: Object) -> Object:
    status: dict[str, Any] = workflow.get("status") or {}
    return {
        "metadata": _metadata(workflow), "spec": {"shutdown": (workflow.get("spec") or {}).get("shutdown")},
        "status": {key: status.get(key) for key in ("phase", "finishedAt")},
    }  # fmt: skip


def _gang(kind: Kind) -> Callable[[Object], Object | None]:
    def keep(item: Object) -> Object | None:
        owners = item["metadata"].get("ownerReferences") or ()
        if any(owner.get("kind") == JOB_SETS.kind for owner in owners):
            return None  # a part of a gang; it goes with the whole
        return {"kind": kind.kind, "metadata": _metadata(item)}

    return keep


def _metadata(item: Object) -> Object:
    wanted = ("name", "uid", "labels", "annotations", "deletionTimestamp")
    return {key: item["metadata"][key] for key in wanted if key in item["metadata"]}
