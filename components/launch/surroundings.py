"""Where this launcher is: what runs its gang, who it is in the ledger, and how it learns why it is told to go."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.contracts.pods import PodOptions
from components.errors import EnvironmentUnfit
from components.launch.backend import GangBackend
from components.launch.failure_policy import StopCause
from components.launch.process_backend import ProcessBackend
from components.launch.spec import LaunchSpec
from components.launch.wakeup import Wakeup
from components.ledger.ledger import Owner, is_gone, this_process
from components.runtime.leftovers import gang_mark
from components.runtime.stage import StageContext


@dataclass(frozen=True)
class Place:
    """One machine, or a cluster."""

    backend: GangBackend
    owner: Owner
    is_run_over: Callable[[str, Owner], bool]
    """Whether a run, whose launcher was that owner, can never run again."""
    ask: Callable[[], StopCause | None]
    """Why a SIGTERM came, where somebody else than this process knows."""
    program_folder: str
    """Where the program starts; empty: where its image says."""


def find_place(
    context: StageContext, spec: LaunchSpec, *, environ: Mapping[str, str], wakeup: Wakeup, agent_command: Sequence[str]
) -> Place:  # fmt: skip
    """`backend: auto` is process where the local engine runs us; else a JobSet, if the cluster has them, else a Job."""
    if spec.backend == "process" or (spec.backend == "auto" and environ.get("ARGOSY_TARGET", "") == "local"):
        return _this_machine(context, spec, environ, agent_command)
    return _this_cluster(context, spec, environ, wakeup)


def _this_machine(
    context: StageContext, spec: LaunchSpec, environ: Mapping[str, str], agent_command: Sequence[str]
) -> Place:  # fmt: skip
    backend = ProcessBackend(
        folder=Path.cwd() / "gang", mark=gang_mark(context.storage, context.run), environ=environ,
        agent_command=agent_command,
    )  # fmt: skip
    folder = spec.workdir  # in the code that travels, if any does
    if not spec.ships_code:
        folder = os.path.normpath(os.path.join(context.workdir or os.getcwd(), spec.workdir))
    owner = this_process(target=environ.get("ARGOSY_TARGET", "local"))
    return Place(backend, owner, lambda _, holder: is_gone(holder), lambda: None, folder)


def _this_cluster(context: StageContext, spec: LaunchSpec, environ: Mapping[str, str], wakeup: Wakeup) -> Place:
    if not (environ.get("KUBERNETES_SERVICE_HOST") or environ.get("KUBECONFIG")):
        raise EnvironmentUnfit(
            "NoBackend",
            f"launch.backend is {spec.backend} outside the local engine, but no cluster is given: neither "
            "KUBERNETES_SERVICE_HOST nor KUBECONFIG is set",
            "run with --target local, or say `launch.backend: process` to run every node inside the launcher's own pod",
        )  # fmt: skip
    # Only here: one machine needs none of it.
    from components.cluster.api import KubernetesCluster
    from components.launch.cluster_owner import RunsHere, owner_in_cluster
    from components.launch.pods_backend import PodsBackend, gang_kind
    from components.launch.workflow_intent import ask_workflow, find_workflow

    cluster = KubernetesCluster.connect()
    kind = gang_kind(cluster, spec.backend)
    if kind is None:
        raise EnvironmentUnfit(
            "NoBackend", f"launch.backend is {spec.backend}, and the cluster serves no such kind",
            "install JobSet, or say `launch.backend: job`",
        )  # fmt: skip
    workflow = find_workflow(cluster, context.workflow)
    backend = PodsBackend(
        cluster, kind, run=context.run, num_nodes=spec.num_nodes, options=_options(context, spec, environ),
        workflow=workflow, environ=environ, wakeup=wakeup, log=context.log,
    )  # fmt: skip
    owner = owner_in_cluster(cluster.namespace)
    ask = ask_workflow(cluster, workflow, context.log) if workflow else lambda: None
    return Place(backend, owner, RunsHere(cluster, owner, context.log).is_over, ask, spec.workdir)


def _options(context: StageContext, spec: LaunchSpec, environ: Mapping[str, str]) -> PodOptions:
    """The images may be parameters of the Workflow, which come as inputs; our own image is the agents'."""
    options = spec.pods or PodOptions()
    ours = context.inputs.get("platform_image", "") or options.platform_image or environ.get("ARGOSY_IMAGE", "")
    theirs = context.inputs.get("image", "") or options.image or ours
    return options.model_copy(update={"image": theirs, "platform_image": ours})
