"""The DAG: shard >> launch << preflight, launch >> verify >> retain; and its compilation to a canonical manifest."""

import math
from typing import Any

from hera.workflows import DAG, Parameter, Task, Workflow
from hera.workflows import models as m

from components.contracts.cluster_names import (
    DESCRIPTION_ANNOTATION,
    EXPERIMENT_LABEL,
    INSTANCE_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MODEL_VERSION_LABEL,
    PENDING_LIMIT_ANNOTATION,
    PENDING_LIMIT_SECONDS,
    TITLE_ANNOTATION,
)
from components.errors import BadInput
from infra.lint.manifest import lint
from pipelines.cluster_sections import PlacementSection
from pipelines.config import TrainConfig
from pipelines.specs import finish_spec, launch_spec, preflight_spec, retain_spec, shard_spec, verify_spec
from pipelines.storage_section import StorageOptionsSection
from pipelines.version import VERSION
from templates import labels
from templates.on_exit import at_the_end, finish_template
from templates.pods import (
    LAUNCHER_SERVICE_ACCOUNT,
    STAGE_SERVICE_ACCOUNT,
    hidden_token,
    pod_security,
    stage_pod_patch,
)
from templates.shard import shard_templates
from templates.stage import set_environment
from templates.stages import launch_template, preflight_template, retain_template, verify_template

DEFAULT_IMAGE = f"argosy:{VERSION}"

DAY_SECONDS = 86400
KEEP_SUCCEEDED_SECONDS, KEEP_FAILED_SECONDS = 3 * DAY_SECONDS, 14 * DAY_SECONDS
"""How long the finished Workflow object stays; state, logs and report are in the storage and outlive it."""


def train_workflow(config: TrainConfig, *, storage: str) -> Workflow:
    """The Workflow of one run. `storage` is the root uri when the description names none."""
    storage_options, placement = (
        config.storage_options or StorageOptionsSection(),
        config.placement or PlacementSection(),
    )
    with Workflow(
        generate_name=f"{config.experiment}-",
        entrypoint=labels.ENTRYPOINT,
        on_exit=labels.AT_THE_END,
        arguments=_parameters(config, storage=storage),
        namespace=config.namespace,
        labels=workflow_labels(config),
        annotations=_annotations(config),
        pod_metadata=m.Metadata(
            labels={MANAGED_BY_LABEL: MANAGED_BY, EXPERIMENT_LABEL: config.experiment},
            annotations={PENDING_LIMIT_ANNOTATION: str(PENDING_LIMIT_SECONDS)},
        ),
        service_account_name=config.service_account or STAGE_SERVICE_ACCOUNT,
        image_pull_secrets=[m.LocalObjectReference(name=name) for name in config.image_pull_secrets or ()] or None,
        security_context=pod_security(),
        volumes=[hidden_token()],
        pod_spec_patch=stage_pod_patch(
            credentials_secret=storage_options.credentials_secret,
            ca_secret=storage_options.ca_secret,
            proxy=config.proxy.told() if config.proxy else {},
            trusted=config.ca_bundle.told() if config.ca_bundle else None,
        ),
        node_selector=placement.node_selector,
        tolerations=[m.Toleration.model_validate(item.manifest()) for item in placement.tolerations or ()] or None,
        active_deadline_seconds=math.ceil(config.workflow_deadline),
        ttl_strategy=m.TTLStrategy(
            seconds_after_success=KEEP_SUCCEEDED_SECONDS, seconds_after_failure=KEEP_FAILED_SECONDS
        ),
        pod_gc=m.PodGC(strategy="OnWorkflowSuccess", delete_delay_duration="10m"),
    ) as workflow:
        shard, preflight, verify, retain = config.shard, config.preflight, config.verify, config.retain
        launcher = config.service_account or LAUNCHER_SERVICE_ACCOUNT
        shard_templates(
            shard_spec(config), experiment=config.experiment, timeout=shard.timeout, retries=shard.retries,
            resources=shard.resources.manifest(),
        )  # fmt: skip
        preflight_template(
            preflight_spec(config), timeout=preflight.timeout, retries=preflight.retries,
            resources=preflight.resources.manifest(),
        )  # fmt: skip
        launch_template(launch_spec(config), retries=config.launch.retries, service_account=launcher)
        verify_template(
            verify_spec(config), timeout=verify.timeout, retries=verify.retries, resources=verify.resources.manifest()
        )
        retain_template(
            retain_spec(config), timeout=retain.timeout, retries=retain.retries, resources=retain.resources.manifest()
        )
        finish_template(finish_spec(config), service_account=launcher)
        at_the_end()
        _dag(config)
    set_environment(workflow.templates, config.store_options.environment())
    return workflow


def workflow_labels(config: TrainConfig) -> dict[str, str]:
    """Of a Workflow, and of whatever starts such Workflows."""
    instance = config.argo.instance_id if config.argo else None
    return {
        MANAGED_BY_LABEL: MANAGED_BY,
        EXPERIMENT_LABEL: config.experiment,
        MODEL_VERSION_LABEL: config.model_version,
        **({INSTANCE_LABEL: instance} if instance else {}),
    }


def _annotations(config: TrainConfig) -> dict[str, str]:
    """What the Argo UI shows of the whole."""
    size = f"{config.launch.num_nodes} x {config.launch.nproc_per_node} ranks"
    return {
        TITLE_ANNOTATION: f"Train {config.experiment} {config.model_version}",
        DESCRIPTION_ANNOTATION: f"shard and preflight, launch ({size}), verify, retain",
    }


def compile_manifest(config: TrainConfig, *, storage: str) -> dict[str, Any]:
    """The linted manifest in canonical order: same description, same bytes. Raises BadInput with every lint fault."""
    manifest = canonical(train_workflow(config, storage=storage).to_dict())
    problems = lint(manifest)
    if problems:
        raise BadInput("ManifestRefused", "the compiled Workflow would not run as meant", problems=problems)
    assert isinstance(manifest, dict)
    return manifest


def canonical(value: Any) -> Any:
    """`value` with keys in alphabetical order, `name` first because people look for it."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value, key=lambda key: (key != "name", key))}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


def _parameters(config: TrainConfig, *, storage: str) -> list[Parameter]:
    """What differs between two places, and nothing else: the same templates run on one machine and on a cluster."""
    platform_image = config.platform_image or DEFAULT_IMAGE
    return [
        Parameter(
            name=labels.STORAGE, value=config.storage or storage,
            description="Root uri: data, checkpoints, runs and reports live under it",
        ),
        Parameter(name=labels.IMAGE, value=config.image or platform_image, description="Image of the ranks"),
        Parameter(name=labels.PLATFORM_IMAGE, value=platform_image, description="Image of the stages"),
        Parameter(name=labels.RUN, value="", description="Name of the run; empty: the Workflow's name"),
        *(
            [Parameter(name=labels.CODE, value="", description="SHA-256 of the code that travels with the run")]
            if config.code
            else []
        ),
        Parameter(name=labels.WORKDIR, value="", description="Folder that relative paths start from, on one machine"),
    ]  # fmt: skip


def _dag(config: TrainConfig) -> None:
    plan_id = labels.output_of(labels.SHARD_PLAN, "plan_id")
    data_version = labels.output_of(labels.SHARD_MERGE, "data_version")
    checkpoint = labels.output_of(labels.LAUNCH, "checkpoint")
    with DAG(name=labels.ENTRYPOINT):
        Task(name=labels.SHARD_PLAN, template=labels.SHARD_PLAN)
        Task(
            name=labels.SHARD_TASK,
            template=labels.SHARD_TASK,
            depends=labels.SHARD_PLAN,
            arguments={"plan_id": plan_id, "task_index": "{{item}}"},
            with_sequence=m.Sequence(count=m.IntOrString(root=str(config.shard.num_tasks))),
        )
        Task(
            name=labels.SHARD_MERGE,
            template=labels.SHARD_MERGE,
            depends=labels.SHARD_TASK,
            arguments={"plan_id": plan_id},
        )
        Task(name=labels.PREFLIGHT, template=labels.PREFLIGHT)
        Task(
            name=labels.LAUNCH,
            template=labels.LAUNCH,
            depends=f"{labels.SHARD_MERGE} && {labels.PREFLIGHT}",
            arguments={"data_version": data_version},
        )
        Task(
            name=labels.VERIFY,
            template=labels.VERIFY,
            depends=labels.LAUNCH,
            arguments={"checkpoint": checkpoint},
        )
        Task(name=labels.RETAIN, template=labels.RETAIN, depends=labels.VERIFY)
