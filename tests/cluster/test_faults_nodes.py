"""Nodes lost while a run trains: without the launcher on it, with the launcher on it, and one that comes back alive."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from components.contracts.cluster_names import GENERATION_LABEL
from tests.cluster.drills import Drill, devcluster, now
from tests.cluster.place import Place

Figure = Callable[[str, float], None]

LOST_AFTER = "15s"
"""How long a stage's node may be silent before the janitor repeats the stage elsewhere; the gang says the same."""

pytestmark = [
    pytest.mark.disturbing,
    pytest.mark.skipif("DEVCLUSTER_NODES" not in os.environ, reason="takes nodes away: for a development cluster only"),
]


def test_a_run_loses_nodes_and_finishes_without_training_twice(place: Place, corpus: str, figure: Figure) -> None:
    _quicken_the_janitor(place)
    run = Drill(place, "nodes", corpus=corpus)
    place.runs = (run,)
    try:
        run.start()
        run.wait_for_verified(after=0)
        _cut_and_mend(run, figure)
        _power_off_with_the_launcher(run, figure)
        run.wait_for_verified(after=now())
        _power_off_without_the_launcher(run, figure)
        run.complete()
    finally:
        run.close()


def _cut_and_mend(run: Drill, figure: Figure) -> None:
    """The ranks behind the cut cable go on for a while; what they still want to commit is of an older term."""
    launcher = run.wait(run.launcher, "a launcher")
    lost = next(name for name in _nodes() if name != launcher["spec"]["nodeName"])
    with _lost(lost, "cut", "mend", run.place) as at:
        begin = _begins_elsewhere(run, lost, at, "link of a node cut", figure)
    run.wait_for_verified(after=now())
    run.wait(lambda: not _pods_on(run, lost, before=begin["generation"]), "the old ranks to be gone from the node")
    assert _uid(run.launcher()) == _uid(launcher)


def _power_off_with_the_launcher(run: Drill, figure: Figure) -> None:
    lost = run.node_of_launcher()
    with _lost(lost, "power-off", "power-on", run.place) as at:
        _begins_elsewhere(run, lost, at, "node of launcher and gang powered off", figure)
        assert run.node_of_launcher() != lost


def _power_off_without_the_launcher(run: Drill, figure: Figure) -> None:
    """All ranks are on the launcher's node by now: the launcher moves first."""
    lost = run.node_of_launcher()
    launcher = run.move_launcher(lost)
    with _lost(lost, "power-off", "power-on", run.place) as at:
        _begins_elsewhere(run, lost, at, "node powered off", figure)
        assert _uid(run.launcher()) == _uid(launcher)


def _begins_elsewhere(run: Drill, lost: str, at: float, what: str, figure: Figure) -> dict[str, Any]:
    generation = run.generation()
    begin = run.wait_for_begin(len(run.begins()) + 1)
    figure(f"{what}: until the launcher goes on", run.created_at(generation + 1) - at)
    figure(f"{what}: until the next START", begin["at"] - at)
    figure(f"{what}: until every rank trains again", run.wait_for_steps(3, after=begin["at"]) - at)
    assert begin["generation"] == generation + 1
    assert lost not in {pod["spec"]["nodeName"] for pod in run.living_workers()}
    return begin


def _uid(pod: dict[str, Any] | None) -> str:
    return str(pod["metadata"]["uid"]) if pod else ""


def _pods_on(run: Drill, node: str, *, before: int) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in run.workers()
        if pod["spec"].get("nodeName") == node and int(pod["metadata"]["labels"][GENERATION_LABEL]) < before
    ]


def _nodes() -> list[str]:
    return os.environ["DEVCLUSTER_NODES"].split(",")


@contextmanager
def _lost(node: str, take: str, give: str, place: Place) -> Iterator[float]:
    """When it went. Back and Ready afterwards, whatever happens."""
    at = now()
    devcluster(take, node)
    try:
        yield at
    finally:
        devcluster(give, node)
        place.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=120s")


def _quicken_the_janitor(place: Place) -> None:
    """As whoever installs it may: the default of two minutes is for machines that restart."""
    path = "/spec/template/spec/containers/0/args"
    patch = json.dumps([{"op": "add", "path": path, "value": ["--lost-after", LOST_AFTER]}])
    place.kubectl("patch", "deployment", "argosy-janitor", "--type=json", "--patch", patch)
    place.kubectl("rollout", "status", "deployment/argosy-janitor", "--timeout=120s")
