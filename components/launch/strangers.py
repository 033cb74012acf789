"""Refuses a gang whose names are taken by what is not Argosy's: it would be adopted, or removed with the gang."""

from collections.abc import Iterator, Sequence

from components.cluster.base import Cluster, Object
from components.cluster.kinds import Kind
from components.contracts.cluster_names import GANG_LABEL
from components.errors import BadInput, Problem


def require_free_names(cluster: Cluster, kinds: Sequence[Kind], gang: str) -> None:
    """Look for objects called as `gang` is. Raises BadInput that lists all that somebody else made."""
    problems = list(_taken(cluster, kinds, gang))
    if problems:
        raise BadInput("NameTaken", f"the objects of gang {gang} cannot be created", problems=problems)


def _taken(cluster: Cluster, kinds: Sequence[Kind], gang: str) -> Iterator[Problem]:
    for kind in kinds:
        found = cluster.read(kind, gang)
        if found is not None and not _is_the_gangs(found, gang):
            yield Problem(
                f"{kind.kind} {gang}", f"is in namespace {cluster.namespace} already and not Argosy's",
                f"have it removed and `resume`, or submit another run (`kubectl describe {kind.plural} {gang}`)",
            )  # fmt: skip


def _is_the_gangs(item: Object, gang: str) -> bool:
    """Its own, or, as JobSet's Service, made for it by its controller."""
    metadata = item["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return (metadata.get("labels") or {}).get(GANG_LABEL) == gang or any(owner.get("name") == gang for owner in owners)
