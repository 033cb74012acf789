"""How a stage becomes a container template: the only place that spells its command line."""

import math
from collections.abc import Iterable, Mapping, Sequence

from hera.workflows import Container, Env, Parameter
from hera.workflows import models as m

from components.contracts.canonical import canonical_json
from components.contracts.cluster_names import STAGE_LABEL
from components.contracts.document import Document
from templates.labels import (
    PLATFORM_IMAGE,
    RUN,
    STORAGE,
    WORKDIR,
    input_parameter,
    workflow_parameter,
)
from templates.pods import LEAST_RESOURCES, OUTPUT_FOLDER, token_mount
from templates.retry import retry_strategy


def set_environment(templates: Iterable[object], variables: Mapping[str, str]) -> None:
    """Give every container among `templates` these variables."""
    for template in templates:
        if variables and isinstance(template, Container):
            template.env = [Env(name=name, value=value) for name, value in variables.items()]


def stage_template(
    name: str,
    *,
    module: str,
    spec: Document,
    experiment: str,
    timeout: float,
    retries: int,
    part: str = "",
    task: str = "",
    inputs: Sequence[str] = (),
    values: Mapping[str, str] = {},
    outputs: Sequence[str] = (),
    grace_seconds: float | None = None,
    resources: Mapping[str, Mapping[str, str]] = LEAST_RESOURCES,
    service_account: str | None = None,
    has_token: bool = False,
) -> Container:
    """The container template that runs `python -m components.<module> [part]` with `spec`.

    `inputs` are parameters of the template, handed on as `--input name=value`; `values` are more of those with a fixed
    value; `outputs` are the parameters it publishes. `timeout` is one attempt's deadline in seconds. `grace_seconds`
    is how long it may take to end after SIGTERM, by default 30 s. Only with `has_token` can the stage itself talk
    to the API server, as `service_account` (the Workflow's own when there is none).
    """
    handed = {**{name: input_parameter(name) for name in inputs}, **values}
    return Container(
        name=name,
        image=workflow_parameter(PLATFORM_IMAGE),
        command=["python", "-m", f"components.{module}"],
        args=[
            *([part] if part else []),
            "--spec", _inert(spec),
            "--storage", workflow_parameter(STORAGE),
            "--run", workflow_parameter(RUN),
            "--workflow", "{{workflow.name}}",
            "--experiment", experiment,
            "--task", task or name,
            "--attempt", "{{retries}}",
            "--workdir", workflow_parameter(WORKDIR),
            *(word for name, value in handed.items() for word in ("--input", f"{name}={value}")),
        ],
        inputs=[Parameter(name=name) for name in inputs],
        outputs=[
            Parameter(name=name, value_from=m.ValueFrom(path=f"{OUTPUT_FOLDER}/{name}")) for name in outputs
        ],
        labels={STAGE_LABEL: module},
        resources=m.ResourceRequirements.model_validate(resources),
        volume_mounts=None if has_token else [token_mount()],
        service_account_name=service_account,
        active_deadline_seconds=math.ceil(timeout),
        retry_strategy=retry_strategy(retries),
        pod_spec_patch=None if grace_seconds is None
        else canonical_json({"terminationGracePeriodSeconds": math.ceil(grace_seconds)}),
    )  # fmt: skip


def _inert(spec: Document) -> str:
    """The Spec as JSON in which nothing means anything to Argo (braces) or to Kubernetes (`$(NAME)`, `$$`)."""
    return canonical_json(spec.as_json()).replace("$", "\\u0024")
