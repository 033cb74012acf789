"""A run description turned into what the launch stage is told about the gang's pods."""

from components.contracts.pods import PodOptions
from pipelines.cluster_sections import RankResources, quantity
from pipelines.config import TrainConfig

_ONLY_THE_AGENT = {"eks.amazonaws.com/skip-containers": "program,files"}
"""Where an admission webhook hands a service account's cloud identity to containers: the program gets none."""


def pod_options(config: TrainConfig) -> PodOptions:
    """Images are missing: they are Workflow parameters and reach the launch stage as inputs."""
    launch, storage = config.launch, config.storage_options
    resources = launch.resources or RankResources()
    devices = {**(resources.devices or {}), **({launch.rdma.resource: launch.rdma.count} if launch.rdma else {})}
    cloud_identity = (storage.service_account if storage else None) or ""
    secrets = [source.manifest(name) for name, source in (launch.secrets or {}).items()]
    return PodOptions(
        image_pull_secrets=config.image_pull_secrets or (),
        service_account=cloud_identity,
        resources=_resources(resources, devices, least_memory=launch.nproc_per_node * config.preflight.memory_per_rank),
        shm_bytes=resources.shm,
        env_from=tuple(source.manifest() for source in launch.env_from or ()),
        env=tuple(secrets),
        ca_secret=(storage.ca_secret if storage else None) or "",
        node_selector=launch.node_selector or {},
        tolerations=tuple(item.manifest() for item in launch.tolerations or ()),
        annotations={**(_ONLY_THE_AGENT if cloud_identity else {}), **(launch.annotations or {})},
        priority_class=launch.priority_class or "",
        scheduler_name=launch.scheduler_name or "",
        runtime_class=launch.runtime_class or "",
        host_network=launch.host_network,
        mounts=tuple(volume.mount(f"volume-{index}") for index, volume in enumerate(launch.volumes or ())),
        queue=config.queue.rule(launch.limits.queue) if config.queue else None,
        lost_node=launch.lost_node.rule(),
        trusted=config.ca_bundle.told() if config.ca_bundle else None,
        proxy=config.proxy.told() if config.proxy else None,
        patch=launch.pod_patch,
    )


def _resources(wanted: RankResources, counts: dict[str, int], *, least_memory: int) -> dict[str, dict[str, str]]:
    devices = {name: str(count) for name, count in counts.items()}
    requests = {"memory": quantity(wanted.memory or least_memory), **devices}
    if wanted.cpu is not None:
        requests["cpu"] = wanted.cpu
    limits = {**({"memory": quantity(wanted.memory)} if wanted.memory else {}), **devices}
    return {"requests": requests, **({"limits": limits} if limits else {})}
