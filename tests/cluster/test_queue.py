"""A gang in Kueue's queue on a real cluster: admitted whole or not at all, and what it is told while it waits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components.cluster.kinds import JOB_SETS
from components.contracts.cluster_names import RUN_LABEL
from infra.kubernetes.tenant.tenant import Tenant
from tests.cluster.harness import ClusterRun, expected_loss, wait_until
from tests.cluster.place import Place
from tests.cluster.queues import a_share

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def share(place: Place) -> Iterator[Tenant]:
    yield from a_share(place, priorities=("low", "high"))


def queued(place: Place, priority: str = "", **more: Any) -> dict[str, Any]:
    named = {"priority": f"{place.namespace}-{priority}"} if priority else {}
    return {"queue": {"name": "main", **named}, "launch__backend": "jobset", **more}


def wait_for_state(run: ClusterRun, state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        told = run.launch_state()
        return told if told and told["state"] == state and (told.get("queue") or {}).get("position") else None

    return wait_until(look, what=f"the run to be {state}", give_up=run.over)


def jobsets(run: ClusterRun) -> list[dict[str, Any]]:
    return list(run.place.cluster.list(JOB_SETS, labels=f"{RUN_LABEL}={run.name}").items)


def test_a_run_that_waits_has_no_pods_and_one_that_must_make_room_goes_on_for_free(
    place: Place, share: Tenant, runs: Callable[..., ClusterRun], figure: Callable[[str, float], None]
) -> None:
    endless = {"steps": 100_000, "arguments": ("--more", "20")}  # until it must make room; then only a little more
    low = runs("low", **endless, **queued(place, "low"), launch__max_restarts=0).start()
    low.wait_for_step(12)
    same = runs("same", steps=10, **queued(place, "low")).start()
    waiting = wait_for_state(same, "Queued")
    assert waiting["reason"] == "QuotaBusy"
    assert waiting["queue"]["position"] == 1
    quota = {item["resource"]: item for item in waiting["queue"]["quota"]}
    assert (quota["cpu"]["used"], quota["cpu"]["quota"], quota["cpu"]["used_by_others"]) == ("400m", "450m", "0")
    assert "others" not in waiting["queue"]
    assert same.workers() == []
    assert [item["spec"]["suspend"] for item in jobsets(same)] == [True]

    high = runs("high", steps=10, **queued(place, "high")).start()
    preempted = wait_for_state(low, "Preempted")
    first = preempted["generations"][0]
    assert (first["exit_code"], first["reason"]) == (95, "Preempted")
    assert first["message"].startswith("Preempted: Preempted to accommodate a workload")
    assert high.finish() == 0
    assert low.finish() == 0
    told = low.launch_state()
    assert told is not None
    second = told["generations"][1]
    assert (second["begin_reason"], second["charged"]) == ("Preempted", False)
    resumed = low.gang_states()[1]["attempts"][0]["resumed_step"]
    assert resumed >= 12  # what the ranks saved within their grace, not the last multiple of five
    assert low.gang_states()[0]["last_step"]["step"] == resumed
    assert low.losses()[resumed + 20] == expected_loss(resumed + 20)
    assert same.finish() == 0
    figure("a preempted run waited for its place", second["queued_seconds"])


def test_what_can_never_be_admitted_is_refused_before_anything_is_created(
    place: Place, share: Tenant, runs: Callable[..., ClusterRun]
) -> None:
    unknown = runs("unknown", queue={"name": "mian"}, launch__backend="jobset").start()
    assert unknown.finish() == 78
    assert f"there is no LocalQueue mian in namespace {place.namespace}" in unknown.terminal()
    assert "set queue.name to one of main" in unknown.terminal()
    place.kubectl("patch", "localqueue", "main", "--type=merge", '--patch={"spec": {"stopPolicy": "Hold"}}')
    try:
        stopped = runs("stopped", **queued(place)).start()
        assert stopped.finish() == 81
        assert "LocalQueue main is stopped (stopPolicy Hold)" in stopped.terminal()
        assert [list((run.home / "submitted").glob("*.json")) for run in (unknown, stopped)] == [[], []]
    finally:
        place.kubectl("patch", "localqueue", "main", "--type=merge", '--patch={"spec": {"stopPolicy": "None"}}')


def test_a_gang_that_no_quota_holds_is_refused_by_the_launcher_with_the_resource(
    place: Place, share: Tenant, runs: Callable[..., ClusterRun]
) -> None:
    large = runs("large", num_nodes=3, **queued(place)).start()  # this account may not see the quota, the launcher may
    assert large.finish() == 78
    told = large.launch_state()
    assert told is not None
    assert told["reason"] == "GangTooLarge"
    assert large.gang_objects() == []
