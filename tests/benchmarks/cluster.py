"""What a cluster costs: commands, the way from submit to the gang's START hop by hop, reactions, the launcher.

Needs a cluster (`KUBECONFIG`, and what tests/cluster asks for); on the development cluster its `env` says all. Requests
are counted in the API server's audit log, where there is one.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.cluster.transport import USER_AGENT
from components.contracts.layout import stage_record_key
from tests.benchmarks.measure import ENTRY, Figure, cpu_seconds_of_children, python, wall_seconds
from tests.cluster.drills import Drill, moment, now
from tests.cluster.place import Place, a_place, wait_for_removed

CORPUS = {f"{name}.txt": f"The {name} of the corpus. ".encode() * 400 for name in ("first", "second", "third")}
IDLE_SECONDS = 120.0
NUM_SUBMITS = 3
_SECONDS = "s"

_MEMORY = """
import pathlib
for path in pathlib.Path("/proc").glob("[0-9]*"):
    if b"components.launch" in (path / "cmdline").read_bytes() and b"argoexec" not in (path / "cmdline").read_bytes():
        print(next(line.split()[1] for line in (path / "status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for place in a_place("bench", Path(folder)):
            corpus = place.upload("small", CORPUS)
            yield from _submitting(place, corpus)
            run = Drill(place, "bench", corpus=corpus)
            yield from _one_run(run)
        wait_for_removed()


def _submitting(place: Place, corpus: str) -> Iterator[Figure]:
    took, used = [], []
    for number in range(NUM_SUBMITS):
        run = Drill(place, f"submit-{number}", corpus=corpus)
        began, cpu = time.perf_counter(), cpu_seconds_of_children()
        done = run.command("submit", "-c", "run.yaml", "--target", "kubernetes", "--detach")
        took.append(time.perf_counter() - began)
        used.append(cpu_seconds_of_children() - cpu)
        assert done.returncode == 0, done.stderr
        place.kubectl("delete", "workflows.argoproj.io", "--all", "--wait=false")
    yield Figure("submit --detach, whole process", statistics.median(took), _SECONDS, 2.0)
    yield Figure("  of it CPU, which other load does not change", statistics.median(used), _SECONDS)


def _one_run(run: Drill) -> Iterator[Figure]:
    submitted_at = now()
    try:
        run.start()
        run.wait_for_steps(3)
        yield from _way_to_start(run, submitted_at)
        yield Figure(
            "status, whole process", wall_seconds(python(ENTRY, "status", run.name), env=run.env), _SECONDS, 1.0
        )
        yield from _restart_in_place(run)
        yield from _requests_while_idle(run)
        yield Figure("launcher, peak resident", _launcher_mib(run), "MiB", 130)
        yield from _failed_pod(run)
    finally:
        run.close()


def _way_to_start(run: Drill, submitted_at: float) -> Iterator[Figure]:
    """Hops of Argo (one pod's end to the next one's work) and our own work between them, on the way to the launcher."""
    before = submitted_at
    for task in ("shard-plan", "shard-task-0", "shard-merge"):
        record = _stage(run, task)
        yield Figure(f"  until {task} works", moment(record["started_at"]) - before, _SECONDS)
        before = moment(record["ended_at"])
        yield Figure(f"  {task}", before - moment(record["started_at"]), _SECONDS)
    preflight = _stage(run, "preflight")
    preflight_end = moment(preflight["ended_at"])
    yield Figure("  preflight, beside them", preflight_end - moment(preflight["started_at"]), _SECONDS)
    launched_at = moment(_stage(run, "launch")["started_at"])
    yield Figure("  until launch works", launched_at - max(before, preflight_end), _SECONDS)
    created_at, began_at = run.created_at(0), run.begins()[0]["at"]
    yield Figure("  launch, until it creates the gang", created_at - launched_at, _SECONDS)
    yield Figure("  gang created until START", began_at - created_at, _SECONDS)
    first = max(line.at for line in run.told() if line.event == "begins" and line.attempt == 0)
    yield Figure("  START until every rank's program runs", first - began_at, _SECONDS)
    yield Figure("submit to gang START", began_at - submitted_at, _SECONDS, 60)


def _stage(run: Drill, task: str) -> dict[str, Any]:
    found = run.document(stage_record_key(run.name, task=task, attempt=0))
    assert found is not None, f"no record of {task}"
    return found


def _restart_in_place(run: Drill) -> Iterator[Figure]:
    """The program says `begins` first of all: its own start is python's."""
    run.wait_for_verified(after=0)
    at = run.kill_rank(1)
    run.wait_for_begin(2)
    run.wait_for_steps(1, after=run.begins()[1]["at"])
    again = max(line.at for line in run.told() if line.event == "begins")
    yield Figure("rank killed: until every rank's program runs again", again - at, _SECONDS, 5)


def _requests_while_idle(run: Drill) -> Iterator[Figure]:
    """Of the launcher, while the gang trains and nothing happens.

    Argo's executor in its pod has the same account: it patches the task's result when there is progress to tell, as
    often as its controller is set to (ARGO_PROGRESS_PATCH_TICK_DURATION: a minute by default, 10 s on the development
    cluster).
    """
    log = os.environ.get("DEVCLUSTER_AUDIT_LOG", "")
    if not os.path.exists(log):
        return
    account = f"system:serviceaccount:{run.place.namespace}:argosy-launcher"
    time.sleep(10)
    begin = now()
    time.sleep(IDLE_SECONDS)
    asked = [item for item in _audited(Path(log), account) if moment(item["requestReceivedTimestamp"]) >= begin]
    ours = [item for item in asked if item["userAgent"] == USER_AGENT]
    watches = [item for item in ours if item["verb"] == "watch"]
    a_minute = 60 / IDLE_SECONDS
    yield Figure(
        "launcher's requests a minute while idle, no watches", (len(ours) - len(watches)) * a_minute, "requests", 1
    )
    yield Figure("launcher's watches begun a minute", len(watches) * a_minute, "requests")
    yield Figure("Argo's executor beside it, a minute", (len(asked) - len(ours)) * a_minute, "requests")


def _audited(log: Path, account: str) -> Iterator[dict[str, Any]]:
    mark = json.dumps(account)
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if mark in line and line.endswith("\n"):
                item = json.loads(line)
                if item["user"]["username"] == account:
                    yield item


def _launcher_mib(run: Drill) -> float:
    launcher = run.wait(run.launcher, "a launcher")["metadata"]["name"]
    said = run.place.kubectl("exec", launcher, "--container=main", "--", "python", "-c", _MEMORY)
    return max(float(word) for word in said.split()) / 1024


def _failed_pod(run: Drill) -> Iterator[Figure]:
    """A worker's pod is gone at once: from then to the launcher's word about it."""
    worker = run.living_workers()[1]["metadata"]["name"]
    launcher = run.wait(run.launcher, "a launcher")["metadata"]["name"]
    at = now()
    run.place.kubectl("delete", "pod", worker, "--grace-period=0", "--force", "--wait=false")

    def noticed() -> float | None:
        lines = run.place.kubectl("logs", launcher, "--container=main", may_fail=True).splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{")]
        return next((moment(item["at"]) for item in said if item["message"].startswith("the agent of node 1")), None)

    yield Figure("pod gone: until the launcher says so", run.wait(noticed, "the launcher's word") - at, _SECONDS, 2)
    begin = run.wait_for_begin(3)
    yield Figure("pod gone: until the next generation's START", begin["at"] - at, _SECONDS)
