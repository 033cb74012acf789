"""The other stages as templates: each is one container, and only what differs is said here."""

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
from templates.labels import LAUNCH, PREFLIGHT, RETAIN, VERIFY
from templates.stage import stage_template


def preflight_template(spec: PreflightSpec, *, timeout: float, retries: int) -> Container:
    return stage_template(
        PREFLIGHT, module="preflight", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        outputs=PREFLIGHT_OUTPUTS,
    )  # fmt: skip


def launch_template(spec: LaunchSpec, *, retries: int) -> Container:
    """Its grace period covers the gang's own stop: last checkpoint, commit, then the ranks' end."""
    return stage_template(
        LAUNCH, module="launch", spec=spec, experiment=spec.experiment, timeout=spec.timeout_seconds, retries=retries,
        inputs=("data_version",), outputs=LAUNCH_OUTPUTS, grace_seconds=spec.limits.stop_seconds + STOP_MARGIN_SECONDS,
    )  # fmt: skip


def verify_template(spec: VerifySpec, *, timeout: float, retries: int) -> Container:
    return stage_template(
        VERIFY, module="verify", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        inputs=("checkpoint",), outputs=VERIFY_OUTPUTS,
    )  # fmt: skip


def retain_template(spec: RetainSpec, *, timeout: float, retries: int) -> Container:
    return stage_template(
        RETAIN, module="retain", spec=spec, experiment=spec.experiment, timeout=timeout, retries=retries,
        outputs=RETAIN_OUTPUTS,
    )  # fmt: skip
