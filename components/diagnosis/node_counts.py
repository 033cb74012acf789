"""How many nodes each constraint removes, as a sentence and as evidence."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from components.cluster.fields import Object, part
from components.contracts.lists import some_of
from components.contracts.units import format_size
from components.diagnosis.constraints import Limit, Removal, Verdict
from components.diagnosis.finding import one_line
from components.diagnosis.node_fit import Fit, requests_of
from components.diagnosis.verdict import Evidence

_WORDS = {
    Limit.NODE_DOWN: "{n} not ready or cordoned",
    Limit.TAINT: "{n} with a taint it does not tolerate{what}",
    Limit.SELECTOR: "{n} outside its node selector or affinity",
    Limit.POD_AFFINITY: "{n} by affinity to other pods",
    Limit.SPREAD: "{n} by topology spread",
    Limit.VOLUME: "{n} by a volume",
    Limit.PORTS: "{n} by ports in use",
    Limit.GATE: "{n} by its gang",
    Limit.CLAIM_MISSING: "{n} by a claim that is missing",
    Limit.UNKNOWN: "{n} by a constraint not known here",
}


def sentence(verdict: Verdict, lead: Removal | None) -> str:
    """`of 10 nodes 4 lack nvidia.com/gpu, 6 with a taint it does not tolerate (gpu: yes)`."""
    ranked = sorted(verdict.removals, key=lambda item: (item is not lead, -item.num_nodes))
    said = []
    for item in ranked:
        if item.limit is Limit.RESOURCE:
            said.append(f"{item.num_nodes} with too little {item.what}")
        else:
            what = f" ({item.what})" if item.what else ""
            said.append(_WORDS[item.limit].format(n=item.num_nodes, what=what))
    total = f"of {verdict.num_nodes} nodes " if verdict.num_nodes is not None else ""
    return total + ", ".join(said)


@lru_cache(maxsize=256)
def counted(verdict: Verdict) -> tuple[Evidence, ...]:
    """The scheduler's own words, constraint by constraint."""
    return tuple(
        Evidence(object="scheduler", field=f"removes {item.num_nodes} nodes", value=one_line(item.text))
        for item in verdict.removals
    )


def of_nodes(pod: Object, fit: Fit | None) -> Iterator[Evidence]:
    """The nodes by what removes them, and the largest of them; or that they may not be looked at."""
    if fit is None:
        yield Evidence(
            object="nodes", field="not listed",
            value="this account may not list nodes, so it is not known whether any node could ever hold the pod, nor "
            "which of the removed nodes have what it needs",
        )  # fmt: skip
        return
    groups: list[tuple[str, Iterable[str]]] = [
        ("large enough and allowed", fit.suitable), ("not ready or cordoned", fit.down),
        *((f"taint {taint}", names) for taint, names in fit.tainted.items()),
        ("outside the node selector", fit.unselected),
        *((f"too small: {resource}", names) for resource, names in fit.too_small.items()),
    ]  # fmt: skip
    for field, names in groups:
        listed = list(names)
        if listed:
            yield Evidence(object="nodes", field=field, value=f"{len(listed)}: {some_of(listed, most=5)}")
    wants = requests_of(pod)
    for resource, most in fit.largest.items():
        value = f"asked for {amount_of(resource, wants[resource])}, the largest node has {amount_of(resource, most)}"
        yield Evidence(object="nodes", field=resource, value=value)


def taint_name(lead: Removal, fit: Fit | None) -> str:
    """` (nvidia.com/gpu)`, where it is known: Kubernetes stopped saying it in 1.34."""
    if fit is not None and fit.tainted:
        names = fit.capable_but_tainted or fit.tainted
        return f" ({', '.join(sorted(names))})"
    return f" ({lead.what})" if lead.what else ""


def selector_of(pod: Object) -> str:
    """How the pod chooses its nodes."""
    chosen: Mapping[str, object] = part(pod, "spec", "nodeSelector")
    if chosen:
        return ", ".join(f"{key}={value}" for key, value in sorted(chosen.items()))
    return "by its node affinity"


def amount_of(resource: str, value: float) -> str:
    """An amount of a resource, as people say it."""
    if resource == "memory" or resource.startswith("hugepages") or resource == "ephemeral-storage":
        return format_size(value)
    return f"{value:g}"
