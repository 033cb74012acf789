"""The cluster that is up: its layout, and its components by name."""

import json

from components.errors import BadInput
from infra.devcluster import control, kueue, node
from infra.devcluster.layout import CHECKOUT, STATE, Layout, Node
from infra.devcluster.process import Component

RECORD = STATE / "cluster.json"


def running_layout() -> Layout:
    """Raises BadInput when there is no cluster, or it is another checkout's."""
    if not RECORD.exists():
        raise BadInput("NoCluster", f"there is no {RECORD}", "make cluster-up")
    record = json.loads(RECORD.read_text())
    if record["checkout"] != str(CHECKOUT):
        raise BadInput("OtherCheckout", f"the cluster belongs to {record['checkout']}", "make cluster-up replaces it")
    return Layout(record["num_nodes"])


def components(layout: Layout) -> tuple[Component, ...]:
    """All of the cluster, in order of start."""
    nodes = (component for n in layout.nodes for component in node.components(n, layout))
    extra = (kueue.component(layout),) if kueue.is_wanted(layout) else ()
    return (*control.first(layout), *control.second(layout), *control.third(layout), *extra, *nodes)


def component_named(name: str) -> Component:
    known = {component.name: component for component in components(running_layout())}
    if name not in known:
        raise BadInput("NoSuchComponent", f"{name!r} is none of {', '.join(known)}")
    return known[name]


def node_named(name: str) -> tuple[Node, Layout]:
    layout = running_layout()
    known = {n.name: n for n in layout.nodes}
    if name not in known:
        raise BadInput("NoSuchNode", f"{name!r} is none of {', '.join(known)}")
    return known[name], layout
