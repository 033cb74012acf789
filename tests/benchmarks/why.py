"""How long `why` takes in a crowded namespace: 2 000 pods and 5 000 events, over HTTP from a server of ours."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from components.contracts.clock import parse_utc
from components.diagnosis.judge import judge
from components.diagnosis.observed import Observed
from tests.benchmarks.measure import ENTRY, Figure, python, wall_seconds
from tests.components.diagnosis import made
from tests.components.diagnosis.made import (
    NAMESPACE,
    a_cluster_node,
    a_pod,
    an_event,
    evidence,
    merged,
    meta,
    unscheduled,
)
from tests.fakes.api_server import FakeApiServer, api_server
from tests.runs import RUN

NUM_PODS, NUM_EVENTS, NUM_NODES = 2_000, 5_000, 300
_MESSAGE = "0/300 nodes are available: 100 node(s) had untolerated taint(s), 200 Insufficient nvidia.com/gpu."


def figures() -> Iterator[Figure]:
    yield Figure("classify 2 000 pods and 5 000 events of one run, CPU", _classify(*_crowd_of_one_run()), "s", 0.05)
    yield Figure("classify 2 pods among 300 nodes, CPU", _classify(*_two_pods()), "s", 0.05)
    with tempfile.TemporaryDirectory() as folder, api_server() as server:
        yield from _whole(server, Path(folder))


def _classify(observed: Observed, repeat: int = 15) -> float:
    now = parse_utc(observed.taken_at)
    judge(observed, now)
    took = []
    for _ in range(repeat):
        began = time.process_time()
        judge(observed, now)
        took.append(time.process_time() - began)
    return statistics.median(took)


def _crowd_of_one_run() -> tuple[Observed]:
    pods = [unscheduled(_MESSAGE, rank) for rank in range(NUM_PODS)]
    events = [an_event(pods[n % NUM_PODS], "FailedScheduling", _MESSAGE, n % 60) for n in range(NUM_EVENTS)]
    return (evidence(*pods, events=tuple(events)),)


def _two_pods() -> tuple[Observed]:
    nodes = tuple(a_cluster_node(f"n{n}", taint="reserved" if n < 100 else "") for n in range(NUM_NODES))
    return (evidence(unscheduled(_MESSAGE, 0), unscheduled(_MESSAGE, 1), nodes=nodes),)


def _whole(server: FakeApiServer, folder: Path) -> Iterator[Figure]:
    _fill(server, storage=folder / "storage")
    env = {
        "ARGOSY_HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder), "PATH": os.environ["PATH"],
        "KUBECONFIG": str(server.write_kubeconfig(folder / "kubeconfig", namespace=NAMESPACE)),
    }  # fmt: skip
    argv = python(ENTRY, "why", RUN, "--target", "kubernetes", "-o", "json")
    yield Figure("why, whole process, 2 000 pods and 5 000 events", wall_seconds(argv, env=env), "s", 1.5)
    asked = [item.path.rpartition("/")[2] for item in server.asked]
    num_lists = sum(name == "events" for name in asked) / max(sum(name == "nodes" for name in asked), 1)
    yield Figure("lists of events a look", num_lists, "requests", 1)


def _fill(server: FakeApiServer, *, storage: Path) -> None:
    """The run's two pods among those of others; one object in a thousand is large."""
    storage.mkdir()
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    events = f"/api/v1/namespaces/{NAMESPACE}/events"
    own = [unscheduled(_MESSAGE, rank) for rank in range(2)]
    others = [
        merged(a_pod(0, uid=f"other-{n}"), {"metadata": meta(f"other-{n}", uid=f"other-{n}", labels={"team": "b"})})
        for n in range(NUM_PODS - 2)
    ]
    padding = {"managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{n}": {} for n in range(40)}}]}
    for pod in [*own, *others]:
        item = merged(pod, {"metadata": padding})
        server.objects[f"{pods}/{pod['metadata']['name']}"] = item
    everyone = [*own, *others]
    for n in range(NUM_EVENTS):
        event = an_event(everyone[n % len(everyone)], "FailedScheduling", _MESSAGE, n % 60)
        event["metadata"] = meta(f"e{n}") | padding
        server.objects[f"{events}/e{n:05d}"] = event
    for n in range(NUM_NODES):
        node = a_cluster_node(f"n{n}", taint="reserved" if n < 100 else "")
        server.objects[f"/api/v1/nodes/n{n}"] = node
    labels = {"argosy.dev/run": RUN, "argosy.dev/experiment": "tiny", "argosy.dev/model-version": "v1"}
    parameters = [{"name": "storage", "value": f"file://{storage}"}]
    workflow = {
        "metadata": meta(RUN, labels=labels, created=0),
        "spec": {"arguments": {"parameters": parameters}, "entrypoint": "train",
                 "templates": [{"name": "train", "dag": {"tasks": [{"name": "launch", "template": "launch"}]}}]},
        "status": {"phase": "Running", "startedAt": made.time(0), "nodes": {"n": {
            "id": f"{RUN}-1", "name": f"{RUN}.launch", "displayName": "launch", "type": "Pod", "phase": "Running",
            "startedAt": made.time(1)}}},
    }  # fmt: skip
    server.objects[f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows/{RUN}"] = workflow
