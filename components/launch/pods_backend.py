"""Runs a gang as pods of a Kubernetes cluster: a JobSet, or an Indexed Job with a headless Service.

The gang does not need its launcher: it trains on without, and the next one adopts it by run and generation. What is
seen of it comes from watches; nothing is listed again and again.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.cluster.base import AlreadyThere, Cluster, Object
from components.cluster.gangs import SETTLE_SECONDS, pods_left
from components.cluster.kinds import DEPLOYMENTS, JOB_SETS, JOBS, SECRETS, SERVICES, Kind
from components.cluster.named import missing_objects, named_objects
from components.contracts.cluster_names import GANG_LABEL, JANITOR_NAME, RUN_LABEL
from components.contracts.gang import AgentProcess, GangSpec
from components.contracts.names import gang_name
from components.contracts.pods import LostNodeRule, PodOptions, QueueRule
from components.errors import ArgosyError, BadInput, EnvironmentUnfit, Transient
from components.launch.backend import AgentStatus, MeetingPoint
from components.launch.gang_objects import (
    GangKind,
    coordinator,
    job_object,
    jobset_object,
    name_problems,
    secret_object,
    secret_problems,
    service_object,
)  # fmt: skip
from components.launch.gang_watch import GangWatch
from components.launch.pod_template import GRACE_MARGIN_SECONDS, GangPlan, WorkflowReference, pod_template
from components.launch.pods import agent_statuses
from components.launch.queue import QueueStanding
from components.launch.queue_checks import require_queue
from components.launch.queue_watch import QueueWatch
from components.launch.storage_variables import handed_on
from components.launch.strangers import require_free_names
from components.launch.wakeup import Wakeup
from components.runtime.log import Log

_KINDS: Mapping[GangKind, Kind] = {"jobset": JOB_SETS, "job": JOBS}


@dataclass
class _Current:
    """The generation at work."""

    plan: GangPlan
    watch: GangWatch
    queue: QueueWatch | None = None
    removed_at: float | None = None
    """Monotonic seconds of our wish that it ends."""


class PodsBackend:
    """A gang of pods."""

    replaces_nodes = True
    survives_launcher = True
    poll_seconds = 2.0

    def __init__(
        self, cluster: Cluster, kind: GangKind, *, run: str, num_nodes: int, options: PodOptions,
        workflow: WorkflowReference | None, environ: Mapping[str, str], wakeup: Wakeup, log: Log,
    ) -> None:  # fmt: skip
        """Raises BadInput for what no cluster would run, EnvironmentUnfit when lost nodes have no janitor."""
        self.name: str = kind
        self.lost_node: LostNodeRule | None = options.lost_node
        self.queue: QueueRule | None = options.queue
        self._cluster, self._kind, self._run, self._num_nodes = cluster, kind, run, num_nodes
        self._options, self._workflow, self._environ = options, workflow, environ
        self._wakeup, self._log = wakeup, log
        self._current: _Current | None = None
        self._require_images()
        self._require_objects()
        self._require_janitor()

    # --- the protocol

    def remove_earlier(self, agents: tuple[AgentProcess, ...]) -> None:
        """Of all generations but the adopted one."""
        keep = self._current.plan.name if self._current else ""
        kinds = (JOB_SETS, JOBS) if self._kind == "jobset" else (JOBS,)
        found = {
            item["metadata"]["labels"].get(GANG_LABEL, "")
            for kind in kinds
            for item in self._cluster.list(kind, labels=f"{RUN_LABEL}={self._run}").items
        }
        earlier = found - {keep, ""}
        for name in sorted(earlier):
            self._log.info(f"removing {name}, which an earlier launcher left")
            for kind in kinds:
                self._cluster.delete(kind, name, propagation="Foreground")
            self._delete(name)
        # Old and new ranks shall not run side by side; terms keep them apart where that cannot be had.
        left = pods_left(
            self._cluster, self._run, earlier, log=self._log, on_change=self._wakeup.nudge, wait=self._wakeup.wait
        )
        for pod in left:
            self._log.warning(f"pod {pod['metadata']['name']} of an earlier generation is still there; it is fenced by "
                              "its term", node=pod["spec"].get("nodeName", ""))  # fmt: skip

    def meeting_point(self, generation: int) -> MeetingPoint:
        gang = gang_name(self._run, generation)
        return coordinator(self._kind, gang=gang, host_network=self._options.host_network)

    def adopt(self, spec: GangSpec) -> bool:
        plan = self._plan(spec)
        found = self._cluster.read(_KINDS[self._kind], plan.name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        self._follow(plan)
        return True

    def start(self, spec: GangSpec, *, excluded_nodes: tuple[str, ...] = ()) -> tuple[AgentProcess, ...]:
        variables = handed_on(self._environ)
        plan = replace(self._plan(spec), excluded_nodes=excluded_nodes, agent_variables=tuple(sorted(variables)))
        problems = name_problems(self._kind, run=self._run, generation=spec.generation, num_nodes=self._num_nodes)
        problems += secret_problems(plan)
        if problems:
            raise BadInput("GangRefused", "the gang cannot be created", problems=problems)
        if self.queue is not None:
            pod = pod_template(plan)["spec"]
            is_first = spec.generation == 0
            require_queue(
                self._cluster, self.queue, pod, num_nodes=self._num_nodes, is_first=is_first, log=self._log
            )  # fmt: skip
        # Before anything of this generation is ours: what is removed after a failure goes by name.
        require_free_names(self._cluster, (_KINDS[self._kind], SECRETS, SERVICES), plan.name)
        self._follow(plan)
        made: list[tuple[Kind, str]] = []
        try:
            secret = secret_object(plan, secret=secrets.token_hex(32), variables=variables)
            made.append((SECRETS, self._create(SECRETS, secret)))
            if self._kind == "job":
                made.append((SERVICES, self._create(SERVICES, service_object(plan))))
            owner = self._create_gang(plan)
        except Transient:
            raise  # whether it exists nobody knows: the next attempt adopts or removes it
        except ArgosyError:
            self._delete(plan.name)
            raise
        for kind, name in made:  # so that they go with the gang, also by its time to live
            self._cluster.patch(kind, name, {"metadata": {"ownerReferences": [owner]}})
        return ()

    def observe(self) -> tuple[AgentStatus, ...]:
        assert self._current is not None
        is_removed = self._current.removed_at is not None
        return agent_statuses(self._current.watch.view(num_nodes=self._num_nodes, is_removed=is_removed))

    def queue_standing(self, *, since: str, was_admitted: bool) -> QueueStanding | None:
        current = self._current
        if current is None or current.queue is None:
            return None
        return current.queue.queue_standing(current.watch.gang(), since=since, was_admitted=was_admitted)

    def stop(self) -> None:
        """Delete the gang: every guard gets SIGTERM and tells its agent, and the grace period covers the rest."""
        self._ask_for_its_end()

    def remove(self) -> None:
        """Also returns when only pods on machines that do not answer are left: nobody here can end those."""
        current = self._current
        if current is None:
            return
        self._ask_for_its_end()
        grace = current.plan.spec.limits.stop_seconds + GRACE_MARGIN_SECONDS + SETTLE_SECONDS
        deadline = (current.removed_at or time.monotonic()) + grace
        while living := current.watch.living_pods():
            if time.monotonic() >= deadline:
                self._log.warning("pods of the gang are still there; the janitor or their nodes end them",
                                  pods=sorted(living))  # fmt: skip
                break
            self._wakeup.wait(1.0)

    def close(self) -> None:
        """End the watches; the gang is left as it is."""
        if self._current is not None:
            self._current.watch.close()
            if self._current.queue is not None:
                self._current.queue.close()

    # --- creating

    def _plan(self, spec: GangSpec) -> GangPlan:
        return GangPlan(
            spec=spec, pods=self._options, namespace=self._cluster.namespace, workflow=self._workflow
        )  # fmt: skip

    def _create_gang(self, plan: GangPlan) -> Object:
        """Create it; an ownerReference to it."""
        kind = _KINDS[self._kind]
        body = jobset_object(plan) if self._kind == "jobset" else job_object(plan)
        made = self._cluster.create(kind, body)
        return {
            "apiVersion": kind.api_version, "kind": kind.kind, "name": plan.name, "uid": made["metadata"]["uid"],
            "controller": False, "blockOwnerDeletion": False,
        }  # fmt: skip

    def _create(self, kind: Kind, body: Object) -> str:
        """Create it, in place of what an earlier launcher may have left half-made."""
        name = str(body["metadata"]["name"])
        try:
            self._cluster.create(kind, body)
        except AlreadyThere:
            self._cluster.delete(kind, name)
            self._cluster.create(kind, body)
        return name

    def _ask_for_its_end(self) -> None:
        current = self._current
        if current is not None and current.removed_at is None:
            self._delete(current.plan.name)
            current.removed_at = time.monotonic()

    def _delete(self, name: str) -> None:
        """Foreground: the gang's object stays until its pods are gone, so whoever looks sees that it is ending."""
        self._cluster.delete(_KINDS[self._kind], name, propagation="Foreground")
        for kind in (SECRETS, *((SERVICES,) if self._kind == "job" else ())):
            self._cluster.delete(kind, name)

    # --- looking

    def _follow(self, plan: GangPlan) -> None:
        self.close()
        watch = GangWatch(
            self._cluster, _KINDS[self._kind], plan.name, nudge=self._wakeup.nudge, log=self._log
        )  # fmt: skip
        queue = None
        if self.queue is not None:
            queue = QueueWatch(self._cluster, self.queue, nudge=self._wakeup.nudge, log=self._log)
        self._current = _Current(plan, watch, queue)

    # --- what must be there

    def _require_images(self) -> None:
        lacking = [name for name in ("image", "platform_image") if not getattr(self._options, name)]
        if lacking:
            raise BadInput("NoImage", f"worker pods need {' and '.join(lacking)}",
                           "set them in the run description, or as parameters of the Workflow")  # fmt: skip

    def _require_objects(self) -> None:
        problems = missing_objects(self._cluster, list(named_objects(self._options)))
        if problems:
            where = f"namespace {self._cluster.namespace}"
            raise BadInput("MissingObjects", f"the description names what {where} does not have", problems=problems)

    def _require_janitor(self) -> None:
        if self._options.lost_node.policy != "force_after":
            return
        try:
            found = self._cluster.read(DEPLOYMENTS, JANITOR_NAME)
        except EnvironmentUnfit as error:
            self._log.warning("cannot see whether there is a janitor", seen=str(error))
            return
        if not found or not (found.get("status") or {}).get("availableReplicas"):
            raise EnvironmentUnfit(
                "NoJanitor",
                f"lost_node is force_after, but Deployment {JANITOR_NAME} in namespace {self._cluster.namespace} "
                + ("has no pod that is ready" if found else "does not exist"),
                "install infra/kubernetes/janitor there, or submit anew with `lost_node: {policy: wait}` or fail",
            )  # fmt: skip


def gang_kind(cluster: Cluster, wanted: str) -> GangKind | None:
    """What this cluster can run: what was asked for, or with `auto` the first it serves. None when it cannot."""
    if wanted == "job":
        return "job"
    if cluster.serves(JOB_SETS):
        return "jobset"
    return "job" if wanted == "auto" and cluster.serves(JOBS) else None
