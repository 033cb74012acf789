"""The other stages as templates: each is one container, and only what differs is said here."""

from collections.abc import Mapping

from hera.workflows import Container

from components.contracts.outputs import LAUNCH as LAUNCH_OUTPUTS
from components.contracts.outputs import PREFLIGHT as PREFLIGHT_OUTPUTS
from components.contracts.outputs import RETAIN as RETAIN_OUTPUTS
from components.contracts.outputs import VERIFY as VERIFY_OUTPUTS
from components.launch.spec import LaunchSpec
from components.preflight.spec import PreflightSpec
from components.retain.spec import RetainSpec
from components.verify.spec import VerifySpec
from templates.deadlines import STOP_MARGIN_SECONDS
from templates.labels import CODE, IMAGE, LAUNCH, PLATFORM_IMAGE, PREFLIGHT, RETAIN, VERIFY, workflow_parameter
from templates.stage import stage_template

Resources = Mapping[str, Mapping[str, str]]


def preflight_template(spec: PreflightSpec, *, timeout: float, retries: int, resources: Resources) -> Container:
    return stage_template(
        PREFLIGHT, module="preflight", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        resources=resources, outputs=PREFLIGHT_OUTPUTS,
    )  # fmt: skip


def launch_template(spec: LaunchSpec, *, retries: int, service_account: str) -> Container:
    """Its grace period covers the gang's own stop: last checkpoint, commit, then the ranks' end."""
    return stage_template(
        LAUNCH, module="launch", spec=spec, experiment=spec.experiment, timeout=spec.timeout_seconds, retries=retries,
        inputs=("data_version",), outputs=LAUNCH_OUTPUTS, grace_seconds=spec.limits.stop_seconds + STOP_MARGIN_SECONDS,
        values={
            "image": workflow_parameter(IMAGE), "platform_image": workflow_parameter(PLATFORM_IMAGE),
            **({CODE: workflow_parameter(CODE)} if spec.ships_code else {}),
        },
        service_account=service_account, has_token=True,
    )  # fmt: skip


def verify_template(spec: VerifySpec, *, timeout: float, retries: int, resources: Resources) -> Container:
    return stage_template(
        VERIFY, module="verify", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        resources=resources, inputs=("checkpoint",), outputs=VERIFY_OUTPUTS,
    )  # fmt: skip


def retain_template(spec: RetainSpec, *, timeout: float, retries: int, resources: Resources) -> Container:
    return stage_template(
        RETAIN, module="retain", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        resources=resources, outputs=RETAIN_OUTPUTS,
    )  # fmt: skip
