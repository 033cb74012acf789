"""A run description turned into what the launch stage is told about the gang's pods."""

from components.contracts.pods import PodOptions
from pipelines.cluster_sections import RankResources, quantity
from pipelines.config import TrainConfig


def pod_options(config: TrainConfig) -> PodOptions:
    """Images are missing: they are Workflow parameters and reach the launch stage as inputs."""
    launch, storage = config.launch, config.storage_options
    resources = launch.resources or RankResources()
    secrets = [source.manifest(name) for name, source in (launch.secrets or {}).items()]
    return PodOptions(
        image_pull_secrets=config.image_pull_secrets or (),
        resources=_resources(resources, least_memory=launch.nproc_per_node * config.preflight.memory_per_rank),
        shm_bytes=resources.shm,
        env_from=tuple(source.manifest() for source in launch.env_from or ()),
        env=tuple(secrets),
        ca_secret=(storage.ca_secret if storage else None) or "",
        node_selector=launch.node_selector or {},
        tolerations=tuple(item.manifest() for item in launch.tolerations or ()),
        annotations=launch.annotations or {},
        priority_class=launch.priority_class or "",
        scheduler_name=launch.scheduler_name or "",
        runtime_class=launch.runtime_class or "",
        host_network=launch.host_network,
        mounts=tuple(volume.mount(f"volume-{index}") for index, volume in enumerate(launch.volumes or ())),
        lost_node=launch.lost_node.rule(),
    )


def _resources(wanted: RankResources, *, least_memory: int) -> dict[str, dict[str, str]]:
    devices = {name: str(count) for name, count in (wanted.devices or {}).items()}
    requests = {"memory": quantity(wanted.memory or least_memory), **devices}
    if wanted.cpu is not None:
        requests["cpu"] = wanted.cpu
    limits = {**({"memory": quantity(wanted.memory)} if wanted.memory else {}), **devices}
    return {"requests": requests, **({"limits": limits} if limits else {})}
