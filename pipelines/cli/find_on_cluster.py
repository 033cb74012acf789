"""Finds runs that went to a cluster: by what was noted when they were submitted from here, else by asking it."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contracts.clock import now_text
from components.contracts.cluster_names import EXPERIMENT_LABEL, MODEL_VERSION_LABEL, RUN_LABEL
from components.errors import BadInput
from infra.argo.submission import runs_selector
from infra.argo.submitted import WORKFLOW_NAME, Submitted, matches, submitted_run, submitted_runs
from infra.argo.view import storage_environment_of, storage_of
from infra.local import client
from pipelines.cli.cluster_run import ClusterRun
from pipelines.cli.targets import Target

if TYPE_CHECKING:
    from infra.argo.argo import Argo, Workflow


_IF_DELETED = (
    "`runs` lists those there are; if it was deleted, nothing is left to stop, and `submit` takes its experiment over "
    "once its gang is gone"
)


def find_cluster_run(name: str, target: Target) -> ClusterRun | None:
    """The run of that name, or None where neither this machine's notes nor, unless it is local, `target` know it.

    What the command line says of its place goes before what was noted.
    """
    if not re.fullmatch(WORKFLOW_NAME, name):  # it would become part of a path, and of a label selector
        raise BadInput("NoSuchRun", f"no run can be called {name[:100]!r}", "`runs` lists those there are")
    submitted = submitted_run(client.home(), name)
    if submitted is not None:
        return _noted(submitted, target)
    return None if target.is_local else _run_of_others(name, target)


def latest_submitted(target: Target) -> ClusterRun | None:
    """The run that was submitted from here last, of those in the cluster and namespace that the command line says."""
    found = [item for item in submitted_runs(client.home()) if not target.is_elsewhere(item.place)]
    return _noted(found[-1], target) if found else None


def cluster_runs(target: Target) -> list[ClusterRun]:
    """Every run with a Workflow at `target`, newest first."""
    argo = target.connect()
    newest = {run_of(workflow): workflow for workflow in by_age(argo.list(labels=runs_selector()))}
    return [_found(name, workflow, target, argo) for name, workflow in reversed(newest.items())]


def by_age(workflows: "Sequence[Workflow]") -> "list[Workflow]":
    """Oldest first."""
    return sorted(
        workflows, key=lambda item: (str(item["metadata"].get("creationTimestamp", "")), item["metadata"]["name"])
    )


def run_of(workflow: "Workflow") -> str:
    """The run a Workflow belongs to: its label, else, as for one started elsewhere, its own name."""
    return str((workflow["metadata"].get("labels") or {}).get(RUN_LABEL) or workflow["metadata"]["name"])


def _noted(submitted: Submitted, target: Target) -> ClusterRun:
    """The run where it was submitted to, or where the command line says."""
    place = submitted.place
    if not (target.is_another_door(place) or target.is_elsewhere(place)):
        return ClusterRun(submitted, target)
    where = f"namespace {place.namespace} through {place.target}{f' {place.context or place.server}'.rstrip()}"
    otherwise = f"it was submitted to {where}: to look there, leave {target.given} out"
    return _run_of_others(submitted.run, target.instead_of(place), otherwise=otherwise)


def _run_of_others(name: str, target: Target, *, otherwise: str = _IF_DELETED) -> ClusterRun:
    argo = target.connect()
    found = by_age(argo.list(labels=runs_selector(name)))
    workflow = found[-1] if found else argo.read(name)
    if workflow is None:
        argo.require_namespace()
        raise BadInput("NoSuchRun", f"there is no Workflow of a run {name} in {argo.place}", otherwise)
    return _found(run_of(workflow), workflow, target, argo)


def _found(name: str, workflow: "Workflow", target: Target, argo: "Argo") -> ClusterRun:
    submitted, place = submitted_run(client.home(), name), target.place(argo)
    if submitted is not None and not matches(submitted.place, place):
        # Another door to the same run, or a run that has its name and nothing else in common.
        is_same = storage_of(workflow) == submitted.storage
        submitted = submitted.model_copy(update={"place": place}) if is_same else None
    if submitted is None:
        submitted = _submitted_of(name, workflow, target, argo)
    run = ClusterRun(submitted, target, known=workflow)
    run.argo = argo
    return run


def _submitted_of(name: str, workflow: "Workflow", target: Target, argo: "Argo") -> Submitted:
    """What a Workflow tells about a run that was submitted from elsewhere."""
    labels = workflow["metadata"].get("labels") or {}
    return Submitted(
        run=name, experiment=str(labels.get(EXPERIMENT_LABEL, "")),
        model_version=str(labels.get(MODEL_VERSION_LABEL, "")), place=target.place(argo),
        storage=storage_of(workflow), environment=storage_environment_of(workflow),
        created_at=str(workflow["metadata"].get("creationTimestamp") or now_text()),
    )  # fmt: skip
