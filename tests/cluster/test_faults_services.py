"""What a run leans on goes away for a while, one after the other: API server, storage, Argo, JobSet. It trains on."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.drills import Drill, devcluster, now
from tests.cluster.place import Place

Figure = Callable[[str, float], None]

AWAY_SECONDS = 20.0

pytestmark = [
    pytest.mark.disturbing,
    pytest.mark.skipif(
        "DEVCLUSTER_NODES" not in os.environ, reason="stops parts of the cluster: for a development cluster only"
    ),
]


def test_a_run_outlives_its_api_server_its_storage_and_the_controllers(
    place: Place, corpus: str, figure: Figure
) -> None:
    run = Drill(place, "services", corpus=corpus)
    place.runs = (run,)
    try:
        run.start()
        run.wait_for_steps(5)
        begins, launcher = run.begins(), run.wait(run.launcher, "a launcher")["metadata"]["uid"]
        for component, what in (("apiserver", "API server"), ("s3", "S3")):
            at = now()
            with _without(component):
                time.sleep(AWAY_SECONDS)
            figure(f"{what} away: for", now() - at)
            _trains_on(run, what, at, figure)
        for component, what in (("argo-controller", "Argo controller"), ("jobset", "JobSet controller")):
            at = now()
            devcluster("restart", component)
            _trains_on(run, what, at, figure)
        assert run.wait(run.launcher, "a launcher")["metadata"]["uid"] == launcher
        run.complete()
        assert run.begins() == begins
    finally:
        run.close()


def _trains_on(run: Drill, what: str, at: float, figure: Figure) -> None:
    """Ranks went on with their steps meanwhile, and what they save is committed and verified again."""
    run.wait_for_steps(3, after=now())
    figure(f"{what}: longest time without a step", run.longest_silence(since=at))
    back = now()
    run.wait_for_verified(after=back)
    figure(f"{what} is back: until a checkpoint is verified", now() - back)


@contextmanager
def _without(component: str) -> Iterator[None]:
    devcluster("kill", component)
    try:
        yield
    finally:
        devcluster("start", component)
