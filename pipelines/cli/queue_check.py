"""Before a run with a queue is submitted: would its gang wait there in vain? As far as this account may see."""

from typing import TYPE_CHECKING

import click

from components.cluster.base import Cluster, Forbidden
from components.launch.queue_checks import require_queue
from components.runtime.log import Log
from infra.argo.argo import Argo
from pipelines.pod_options import pod_options

if TYPE_CHECKING:
    from pipelines.config import TrainConfig


def require_room(config: "TrainConfig", argo: Argo) -> None:
    """Raise what the launch stage would raise hours later. An Argo Server cannot be asked; the launch stage then is."""
    cluster: Cluster | None = getattr(argo, "cluster", None)
    options = pod_options(config)
    if options.queue is None or cluster is None:
        return
    # All that counts for a quota: the program and the agent beside it.
    pod = {
        "initContainers": [{"restartPolicy": "Always", "resources": options.agent_resources}],
        "containers": [{"resources": options.resources}],
    }
    try:
        require_queue(
            cluster, options.queue, pod, num_nodes=config.launch.num_nodes, is_first=True, log=_Quiet({}),
        )  # fmt: skip
    except Forbidden as error:
        click.echo(f"cannot look at queue {options.queue.name} from here, so the launch stage will: {error}", err=True)


class _Quiet(Log):
    """What a person may not see of a queue is nothing to warn of: the launch stage may."""

    def warning(self, message: str, **fields: object) -> None:
        pass
