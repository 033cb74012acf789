"""Parts of one run taken away, one after the other, while it trains: a rank, the launcher, a worker's pod, a node's."""

import json
from collections.abc import Callable

from tests.cluster.drills import Drill, now
from tests.cluster.place import Place

Figure = Callable[[str, float], None]


def test_a_run_loses_a_rank_a_launcher_and_a_worker_and_finishes(place: Place, corpus: str, figure: Figure) -> None:
    run = Drill(place, "parts", corpus=corpus)
    place.runs = (run,)
    try:
        run.start()
        run.wait_for_steps(5)
        _kill_a_rank(run, figure)
        _delete_the_launcher(run, figure)
        run.wait_for_verified(after=now())
        _delete_a_worker(run, figure)
        _drain_a_worker(run, figure)
        run.complete()
    finally:
        run.close()


def _kill_a_rank(run: Drill, figure: Figure) -> None:
    """The others of its gang and every pod stay; all ranks start again in place."""
    before = run.living_workers()
    at = run.kill_rank(1)
    begin = run.wait_for_begin(2)
    figure("rank killed: until the next START", begin["at"] - at)
    figure("rank killed: until every rank trains again", run.wait_for_steps(3, after=begin["at"]) - at)
    assert (begin["generation"], begin["attempt"], begin["charged"]) == (0, 1, True)
    assert _uids(run.living_workers()) == _uids(before)


def _delete_the_launcher(run: Drill, figure: Figure) -> None:
    """Its next attempt takes the gang over, and the ranks notice nothing."""
    before, begins = run.living_workers(), len(run.begins())
    launcher = run.wait(run.launcher, "a launcher")
    at = now()
    run.place.kubectl("delete", "pod", launcher["metadata"]["name"], "--wait=false")
    run.another_launcher(launcher)
    figure("launcher deleted: until another has taken over", now() - at)
    run.wait_for_steps(5, after=now())
    figure("launcher deleted: longest time without a step", run.longest_silence(since=at))
    assert len(run.begins()) == begins
    assert _uids(run.living_workers()) == _uids(before)


def _delete_a_worker(run: Drill, figure: Figure) -> None:
    """A new generation, charged."""
    begins = len(run.begins())
    at = now()
    run.place.kubectl("delete", "pod", run.living_workers()[0]["metadata"]["name"], "--wait=false")
    begin = run.wait_for_begin(begins + 1)
    figure("worker deleted: until the launcher goes on", run.created_at(1) - at)
    figure("worker deleted: until the next START", begin["at"] - at)
    figure("worker deleted: until every rank trains again", run.wait_for_steps(3, after=begin["at"]) - at)
    assert (begin["generation"], begin["charged"]) == (1, True)


def _drain_a_worker(run: Drill, figure: Figure) -> None:
    """As `kubectl drain` does it, by the eviction API. Ranks save in their grace, and the next generation goes on from
    there, for free.
    """
    begins, name = len(run.begins()), run.living_workers()[0]["metadata"]["name"]
    run.wait_for_steps(2, after=now())
    at, namespace = now(), run.place.namespace
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    run.place.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    begin = run.wait_for_begin(begins + 1)
    figure("worker drained: until the next START", begin["at"] - at)
    figure("worker drained: until every rank trains again", run.wait_for_steps(3, after=begin["at"]) - at)
    assert (begin["generation"], begin["charged"]) == (2, False)
    saved = [item["change"] for item in run.records() if item["change"]["kind"] == "commit"]
    assert begin["source"] == saved[-1]["checkpoint"], (begin, saved[-1])


def _uids(pods: list[dict[str, object]]) -> list[object]:
    return [pod["metadata"]["uid"] for pod in pods]  # type: ignore[index]
