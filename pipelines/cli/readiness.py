"""Refuses early what would leave pods waiting: names that the namespace does not have, and a missing janitor."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from components.cluster.base import Forbidden
from components.cluster.kinds import DEPLOYMENTS, SECRETS
from components.contracts.cluster_names import JANITOR_NAME
from components.errors import BadInput, EnvironmentUnfit
from infra.argo.argo import Argo

if TYPE_CHECKING:
    from components.cluster.api import KubernetesCluster
    from pipelines.config import TrainConfig

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def require_ready(config: "TrainConfig", argo: Argo) -> None:
    """As far as this account may look; the launch stage looks again. Through an Argo Server nothing can be seen.

    Raises BadInput with every object that is missing, EnvironmentUnfit without the janitor that `force_after` needs.
    """
    from components.cluster.api import KubernetesCluster
    from components.cluster.named import Named, missing_objects, named_objects
    from pipelines.pod_options import pod_options

    cluster = getattr(argo, "cluster", None)
    if not isinstance(cluster, KubernetesCluster):
        return
    wanted = list(named_objects(pod_options(config)))
    if config.storage_options and config.storage_options.credentials_secret:
        name = config.storage_options.credentials_secret
        wanted.append(Named("storage_options.credentials_secret", SECRETS, name, _CREDENTIALS))
    if problems := missing_objects(cluster, wanted):
        raise BadInput("MissingObjects", f"the description names what {argo.place} does not have", problems=problems)
    if config.launch.lost_node.policy == "force_after" and config.launch.backend != "process":
        require_janitor(cluster, told=lambda text: click.echo(text, err=True))


def require_janitor(cluster: "KubernetesCluster", *, told: Callable[[str], object]) -> None:
    """Raises EnvironmentUnfit without one; `told` hears that this account may not look."""
    try:
        found = cluster.read(DEPLOYMENTS, JANITOR_NAME)
    except Forbidden as error:
        told(f"cannot see whether there is a janitor, so the launch stage will: {error}")
        return
    if found is None:
        raise EnvironmentUnfit(
            "NoJanitor",
            f"launch.lost_node is force_after, but Deployment {JANITOR_NAME} does not exist in namespace "
            f"{cluster.namespace}",
            "install infra/kubernetes/janitor there, or submit anew with `lost_node: {policy: wait}` or fail",
        )  # fmt: skip
