"""The launch stage with its gang in pods: it trains on without its launcher, and ends with what the Workflow wants."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.pods import LostNodeRule, PodOptions
from components.launch.spec import LaunchSpec
from tests.components.launch.stage import REAL_STAGE, Stage, wait_until
from tests.components.launch.test_with_agents import FINAL_LOSS, RealPlace, a_run
from tests.fakes.api_server import FakeApiServer, api_server
from tests.fakes.kubelet import JOBS, Kubelet, Pod

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="the gang needs Linux"),
]

WORKFLOW = "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows/exp-abcde"
IMAGES = {"image": "user:1", "platform_image": "argosy:1"}
OPTIONS = PodOptions(**IMAGES, lost_node=LostNodeRule(policy="wait"))


class ClusterPlace(RealPlace):
    """A place whose gang runs in a cluster."""

    server: FakeApiServer
    kubelet: Kubelet

    def launch(self, spec: LaunchSpec) -> Stage:
        return self.start(
            spec, stage=REAL_STAGE, ARGOSY_TARGET="kubernetes", KUBECONFIG=str(self.folder / "kubeconfig"),
            ARGOSY_STOP_FILE="",
        )  # fmt: skip

    def jobs(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.server.objects if path.startswith(f"{JOBS}/")]

    def left_over(self) -> list[str]:
        kinds = ("/jobs/", "/pods/", "/secrets/", "/services/")
        return [path for path in self.server.objects if any(kind in path for kind in kinds)]

    def pod(self, index: int, generation: int = 0) -> Pod:
        def is_there() -> bool:
            with contextlib.suppress(StopIteration):
                return self.kubelet.pod(index, generation) is not None
            return False

        wait_until(is_there, f"pod {index} of generation {generation}")
        return self.kubelet.pod(index, generation)

    def tell_workflow(self, **spec: Any) -> None:
        self.server.put(WORKFLOW, {"metadata": {"name": "exp-abcde", "uid": "w1"}, "spec": spec, "status": {}})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ClusterPlace]:
    with api_server() as server:
        place = ClusterPlace(tmp_path)
        place.server = server
        environ = {**os.environ, "PYTHONPATH": os.getcwd(), "ARGOSY_CACHE": str(tmp_path / "cache")}
        place.kubelet = Kubelet(server, tmp_path / "pods", environ)
        server.write_kubeconfig(tmp_path / "kubeconfig")
        place.tell_workflow()
        thread = threading.Thread(target=place.kubelet.run)
        thread.start()
        yield place
        place.kubelet.close()
        thread.join()
        place.close()


def a_gang(*options: str, **changes: Any) -> LaunchSpec:
    return a_run(*options, pods=OPTIONS, **changes)


def test_a_gang_of_pods_trains_as_one_of_processes_does_and_leaves_nothing(place: ClusterPlace) -> None:
    stage = place.launch(a_gang())
    assert stage.wait(120) == 0
    assert stage.outputs["checkpoint"] == "step-40-term-1"
    assert place.final_loss() == FINAL_LOSS
    assert place.state.backend == "job"
    assert place.state.generations[0].nodes == ("node-0", "node-1")
    assert place.left_over() == []
    assert "rank 0 starts at step 0" in [line["message"] for line in stage.log]
    lists = [item for item in place.server.asked if item.method == "GET" and item.path.endswith(("/pods", "/jobs"))]
    # One look each for what an earlier launcher left and for each watch, however long the training takes.
    assert len([item for item in lists if not item.query.get("watch")]) == 3


def test_a_killed_launcher_leaves_the_gang_training_and_the_next_one_adopts_it(place: ClusterPlace) -> None:
    first = place.launch(a_gang("--seconds", "0.2"))
    place.wait_for_step(3)
    first.signal(signal.SIGKILL)
    first.process.wait()
    second = place.launch(a_gang("--seconds", "0.2"))
    assert second.wait(120) == 0
    assert "generation 0 runs: it is taken over" in [line["message"] for line in second.log]
    assert [view.generation for view in place.state.generations] == [0]
    assert second.outputs["restarts"] == "0"
    assert place.left_over() == []


def test_sigterm_without_intent_leaves_the_gang_alone_and_a_stop_ends_it(place: ClusterPlace) -> None:
    first = place.launch(a_gang("--steps", "4000"))
    place.wait_for_step(3)
    first.signal(signal.SIGTERM)
    first.signal(signal.SIGTERM)
    assert first.wait(60) == 84
    assert first.last_words == (
        "Interrupted: SIGTERM without a stop request; the gang trains on; the next attempt takes it over"
    )
    assert place.jobs() == ["exp-abcde-g0"]
    second = place.launch(a_gang("--steps", "4000"))
    wait_until(lambda: any("taken over" in line["message"] for line in second.log), "the gang adopted")
    place.tell_workflow(shutdown="Stop")
    second.signal(signal.SIGTERM)
    assert second.wait(60) == 83
    assert second.last_words.startswith("StopRequested: ")
    assert place.left_over() == []
    assert place.kubelet.pods == {}


def test_an_evicted_pod_saves_its_work_and_the_next_generation_goes_on_from_there_for_free(
    place: ClusterPlace,
) -> None:
    stage = place.launch(a_gang("--seconds", "0.2", max_restarts=0))
    place.wait_for_step(3)
    place.kubelet.delete_pod(place.pod(1), reason="EvictionByEvictionAPI")
    assert stage.wait(120) == 0
    begun = [(view.begin_reason, view.charged) for view in place.state.generations]
    assert begun == [("Start", False), ("Preempted", False)]
    assert place.final_loss() == FINAL_LOSS
    second = place.gang_state(1)
    assert second is not None
    assert second.attempts[0].resumed_step >= 3


def test_a_lost_node_is_waited_for_and_then_avoided(place: ClusterPlace) -> None:
    stage = place.launch(a_gang("--seconds", "0.2"))
    place.wait_for_step(3)
    lost = place.pod(1)
    with place.kubelet.lock:
        lost.is_cut_off = True
    for process in (lost.program, lost.agent):  # the power is off
        os.kill(process.pid, signal.SIGKILL)
    not_ready = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    place.server.put("/api/v1/nodes/other", {"metadata": {"name": "other", "uid": "n2"}, "status": {}})  # it answers
    place.server.put("/api/v1/nodes/node-1", {"metadata": {"name": "node-1", "uid": "n1"}, "status": not_ready})
    wait_until(lambda: any("does not answer" in line["message"] for line in stage.log), "the node is noticed")
    wait_until(lambda: "exp-abcde-g0" not in place.jobs(), "the gang removed")
    place.server.put(lost.path, lost.manifest, "DELETED")  # as the janitor does
    assert stage.wait(120) == 0
    assert place.state.generations[1].begin_reason == "NodeLost"
    assert place.state.generations[1].excluded_nodes == ("node-1",)
    job = place.kubelet.seen_jobs[f"{JOBS}/exp-abcde-g1"]
    assert "node-1" in json.dumps(job["spec"]["template"]["spec"]["affinity"])
    assert place.final_loss() == FINAL_LOSS


def test_a_gang_that_gets_no_pods_ends_with_what_was_missing_and_nothing_is_left(place: ClusterPlace) -> None:
    place.kubelet.holds_back = True
    limits = a_gang().limits.model_copy(update={"start_seconds": 2.0})
    stage = place.launch(a_gang(limits=limits))
    assert stage.wait(60) == 83
    assert "nodes 0, 1 never started (it has no pod)" in stage.last_words
    assert place.left_over() == []


def test_what_somebody_else_made_under_the_gangs_name_is_named_and_left_alone(place: ClusterPlace) -> None:
    theirs = "/api/v1/namespaces/ml/services/exp-abcde-g0"
    place.server.put(theirs, {"metadata": {"name": "exp-abcde-g0"}, "spec": {"selector": {"app": "other"}}})
    stage = place.launch(a_gang())
    assert stage.wait(60) == 78
    assert "Service exp-abcde-g0" in stage.last_words
    assert "NameTaken" in stage.last_words
    assert place.left_over() == [theirs]


def test_a_rank_that_keeps_failing_is_named_and_the_gang_removed(place: ClusterPlace) -> None:
    stage = place.launch(a_gang("--fault", "1:5:exit7", max_restarts=0))
    assert stage.wait(120) == 90
    assert "rank 1 on node 1 exited with code 7" in stage.last_words
    assert place.left_over() == []
