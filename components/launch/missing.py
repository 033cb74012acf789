"""Names what keeps a gang from starting, and what it lacked when its start deadline passed."""

from collections.abc import Mapping, Sequence

from components.cluster.events import IMAGE_REASONS
from components.contracts.checks import CheckReport
from components.contracts.gang import GangState, GenerationView
from components.contracts.layout import node_checks_key
from components.contracts.lists import some_of
from components.contracts.units import format_duration
from components.errors import ArgosyError
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.pods import MAX_TEXT
from components.runtime.log import Log
from components.storage.base import ObjectStore

_MAX_WANTS = 4
_MAX_NODES = 8
_PATIENT_SECONDS = 5.0
"""Every gang lacks pods and places for a moment; what lasts longer than this is told."""


def read_node_checks(store: ObjectStore, run: str, *, generation: int, num_nodes: int) -> dict[int, CheckReport]:
    """The check reports that agents of this generation filed, by node rank."""
    reports = {}
    for node_rank in range(num_nodes):
        key = node_checks_key(run, generation=generation, node_rank=node_rank)
        try:
            reports[node_rank] = CheckReport.from_bytes(store.read(key), where=store.uri_of(key))
        except ArgosyError:
            continue  # not filed, or unreadable: as good as missing
    return reports


def missing_at_start(
    agents: Sequence[AgentStatus], state: GangState | None, reports: Mapping[int, CheckReport], *, start_seconds: float
) -> str:
    """`… 1 of 2 nodes joined; node 1 never started (Unschedulable: …)`: one sentence for the verdict."""
    num_joined = state.num_joined if state else 0
    laggards: dict[str, list[int]] = {}
    for agent in agents:
        lacks = _what_lacks(agent, reports.get(agent.node_rank))
        if lacks:
            laggards.setdefault(lacks, []).append(agent.node_rank)
    return (
        f"not all ranks were running {format_duration(start_seconds)} after the gang was created: "
        f"{num_joined} of {len(agents)} nodes joined; {_told(laggards)}"
    )


def _told(laggards: Mapping[str, Sequence[int]]) -> str:
    """Nodes with the same want together: the verdict must fit into a stage's last words, however large the gang."""
    if not laggards:
        return "every node passed its checks, but not every rank started"
    texts = [f"{_nodes(ranks)}{lacks}" for lacks, ranks in list(laggards.items())[:_MAX_WANTS]]
    num_more = sum(len(ranks) for ranks in list(laggards.values())[_MAX_WANTS:])
    return "; ".join([*texts, f"and {num_more} more nodes for other reasons"] if num_more else texts)


def _nodes(ranks: Sequence[int]) -> str:
    return f"node{'s' if len(ranks) > 1 else ''} {some_of(ranks, most=_MAX_NODES)}"


def _what_lacks(agent: AgentStatus, report: CheckReport | None) -> str:
    """What follows the node's name."""
    if agent.phase is AgentPhase.PENDING:
        return " never started" + (f" ({agent.waiting})" if agent.waiting else "")
    if agent.has_exited and not agent.ended_by_us:
        return f": the agent {agent.ending()}"
    if report is None:
        return ": the agent runs but has not finished its checks"
    blocking = [
        f"{result.name} {result.status.value} (measured {result.measured}, expected {result.expected})"
        for result in report.blocking
    ]
    return f": {', '.join(blocking)}" if blocking else ""


def what_it_avoids(view: GenerationView, before: Sequence[GenerationView]) -> str:
    """Nodes that the generation must not run on, and what had been wrong; empty for none. To follow the verdict."""
    names, last = view.excluded_nodes, before[-1].message if before else ""
    if not names:
        return ""
    return f"; it had to avoid {some_of(names, most=_MAX_NODES)} after {view.begin_reason}: {last[:MAX_TEXT]}"


class Complaints:
    """What keeps a gang from starting: said once in the launcher's log, and `text` while it lasts."""

    def __init__(self, log: Log) -> None:
        self._log, self.text = log, ""

    def look(self, agents: Sequence[AgentStatus], *, since_creation: float) -> None:
        """See what the agents that have not started wait for. `since_creation`: seconds since the gang was created."""
        if since_creation < _PATIENT_SECONDS:
            return
        text = _complaint(agents)
        if _is_of_image(text) and _is_of_image(self.text):
            return  # a kubelet says in turns that it cannot pull and that it waits before it tries again
        if text and text != self.text:
            self._log.warning(text)
        self.text = text


def _complaint(agents: Sequence[AgentStatus]) -> str:
    """`1 of 2 nodes did not start yet; node 1: Unschedulable: …`, or nothing while nobody complains."""
    held_up = [agent for agent in agents if agent.phase is AgentPhase.PENDING and agent.waiting]
    if not held_up:
        return ""
    first = held_up[0]
    return f"{len(held_up)} of {len(agents)} nodes did not start yet; node {first.node_rank}: {first.waiting}"


def _is_of_image(text: str) -> bool:
    return any(reason in text for reason in IMAGE_REASONS)
