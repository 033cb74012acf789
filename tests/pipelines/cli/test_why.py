"""`why` from the command line: saved evidence without a cluster, an API server at the wire, and what is refused."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.clock import now_text
from components.diagnosis.observed import Observed
from infra.local.run_dir import RunDir
from pipelines.cli.main import run
from pipelines.cli.why_watch import watch_run
from tests.components.diagnosis.made import NAMESPACE, a_cluster_node, a_pod, an_event, meta, unscheduled, waiting
from tests.fakes.api_server import FakeApiServer, answer, api_server
from tests.pipelines.cli.conftest import argosy, finish
from tests.runs import RUN

CASES = Path(__file__).parents[2] / "components" / "diagnosis" / "cases"
CANARY = "canary-3fe2a90c"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
SHORT = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeApiServer]:
    """A namespace with a run that launches."""
    with api_server() as found:
        kubeconfig = found.write_kubeconfig(tmp_path / "kubeconfig", namespace=NAMESPACE)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        _put_workflow(found, tmp_path / "storage")
        found.objects["/api/v1/nodes/gpu-1"] = a_cluster_node("gpu-1", gpus=0)
        yield found


def _put_workflow(server: FakeApiServer, storage: Path, phase: str = "Running") -> None:
    storage.mkdir(exist_ok=True)
    labels = {"argosy.dev/run": RUN, "argosy.dev/experiment": "tiny", "argosy.dev/model-version": "v1"}
    server.put(
        f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows/{RUN}",
        {
            "metadata": meta(RUN, labels=labels), "spec": {
                "entrypoint": "train", "arguments": {"parameters": [{"name": "storage", "value": f"file://{storage}"}]},
                "templates": [{"name": "train", "dag": {"tasks": [{"name": "launch", "template": "launch"}]}},
                              {"name": "launch", "container": {"env": [{"name": "TOKEN", "value": CANARY}]}}]},
            "status": {"phase": phase, "startedAt": "2026-11-29T12:00:01Z", "nodes": {"n": {
                "id": f"{RUN}-1", "name": f"{RUN}.launch", "displayName": "launch", "type": "Pod", "phase": phase,
                "startedAt": "2026-11-29T12:00:02Z"}}},
        },
    )  # fmt: skip


def put(server: FakeApiServer, *pods: dict[str, Any]) -> None:
    for pod in pods:
        server.put(f"{PODS}/{pod['metadata']['name']}", pod)


def why(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["why", *arguments])
    done = capsys.readouterr()
    return code, done.out, done.err


def asked(server: FakeApiServer, ending: str) -> list[dict[str, str]]:
    return [item.query for item in server.asked if item.path.endswith(ending)]


def test_the_first_line_is_the_cause_and_the_next_action(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, unscheduled(SHORT, 0), unscheduled(SHORT, 1))

    code, out, _ = why(capsys, RUN, "--target", "kubernetes")

    assert code == 0
    assert out.splitlines()[0] == (
        "TooLargeForAnyNode: node 0 of the gang (and 1 more) needs 8 nvidia.com/gpu on one node, and no node has any: "
        "of 2 nodes 2 with too little nvidia.com/gpu; ask for less a node (launch.nproc_per_node, launch.resources), "
        "or have such nodes added"
    )
    assert "condition PodScheduled: Unschedulable: 0/2 nodes" in out


def test_all_events_are_read_in_one_list_and_pods_by_their_labels(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, unscheduled(SHORT, 0))

    why(capsys, RUN, "--target", "kubernetes")

    assert asked(server, "/events") == [{"limit": "5000"}]
    assert sorted(query["labelSelector"] for query in asked(server, "/pods")) == [
        f"argosy.dev/run={RUN}", f"workflows.argoproj.io/workflow={RUN}",
    ]  # fmt: skip


def test_a_right_that_is_missing_is_named_and_the_rest_is_told(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, unscheduled(SHORT, 0))
    _refuse(server, "/nodes", 'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the '
            "cluster scope")  # fmt: skip

    code, out, _ = why(capsys, RUN, "--target", "kubernetes")

    assert code == 0
    assert out.startswith("GpuShortage: node 0 of the gang needs 8 nvidia.com/gpu free on one node")
    assert "nodes, not listed: this account may not list nodes" in out
    assert "unseen  nodes: Forbidden:" in out


def _put_from_template(server: FakeApiServer, name: str) -> None:
    """As a webhook, a schedule or a person makes it; labels come when the controller takes it up."""
    spec = {"workflowTemplateRef": {"name": "tiny"}}
    server.put(
        f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows/{name}", {"metadata": meta(name), "spec": spec}
    )


def test_a_workflow_that_nobody_has_taken_up_and_labelled_is_not_gone(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _put_from_template(server, "tiny-0123456789")

    code, out, _ = why(capsys, "tiny-0123456789", "--target", "kubernetes")

    assert code == 0
    assert out.startswith("ArgoSilent: ")


def test_a_workflow_with_a_name_that_no_run_may_have_is_explained_and_listed(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _put_from_template(server, "7.dots")
    labels = {"app.kubernetes.io/managed-by": "argosy", "argosy.dev/run": "7.dots"}
    server.objects[f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows/7.dots"]["metadata"]["labels"] = labels

    assert why(capsys, "7.dots", "--target", "kubernetes")[0] == 0
    assert run(["runs", "--target", "kubernetes"]) == 0
    assert "7.dots" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", "../x", "a b", "a,argosy.dev/run=b", "-x/y"])
def test_what_no_run_can_be_called_is_not_asked_for(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = len(server.asked)
    code, _, told = why(capsys, "--target", "kubernetes", "--", name)

    assert code == 78
    assert told.startswith("NoSuchRun: no run can be called ")
    assert len(server.asked) == before


def _refuse(server: FakeApiServer, ending: str, message: str) -> None:
    """Every request for that path, in whichever order they come."""

    def fault(handler: Any, item: Any) -> bool:
        server.faults.append(fault)
        return answer(403, message, reason="Forbidden")(handler, item) if item.path.endswith(ending) else False

    # One in the queue for each request that may be on its way at once.
    server.faults.extend([fault] * 16)


def test_saved_evidence_gets_the_same_answer_without_a_cluster_and_holds_no_secret(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pod = waiting("ErrImagePull", f'failed to pull and unpack image "r/train:1": {CANARY}: r/train:1: not found')
    pod["spec"]["containers"][0] |= {"env": [{"name": "A", "value": CANARY}], "args": [CANARY]}
    put(server, pod)
    server.put(f"{EVENTS}/e1", an_event(pod, "Failed", f"Error: {CANARY}"))
    path = tmp_path / "evidence.json"
    code, live, _ = why(capsys, RUN, "--target", "kubernetes", "--save", str(path), "-o", "json")
    num_asked = len(server.asked)

    again, saved, _ = why(capsys, "--evidence", str(path), "-o", "json")

    assert (code, again) == (0, 0)
    assert json.loads(saved) == json.loads(live)
    assert json.loads(saved)["reason"] == "ImageNotFound"
    assert json.loads(saved)["who"] == "you"
    assert len(server.asked) == num_asked
    assert CANARY not in path.read_text()


def test_a_watch_tells_another_answer_and_ends_with_the_run(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from pipelines.cli.find import find_run
    from pipelines.cli.targets import PlaceOptions

    put(server, unscheduled(SHORT, 0))
    looks = 0

    def next_thing(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            put(server, waiting("ErrImagePull", 'failed to pull image "r/train:1": not found'))
        if looks == 4:
            _put_workflow(server, tmp_path / "storage", "Succeeded")

    found = find_run(RUN, PlaceOptions(target="kubernetes"))
    watch_run(found, output="json", save=None, pause=next_thing)

    told = [json.loads(line)["reason"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["TooLargeForAnyNode", "ImageNotFound", "Succeeded"]


def test_every_recorded_case_is_an_evidence_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = why(capsys, "--evidence", str(CASES / "gpu-shortage.json"))

    assert code == 0
    assert out.startswith("GpuShortage: node 0 of the gang needs 6 amd.com/gpu free on one node: of 2 nodes 2 with")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"kind":"run-view"}', b'{"kind":"evidence","version":2}', b"\x00\xff", b'{"run": 7}'],
)
def test_a_file_that_is_no_evidence_is_refused(
    content: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    code, out, err = why(capsys, "--evidence", str(path))

    assert (code, out) == (78, "")
    assert err.startswith("NoEvidence: ")
    assert "why RUN --save FILE" in err


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("x", "--evidence", "f"), "RUN and --evidence"),
        (("--evidence", "f", "--watch", "--target", "local"), "--watch, --target and --evidence"),
        (("--evidence", "no-such-file"), "cannot read no-such-file"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: tuple[str, ...], seen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = why(capsys, *arguments)

    assert code == 78
    assert seen in err


def test_evidence_that_cannot_be_written_is_said(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = why(capsys, RUN, "--target", "kubernetes", "--save", "/no/such/folder/e.json")

    assert code == 78
    assert "EvidenceNotWritten" in err


def test_an_evidence_document_knows_whether_a_cluster_was_asked() -> None:
    observed = Observed.from_bytes((CASES / "gpu-shortage.json").read_bytes(), where="case")

    assert observed.is_of_cluster
    assert observed.taken_at < now_text()
    assert a_pod()["metadata"]["name"] not in {pod["metadata"]["name"] for pod in observed.pods}


def test_a_local_run_is_saved_and_explained_again_elsewhere(
    a_run: Callable[..., RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(a_run({"shard-plan": "exit 75"}))
    path = tmp_path / "evidence.json"
    live = json.loads(argosy("why", "--save", str(path), "-o", "json").stdout)
    monkeypatch.setenv("ARGOSY_HOME", str(tmp_path / "elsewhere"))

    _, out, _ = why(capsys, "--evidence", str(path), "-o", "json")

    assert json.loads(out) == live
    assert (live["reason"], live["who"], live["others"]) == ("NotAnswering", "admin", [])
