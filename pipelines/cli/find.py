"""Finds a run by name or takes the latest: on this machine, among what was submitted from here, then on the cluster."""

import difflib
import os
from typing import TYPE_CHECKING

from components.errors import BadInput
from infra.local import client
from pipelines.cli.local_run import LocalRun, local_runs
from pipelines.cli.targets import PlaceOptions, resolve_target

if TYPE_CHECKING:
    from pipelines.cli.cluster_run import ClusterRun


def find_run(name: str | None, place: PlaceOptions) -> "LocalRun | ClusterRun":
    """The run of that name, or the latest one. Raises BadInput that suggests the nearest names.

    A run that was submitted from here is found wherever it is, unless `place` says where to look.
    """
    home, target = client.home(), resolve_target(place)
    here = {} if place.is_of_cluster else {run.name: run for run in local_runs()}
    if name in here:
        return here[name]
    noted = _noted(str(home))
    if place.target != "local" and (noted or not target.is_local):
        from pipelines.cli.find_on_cluster import find_cluster_run, latest_submitted

        found = find_cluster_run(name, target) if name is not None else latest_submitted(target)
        newest = list(here.values())[-1:] if name is None else []
        if found is not None and not (newest and newest[-1].info.created_at > found.submitted.created_at):
            return found
    if name is None:
        if place.is_of_cluster and noted:
            fix = "say its name; `runs` lists those of a cluster"
            raise BadInput("NoRuns", f"no run was submitted from here to {place}", fix)
        if not here:
            raise BadInput("NoRuns", f"there are no runs in {home}", "start one with `submit`")
        return list(here.values())[-1]
    if name in noted:
        raise BadInput("NoSuchRun", f"run {name} went to a cluster, and the target is local", "leave --target out")
    known = [*here, *noted]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [run for run in known if run.startswith(name)]
    fix = f"did you mean {' or '.join(near)}?" if near else "`runs` lists them"
    raise BadInput("NoSuchRun", f"there is no run {name} in {home}", fix)


def _noted(home: str) -> list[str]:
    """Names of the runs that were submitted to clusters from here."""
    try:
        names = os.listdir(os.path.join(home, "submitted"))
    except OSError:
        return []
    return [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]
