"""Submits a run to a cluster: a compiled description, or a WorkflowTemplate that is there already."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from components.contracts.clock import now_text
from components.contracts.cluster_names import EXPERIMENT_LABEL, MODEL_VERSION_LABEL
from components.contracts.names import is_commit, is_experiment_name, new_run_name
from components.errors import ArgosyError, BadInput, ExitCode
from components.storage.base import open_store
from infra.argo.argo import Argo, Workflow
from infra.argo.content import is_edited
from infra.argo.submission import (
    require_fit_for_cluster,
    workflow_from_template,
    workflow_of,
)
from infra.argo.submitted import Submitted, forget_submitted, note_submitted
from infra.argo.view import parameters_of, storage_environment_of, storage_of
from infra.local.client import home
from pipelines.cli.claimed import require_free
from pipelines.cli.cluster_run import ClusterRun
from pipelines.cli.follow import announce, detached, follow_to_end
from pipelines.cli.queue_check import require_room
from pipelines.cli.readiness import require_ready
from pipelines.cli.ship import ship_code
from pipelines.cli.targets import Target
from pipelines.literal_secrets import literal_secrets
from pipelines.specs import paths_read

if TYPE_CHECKING:
    from pipelines.cli.options import Described


def submit_description(
    source: "Described", manifest: Mapping[str, Any], target: Target, *, storage: str, detach: bool, output: str
) -> int:
    """Submit what was compiled, and follow it. The exit code is the run's."""
    config = source.config
    values = parameters_of(dict(manifest))
    require_fit_for_cluster(
        storage=storage, image=values.get("image", ""), platform_image=values.get("platform_image", ""),
        inputs=paths_read(config), more=literal_secrets(config),
    )  # fmt: skip
    argo = _with_namespace(target, manifest).connect()
    require_free(config, storage, target, argo)
    run = new_run_name(config.experiment)

    def workflow(**more: str) -> Workflow:
        values = {"storage": storage, "run": run, **more}
        return workflow_of(manifest, name=run, run=run, parameters=values, instance_id=target.instance_id)

    argo.lint(workflow())
    require_ready(config, argo)
    require_room(config, argo)
    code = ship_code(config, open_store(storage, config.store_options), workdir=source.workdir)
    submitted = Submitted(
        run=run, experiment=config.experiment, model_version=config.model_version, place=target.place(argo),
        storage=storage, created_at=now_text(), argv=tuple(sys.argv), description=config.as_json(),
        code=code.get("code", ""),
    )  # fmt: skip
    text = f"target {target.name} ({argo.place}): run {run} of {source.origin}, storage {storage}"
    return _submit(submitted, workflow(**code), target, argo, text=text, detach=detach, output=output)


def _with_namespace(target: Target, manifest: Mapping[str, Any]) -> Target:
    """The description's namespace is closer than the configuration's, and farther than the command line's."""
    described = str(manifest["metadata"].get("namespace") or "")
    return target if target.is_namespace_given or not described else replace(target, namespace=described)


def submit_template(name: str, given: Mapping[str, str], target: Target, *, detach: bool, output: str) -> int:
    """Submit a run of the WorkflowTemplate `name` with the parameters `given`, and follow it."""
    argo = target.connect()
    template = argo.template(name)
    if template is None:
        fix = "apply it first, or choose another namespace"
        raise BadInput("NoSuchTemplate", f"there is no WorkflowTemplate {name} in {argo.place}", fix)
    labels = template["metadata"].get("labels") or {}
    experiment = str(labels.get(EXPERIMENT_LABEL, ""))
    declared = parameters_of(template)
    if not is_experiment_name(experiment) or "run" not in declared:
        fix = "use one that was rendered from a run description"
        raise BadInput("NotOurTemplate", f"WorkflowTemplate {name} was not made by Argosy", fix)
    unknown = sorted(set(given) - set(declared) | {key for key in given if key == "run"})
    if unknown:
        fix = f"it has {', '.join(sorted(set(declared) - {'run'})) or 'none'}"
        raise BadInput("UnknownParameter", f"WorkflowTemplate {name} takes no parameter {', '.join(unknown)}", fix)
    if given.get("commit") and not is_commit(given["commit"]):
        fix = "pass the full SHA, 40 hexadecimal digits, or leave the parameter commit empty"
        raise BadInput("BadCommit", f"the commit is {given['commit'][:100]!r}", fix)
    if is_edited(template):
        click.echo(
            f"WorkflowTemplate {name} was edited in the cluster since it was rendered; `compile --cluster` says where",
            err=True,
        )
    run = new_run_name(experiment)
    workflow = workflow_from_template(
        template, name=run, run=run, parameters={**given, "run": run}, instance_id=target.instance_id
    )
    storage = given.get("storage") or storage_of(template)
    submitted = Submitted(
        run=run, experiment=experiment, model_version=str(labels.get(MODEL_VERSION_LABEL, "v1")),
        place=target.place(argo), storage=storage, environment=storage_environment_of(template), created_at=now_text(),
        argv=tuple(sys.argv),
    )  # fmt: skip
    text = f"target {target.name} ({argo.place}): run {run} of template {name}, storage {storage}"
    argo.lint(workflow)
    return _submit(submitted, workflow, target, argo, text=text, detach=detach, output=output)


def _submit(
    submitted: Submitted, workflow: Workflow, target: Target, argo: Argo, *, text: str, detach: bool, output: str
) -> int:
    run = ClusterRun(submitted, target)
    run.argo = argo
    announce(text, output)
    go_on = detached if detach else follow_to_end
    try:
        return go_on(run, output, start=_starter(run, workflow, follows=not detach))
    finally:
        run.close()


def _starter(run: ClusterRun, workflow: Workflow, *, follows: bool) -> Callable[[], None]:
    def start() -> None:
        # Noted first: a run that exists and is known nowhere would be worse than a note of one that does not.
        note_submitted(home(), run.submitted)
        try:
            run.argo.create(workflow)
        except ArgosyError as error:
            if error.exit_code is not ExitCode.TRANSIENT:  # which leaves open whether it was created
                forget_submitted(home(), run.name)
            raise
        if follows:
            run.follow(run.name)

    return start
