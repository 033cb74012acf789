"""The exit handler: stop what is left of the gang, release the claim, write the report; whatever the run's end."""

from hera.workflows import Container, Step, Steps

from components.contracts.cluster_names import FINISH
from components.contracts.outputs import FINISH as FINISH_OUTPUTS
from components.finish.spec import FinishSpec
from templates.deadlines import finish_timeout
from templates.labels import AT_THE_END
from templates.stage import stage_template

FINISH_RETRIES = 2


def finish_template(spec: FinishSpec, *, service_account: str) -> Container:
    """Argo exempts the exit handler from the Workflow's deadline and from a stop, so it has a deadline of its own.

    That holds for `at_the_end` around it, and not for this template, which is retried: see `infra/exit_handler.py`.
    """
    return stage_template(
        FINISH, module="finish", spec=spec, experiment=spec.experiment, timeout=finish_timeout(spec.stop_seconds),
        retries=FINISH_RETRIES, outputs=FINISH_OUTPUTS,
        service_account=service_account, has_token=True,
        values={"status": "{{workflow.status}}", "failures": "{{workflow.failures}}"},
    )  # fmt: skip


def at_the_end() -> Steps:
    """What `spec.onExit` names: the one step `finish`. Nothing may rename its node, by which Argo knows it."""
    with Steps(name=AT_THE_END) as steps:
        Step(name=FINISH, template=FINISH)
    return steps
