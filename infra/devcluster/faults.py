"""What tests do to the cluster: pull a node's plug or cable, stop a component, and undo it."""

from collections.abc import Callable

from infra.devcluster import cgroups, network, node
from infra.devcluster.down import power_off
from infra.devcluster.layout import Layout, Node
from infra.devcluster.process import Component, Phase, phase, start, stop, wait_ready
from infra.devcluster.running import component_named, node_named


def _power_on(machine: Node, layout: Layout) -> None:
    network.mend(machine)
    cgroups.create(machine.cgroup)
    for component in node.components(machine, layout):
        _start(component)  # one by one: a kubelet ends when its container runtime does not answer


ON_NODE: dict[str, tuple[str, Callable[[Node, Layout], object]]] = {
    "power-off": ("end all that runs on a node at once, and cut its cable", lambda machine, _: power_off(machine)),
    "power-on": ("bring such a node back", _power_on),
    "cut": ("cut a node's cable; all on it goes on running", lambda machine, _: network.cut(machine)),
    "mend": ("mend the cable", lambda machine, _: network.mend(machine)),
}


def _start(component: Component) -> None:
    start(component)
    wait_ready(component)
    if component.name == "apiserver":
        _restart_argo()


def _restart_argo() -> None:
    """Argo 4.0.5's controller does not survive a refused watch of its settings: it logs that for ever, on a whole core.

    An API server that starts again refuses for a moment what it has not read the rights of.
    """
    argo = component_named("argo-controller")
    if phase(argo) is not Phase.ABSENT:
        stop(argo)
        start(argo)
        wait_ready(argo)


def _restart(component: Component) -> None:
    stop(component)
    _start(component)


ON_COMPONENT: dict[str, tuple[str, Callable[[Component], object]]] = {
    "stop": ("stop a component", stop),
    "kill": ("kill a component with SIGKILL", lambda component: stop(component, at_once=True)),
    "start": ("start a component again", _start),
    "restart": ("stop and start a component", _restart),
}


def on_node(action: str, name: str) -> None:
    """One of ON_NODE."""
    ON_NODE[action][1](*node_named(name))


def on_component(action: str, name: str) -> None:
    """One of ON_COMPONENT."""
    ON_COMPONENT[action][1](component_named(name))
