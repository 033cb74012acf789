"""Before a run is submitted to a cluster: is its experiment free, or does a run hold it that is provably over?

What the launch stage would refuse hours later is refused here, as far as storage and cluster can be asked from here.
It is the launch stage that takes the claim over, by the same proof.
"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from components.cluster.base import Forbidden
from components.cluster.kinds import CONFIG_MAPS
from components.errors import ArgosyError, Transient
from infra.argo.argo import Argo
from infra.argo.submission import runs_selector
from infra.argo.submitted import matches, submitted_run
from infra.argo.view import is_over
from infra.local.client import home
from pipelines.cli.targets import Target

if TYPE_CHECKING:
    from components.cluster.api import KubernetesCluster
    from components.ledger.ledger import ClaimEntry
    from pipelines.config import TrainConfig

_ROOT_CERTIFICATE = "kube-root-ca.crt"
"""ConfigMap that every namespace has: what pods are told to know the API server by."""


def require_free(config: "TrainConfig", storage: str, target: Target, argo: Argo) -> None:
    """Raises RunActive when another run holds the experiment and is not provably over."""
    from components.ledger.ledger import Ledger, RunActive, is_gone
    from components.storage.base import open_store

    store = open_store(storage, config.store_options, is_patient=False)
    try:
        held = Ledger(store, config.experiment, config.model_version).state().claim
    except ArgosyError as error:
        # The cluster has its own way and its own credentials; its preflight stage tells.
        click.echo(f"cannot look into {storage} from here, so the cluster will have to: {error}", err=True)
        return
    if held is None or is_gone(held.owner):
        return
    try:
        known = _why_it_may_run(held, target, argo)
    except (Forbidden, Transient) as error:
        known = f"whether it is over cannot be told: {error}"
    if known is not None:
        raise RunActive(held, experiment=config.experiment, model_version=config.model_version, known=known)


def _why_it_may_run(held: "ClaimEntry", target: Target, argo: Argo) -> str | None:
    """What speaks against its end; None: it is over. It may have left its claim: terminated, its Workflow deleted, or
    its launcher lost for good.
    """
    if not held.owner.cluster:
        return ""  # on some machine, which only that machine can tell
    # Without a name of its own a run has its Workflow's.
    found = list(argo.list(labels=runs_selector(held.run))) or [item for item in [argo.read(held.run)] if item]
    if found:
        living = [str(item["metadata"]["name"]) for item in found if not is_over(item)]
        return f"its Workflow {living[0]} is not over" if living else None
    from components.cluster.api import KubernetesCluster

    cluster = getattr(argo, "cluster", None)
    if isinstance(cluster, KubernetesCluster):
        return _why_the_cluster_may_run_it(held, cluster)
    noted = submitted_run(home(), held.run)
    if noted is None or not matches(noted.place, target.place(argo)):
        return f"no Workflow of it is in {argo.place}, but an Argo Server does not tell which cluster it serves"
    click.echo(
        f"run {held.run} has not given the experiment up, but its Workflow is gone; the launch stage will see to it",
        err=True,
    )
    return None


def _why_the_cluster_may_run_it(held: "ClaimEntry", cluster: "KubernetesCluster") -> str | None:
    from components.cluster.gangs import gangs_of

    where = f"namespace {cluster.namespace}, context {cluster.context}"
    if held.owner.cluster not in _places(cluster):
        return f"no Workflow of it is in {where}, but that is not provably where it was started"
    gangs = gangs_of(cluster, held.run)
    return f"its Workflow is gone from {where}, but {', '.join(gangs)} is still there" if gangs else None


def _places(cluster: "KubernetesCluster") -> set[str]:
    """How a launcher there would name cluster and namespace: by the certificate that pods get, which kubeconfigs
    mostly have too, perhaps with another end of line.
    """
    from components.launch.cluster_owner import cluster_place

    found: list[bytes] = []
    if cluster.certificate_path:
        with contextlib.suppress(OSError):  # then the server could not be asked anything either
            found.append(Path(cluster.certificate_path).read_bytes())
    try:
        published = cluster.read(CONFIG_MAPS, _ROOT_CERTIFICATE)
    except Forbidden:
        published = None
    if published is not None:
        found.append(str((published.get("data") or {}).get("ca.crt", "")).encode())
    texts = [text for data in found for text in (data, data.strip(), data.strip() + b"\n") if data.strip()]
    return {cluster_place(text, cluster.namespace) for text in texts}
