"""Which nodes a pod could ever run on, and what removes the others: a function of the pod and the nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.cluster.fields import Object, name_of, part, parts, quantity, text
from components.cluster.silent import is_unready

_DOWN_PREFIX = "node.kubernetes.io/"
_FORBIDDING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Fit:
    """The nodes of a cluster, sorted by the first thing that removes them, in the scheduler's order."""

    num_nodes: int
    down: tuple[str, ...] = ()
    """Not ready, or cordoned."""
    tainted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nodes by the taint that removes them."""
    unselected: tuple[str, ...] = ()
    too_small: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nodes that could never hold it even if empty, by the resource that is too small."""
    suitable: tuple[str, ...] = ()
    """Nodes that could hold it if they were empty enough."""
    capable_but_tainted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Selected and large enough: a toleration would do."""
    capable_but_unselected: tuple[str, ...] = ()
    capable_but_down: tuple[str, ...] = ()
    largest: Mapping[str, float] = field(default_factory=dict)
    """Of each resource asked for: the most that any node has."""
    num_selected: int = 0
    """Nodes, of whatever size and state, that the pod's selector and affinity take."""


def fit_of(pod: Object, nodes: Sequence[Object]) -> Fit:
    """Each node is counted once, under the first constraint that removes it."""
    wanted = requests_of(pod)
    down: list[str] = []
    unselected: list[str] = []
    suitable: list[str] = []
    capable_down: list[str] = []
    capable_unselected: list[str] = []
    tainted: dict[str, list[str]] = {}
    capable_tainted: dict[str, list[str]] = {}
    small: dict[str, list[str]] = {}
    largest: dict[str, float] = {}
    num_selected = 0
    for node in nodes:
        name = name_of(node)
        has = part(node, "status", "allocatable")
        for resource in wanted:
            largest[resource] = max(largest.get(resource, 0.0), quantity(has.get(resource, 0)))
        lacking = [resource for resource, amount in wanted.items() if quantity(has.get(resource, 0)) < amount]
        taint, is_selected = _repelling(pod, node), _is_selected(pod, node)
        num_selected += is_selected
        if _is_down(node):
            down.append(name)
            capable_down += [name] if is_selected and not lacking else []
        elif taint:
            tainted.setdefault(taint, []).append(name)
            if is_selected and not lacking:
                capable_tainted.setdefault(taint, []).append(name)
        elif not is_selected:
            unselected.append(name)
            capable_unselected += [] if lacking else [name]
        elif lacking:
            small.setdefault(lacking[0], []).append(name)
        else:
            suitable.append(name)
    return Fit(
        num_nodes=len(nodes), down=tuple(down), tainted=_frozen(tainted), unselected=tuple(unselected),
        too_small=_frozen(small), suitable=tuple(suitable), capable_but_tainted=_frozen(capable_tainted),
        capable_but_unselected=tuple(capable_unselected), capable_but_down=tuple(capable_down), largest=largest,
        num_selected=num_selected,
    )  # fmt: skip


def requests_of(pod: Object) -> dict[str, float]:
    """What the scheduler looks for: the sum over containers and sidecars, or the largest init container."""
    running: dict[str, float] = {}
    for container in parts(pod, "spec", "containers"):
        _add(running, _amounts(container))
    initial: dict[str, float] = {}
    for container in parts(pod, "spec", "initContainers"):
        amounts = _amounts(container)
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
        for resource, amount in amounts.items():
            initial[resource] = max(initial.get(resource, 0.0), amount)
    for resource, amount in initial.items():
        running[resource] = max(running.get(resource, 0.0), amount)
    return {resource: amount for resource, amount in running.items() if amount > 0}


def _frozen(found: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(names) for key, names in found.items()}


def _amounts(container: Object) -> dict[str, float]:
    resources = {**part(container, "resources", "limits"), **part(container, "resources", "requests")}
    return {name: quantity(amount) for name, amount in resources.items()}


def _add(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + amount


def _is_down(node: Object) -> bool:
    return is_unready(node) or part(node, "spec").get("unschedulable") is True


def _repelling(pod: Object, node: Object) -> str:
    """The first taint of the node that the pod does not tolerate."""
    tolerations = parts(pod, "spec", "tolerations")
    for taint in parts(node, "spec", "taints"):
        if taint.get("effect") in _FORBIDDING and not any(_tolerates(item, taint) for item in tolerations):
            value = text(taint, "value")
            return text(taint, "key") + (f"={value}" if value else "")
    return ""


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration.get("key") != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _is_selected(pod: Object, node: Object) -> bool:
    labels = part(node, "metadata", "labels")
    if any(labels.get(key) != value for key, value in part(pod, "spec", "nodeSelector").items()):
        return False
    affinity = part(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = parts(affinity, "nodeSelectorTerms")
    if not terms:
        return True
    fields = {"metadata.name": name_of(node)}
    return any(
        all(_matches(item, labels) for item in parts(term, "matchExpressions"))
        and all(_matches(item, fields) for item in parts(term, "matchFields"))
        for term in terms
    )


def _matches(expression: Object, labels: Mapping[str, Any]) -> bool:
    key, operator = text(expression, "key"), expression.get("operator")
    values = expression.get("values") or ()
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            left, right = quantity(labels.get(key, "")), quantity(next(iter(values), ""))
            return key in labels and (left > right if operator == "Gt" else left < right)
        case _:
            return True
