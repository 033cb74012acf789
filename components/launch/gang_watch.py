"""Everything the launcher watches of one generation: its gang object, pods, warnings, and the nodes if it may."""

from collections.abc import Callable, Mapping

from components.cluster.base import Cluster, Object
from components.cluster.events import VAGUE_MESSAGES
from components.cluster.kinds import EVENTS, NODES, PODS, Kind
from components.cluster.live import FIRST_LOOK_SECONDS, LiveObjects
from components.cluster.silent import readiness, silent_nodes
from components.contracts.cluster_names import GANG_LABEL
from components.errors import Transient
from components.launch.pods import MAX_TEXT, GangView, SeenPod
from components.runtime.log import Log


class GangWatch:
    """Watches from its making until `close`."""

    def __init__(self, cluster: Cluster, kind: Kind, gang: str, *, nudge: Callable[[], None], log: Log) -> None:
        """Raises Transient when the first look takes too long, and what else keeps it from being taken."""
        self._cluster = cluster
        labels = f"{GANG_LABEL}={gang}"
        self._gang = LiveObjects(cluster, kind, on_change=nudge, log=log, labels=labels)
        self._pods = LiveObjects(cluster, PODS, on_change=nudge, log=log, labels=labels)
        # Nobody is woken by these: they explain what other objects show.
        self._warnings = LiveObjects(
            cluster, EVENTS, on_change=lambda: None, log=log, fields="type=Warning", keep=_warning_about(gang),
            remembers=False,
        )  # fmt: skip
        self._nodes = LiveObjects(cluster, NODES, on_change=nudge, log=log, keep=readiness)
        for live in (self._gang, self._pods):
            if not live.wait_until_listed(FIRST_LOOK_SECONDS):
                self.close()
                raise Transient("NoAnswer", "the API server does not list the gang's objects", "the next attempt does")

    def view(self, *, num_nodes: int, is_removed: bool) -> GangView:
        """What is known now. Raises Forbidden when this account may not look."""
        for live in (self._gang, self._pods):
            live.require_sight()
        living, gone = self._pods.snapshot()
        gangs, gone_gangs = self._gang.snapshot()
        pods = [*(SeenPod(item) for item in living.values()), *(SeenPod(item, is_gone=True) for item in gone.values())]
        is_over = any(_has_ended(item) for item in gangs.values()) or (bool(gone_gangs) and not gangs)
        return GangView(
            num_nodes=num_nodes, pods=pods, unready_nodes=self._unready_nodes(), is_over=is_over,
            is_removed=is_removed, warnings=self._complaints(),
        )  # fmt: skip

    def gang(self) -> Object | None:
        """The gang's own object, while it is there."""
        return next(iter(self._gang.living()), None)

    def living_pods(self) -> set[str]:
        """Names of the pods on nodes that answer."""
        unready = self._unready_nodes()
        living, _ = self._pods.snapshot()
        return {
            item["metadata"]["name"] for item in living.values()
            if item.get("spec", {}).get("nodeName", "") not in unready
        }  # fmt: skip

    def close(self) -> None:
        for live in (self._gang, self._pods, self._warnings, self._nodes):
            live.close()

    def _unready_nodes(self) -> frozenset[str]:
        """Those that do not answer, and those whose object was deleted while we watched."""
        nodes, gone = self._nodes.snapshot()
        names = {item["name"] for item in nodes.values()}
        lost = frozenset(item["name"] for item in gone.values()) - names
        return lost | silent_nodes(nodes.values(), seconds_since_away=self._cluster.seconds_since_away)

    def _complaints(self) -> Mapping[str, str]:
        events = sorted(self._warnings.living(), key=lambda item: str(item["at"]))
        return {item["about"]: item["text"] for item in events}


def _has_ended(gang: Object) -> bool:
    """Whether its controller will create no pod any more."""
    status = gang.get("status") or {}
    return bool(gang["metadata"].get("deletionTimestamp") or status.get("terminalState")) or any(
        item.get("type") in ("Failed", "Complete", "Completed", "FailureTarget") and item.get("status") == "True"
        for item in status.get("conditions") or ()
    )


def _warning_about(gang: str) -> Callable[[Object], Object | None]:
    def keep(event: Object) -> Object | None:
        about = str((event.get("involvedObject") or {}).get("name", ""))
        is_other = about != gang and not about.startswith(f"{gang}-")
        if is_other or str(event.get("message")).startswith(VAGUE_MESSAGES):
            return None
        at = event.get("lastTimestamp") or event.get("eventTime") or ""
        return {"about": about, "at": at, "text": f"{event.get('reason')}: {event.get('message')}"[:MAX_TEXT]}

    return keep
