"""What is watched of a gang's queue: Workloads by events, queue and quota now and then while it waits."""

import time
from collections.abc import Callable

from components.cluster.base import Cluster, Forbidden, NotServed, Object
from components.cluster.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, Kind
from components.cluster.live import LiveObjects
from components.contracts.pods import QueueRule
from components.errors import Transient
from components.launch.queue import QueueStanding, Sight, queue_standing
from components.runtime.log import Log

_REFRESH_SECONDS = 10.0
_EVERYBODY_SECONDS = 60.0
"""Every Workload of the cluster is a long answer, and only for people to read."""
_SILENT_SECONDS = 60.0
"""Kueue makes a Workload within a second."""
_ALL_WORKLOADS = Kind(WORKLOADS.api_version, WORKLOADS.plural, WORKLOADS.kind, is_namespaced=False)


class QueueWatch:
    """Watches from its making until `close`."""

    def __init__(self, cluster: Cluster, rule: QueueRule, *, nudge: Callable[[], None], log: Log) -> None:
        self._cluster, self._rule = cluster, rule
        self._workloads = LiveObjects(cluster, WORKLOADS, on_change=nudge, log=log, remembers=False)
        self._began = time.monotonic()
        self._read_at: dict[str, float] = {}
        self._found: dict[str, object] = {}
        self._refused: set[str] = set()

    def queue_standing(self, gang: Object | None, *, since: str, was_admitted: bool) -> QueueStanding:
        """How the gang whose object that is stands now. Never waits but for a queue that is read while it waits."""
        waited = time.monotonic() - self._began
        sight = Sight(
            gang, self._workloads.living(), waited_seconds=waited,
            is_kueue_silent=waited > _SILENT_SECONDS and not self._workloads.is_refused,
        )  # fmt: skip
        found = queue_standing(sight, name=self._rule.name, since=since, was_admitted=was_admitted)
        if found.view is None:
            return found
        local = self._read("local", LOCAL_QUEUES, self._rule.name)
        quota = self._read("cluster", CLUSTER_QUEUES, str(((local or {}).get("spec") or {}).get("clusterQueue", "")))
        sight = Sight(
            gang, sight.workloads, local, quota, self._everybody(), waited, sight.is_kueue_silent,
        )  # fmt: skip
        return queue_standing(sight, name=self._rule.name, since=since, was_admitted=was_admitted)

    def close(self) -> None:
        self._workloads.close()

    def _read(self, what: str, kind: Kind, name: str) -> Object | None:
        self._refresh(what, _REFRESH_SECONDS, lambda: self._cluster.read(kind, name) if name else None)
        found = self._found.get(what)
        return found if isinstance(found, dict) else None

    def _everybody(self) -> list[Object] | None:
        """Refused to most: who else is in the queue is an administrator's to allow."""
        self._refresh("everybody", _EVERYBODY_SECONDS, lambda: list(self._cluster.list(_ALL_WORKLOADS).items))
        found = self._found.get("everybody")
        return found if isinstance(found, list) else None

    def _refresh(self, what: str, seconds: float, ask: Callable[[], object]) -> None:
        now = time.monotonic()
        if what in self._refused or now - self._read_at.get(what, float("-inf")) < seconds:
            return
        self._read_at[what] = now
        try:
            self._found[what] = ask()
        except (Forbidden, NotServed):
            self._refused.add(what)
        except Transient:
            pass  # what was seen last is shown, and asked for again
