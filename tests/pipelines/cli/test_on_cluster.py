"""Runs on a cluster from the command line: an API server and an S3 server at the wire, no controller but the test."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from components.contracts.clock import now_text
from components.contracts.layout import report_key, stage_record_key
from components.contracts.lifecycle import RunState
from components.contracts.records import StageRecord
from components.contracts.run_view import EngineView, RunView, StageState, StageView
from components.contracts.stop import StopRequest
from components.report.report_files import write_report
from components.storage.s3 import S3Store
from pipelines.cli.main import run
from tests.fakes.api_server import Asked, FakeApiServer, Handler, answer, api_server, let_through
from tests.fakes.argo_server import ArgoHandler
from tests.fakes.s3_server import S3Server
from tests.pipelines.test_command_line import imported_by

DIGEST = "argosy@sha256:" + "a" * 64
ACCOUNTS = "/api/v1/namespaces/ml/serviceaccounts"
JANITOR = "/apis/apps/v1/namespaces/ml/deployments/argosy-janitor"
FOLDER = "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows"


class Shell:
    """What people type, and what they read."""

    def __init__(
        self, server: FakeApiServer, store: S3Store, capsys: pytest.CaptureFixture[str], target: str = "kubernetes"
    ) -> None:
        self.server, self.store, self._capsys, self.target = server, store, capsys, target

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = run(arguments)
        done = self._capsys.readouterr()
        return code, done.out + done.err

    def submit(self, *more: str) -> str:
        code, text = self(
            "submit", "--target", self.target, "--detach", "-o", "json", "--set", f"storage={self.store.uri}",
            "--set", f"platform_image={DIGEST}", *more,
        )  # fmt: skip
        assert code == 0, text
        return str(json.loads(text)["run"])

    def workflow(self, name: str) -> dict[str, Any]:
        return self.server.objects[f"{FOLDER}/{name}"]

    def workflows(self) -> list[dict[str, Any]]:
        return [item for path, item in self.server.objects.items() if path.startswith(f"{FOLDER}/")]

    def becomes(self, name: str, phase: str, *nodes: dict[str, Any], **spec: Any) -> None:
        """What a controller would write."""
        item = self.workflow(name)
        status = {"phase": phase, "startedAt": "2026-11-29T18:00:00Z", "nodes": {node["id"]: node for node in nodes}}
        self.server.put(f"{FOLDER}/{name}", {**item, "status": status, "spec": {**item["spec"], **spec}})


@pytest.fixture
def storage(home: Path, s3_server: S3Server, s3_store: S3Store, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_store


@pytest.fixture(params=["kubernetes", "argo-server"])
def either_shell(
    request: pytest.FixtureRequest, storage: S3Store, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:  # fmt: skip
    if request.param == "kubernetes":
        yield request.getfixturevalue("shell")
        return
    with api_server(ArgoHandler) as server:
        for name, value in (("SERVER", server.url), ("TOKEN", "Bearer good"), ("NAMESPACE", "ml")):
            monkeypatch.setenv(f"ARGO_{name}", value)
        yield Shell(server, storage, capsys, "argo-server")


@pytest.fixture
def shell(
    tmp_path: Path, storage: S3Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.write_kubeconfig(tmp_path / "kubeconfig")))
        server.put("/api/v1/namespaces/ml", {"metadata": {"name": "ml"}})
        for name in ("argosy-stage", "argosy-launcher"):
            server.put(f"{ACCOUNTS}/{name}", {"metadata": {"name": name}})
        server.put(JANITOR, {"metadata": {"name": "argosy-janitor"}})
        yield Shell(server, storage, capsys)


def a_pod(name: str, task: str, phase: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{name}-{task}", "name": f"{name}.{task}", "displayName": task, "type": "Pod", "phase": phase,
        "templateName": task, "message": message, **fields,
    }  # fmt: skip


def leave_record(store: S3Store, name: str, task: str) -> None:
    moment = now_text()
    record = StageRecord(task=task, attempt=0, node="n", started_at=moment, ended_at=moment, exit_code=0)
    store.replace(stage_record_key(name, task=task, attempt=0), record.to_bytes())


def test_a_run_is_submitted_looked_at_explained_stopped_and_listed_by_its_name_alone(either_shell: Shell) -> None:
    shell = either_shell
    name = shell.submit()
    workflow = shell.workflow(name)
    assert workflow["metadata"]["labels"]["argosy.dev/run"] == name
    values = {item["name"]: item["value"] for item in workflow["spec"]["arguments"]["parameters"]}
    assert (values["run"], values["storage"]) == (name, shell.store.uri)

    shell.becomes(name, "Running", a_pod(name, "preflight", "Pending", "ImagePullBackOff: no such image"))
    code, text = shell("status")
    assert (code, text.splitlines()[0]) == (0, f"{name}  Submitted")
    words = "ImageNotFound: preflight waits: its image is not in its registry: ImagePullBackOff: no such image; correct"
    assert words in text
    code, text = shell("why", name, "-o", "json")
    assert json.loads(text)["reason"] == "ImageNotFound"

    assert shell("stop", name)[0] == 0
    assert shell.workflow(name)["spec"]["shutdown"] == "Stop"
    shell.becomes(name, "Failed", a_pod(name, "preflight", "Failed", "workflow shutdown with strategy:  Stop"))
    code, text = shell("status", name)
    assert text.startswith(f"{name}  Stopped  exit code 83\nStopRequested: ")
    code, text = shell("runs", "--target", shell.target, "-o", "json")
    assert [(row["run"], row["state"], row["target"]) for row in json.loads(text)["runs"]] == [
        (name, "Stopped", shell.target)
    ]
    code, text = shell("stop", name)
    assert (code, text) == (78, f"NotRunning: run {name} has ended already (Stopped); nothing to stop\n")


def test_a_plain_stop_takes_back_no_kill(shell: Shell) -> None:
    name = shell.submit()
    shell.becomes(name, "Running")
    assert shell("stop", name, "--force")[0] == 0
    code, text = shell("stop", name)
    assert (code, text.partition(";")[0]) == (0, f"{name} is being killed")
    workflow = shell.workflow(name)
    assert workflow["spec"]["shutdown"] == "Terminate"
    assert json.loads(workflow["metadata"]["annotations"]["argosy.dev/stop"])["force"] is True


def test_a_resumed_run_is_another_workflow_of_the_same_run(shell: Shell) -> None:
    name = shell.submit()
    code, text = shell("resume", name)
    assert (code, text.partition(":")[0]) == (78, "StillRunning")
    shell.becomes(name, "Failed", a_pod(name, "preflight", "Failed"))

    assert shell("resume", name, "--detach")[0] == 0

    again = next(item for item in shell.workflows() if item["metadata"]["name"] != name)
    assert again["metadata"]["labels"]["argosy.dev/run"] == name
    assert again["spec"] == shell.workflow(name)["spec"]


def test_of_two_that_resume_a_run_at_once_one_is_told_that_it_runs(either_shell: Shell) -> None:
    shell = either_shell
    name = shell.submit()
    shell.becomes(name, "Failed", a_pod(name, "preflight", "Failed"))

    def somebody_is_quicker(handler: Handler, asked: Asked) -> bool:
        if asked.method == "POST":
            body = asked.body.get("workflow", asked.body)
            shell.server.put(f"{FOLDER}/{body['metadata']['name']}", {"metadata": dict(body["metadata"]), "spec": {}})
        else:
            shell.server.faults.append(somebody_is_quicker)
        return False

    shell.server.faults.append(somebody_is_quicker)
    code, text = shell("resume", name, "--detach")

    assert code == 78
    assert f"StillRunning: somebody else resumed run {name} just now, as Workflow {name}-" in text
    assert len(shell.workflows()) == 2


def test_a_run_that_somebody_resumed_a_moment_ago_is_not_resumed_again(shell: Shell) -> None:
    name = shell.submit()
    shell.becomes(name, "Failed", a_pod(name, "preflight", "Failed"))
    theirs = {"name": f"{name}-bbbbb", "labels": {"argosy.dev/run": name}, "creationTimestamp": "2126-11-29T18:00:00Z"}

    def is_resumed_meanwhile(handler: Handler, asked: Asked) -> bool:
        shell.server.put(f"{FOLDER}/{name}-bbbbb", {"metadata": theirs, "spec": {}, "status": {"phase": "Running"}})
        return False

    shell.server.faults += [let_through, is_resumed_meanwhile]
    code, text = shell("resume", name, "--detach")

    assert (code, text.splitlines()[-1]) == (78, f"StillRunning: run {name} is running; see `status {name}`")
    assert len(shell.workflows()) == 2


def test_a_run_whose_workflows_are_gone_is_resumed_from_its_description(shell: Shell) -> None:
    name = shell.submit()
    spec = shell.workflow(name)["spec"]
    shell.server.put(f"{FOLDER}/{name}", shell.workflow(name), "DELETED")

    _, text = shell("status", name)
    assert text.startswith(f"{name}  Failed  exit code 84\nWorkflowGone: ")
    assert shell("resume", name, "--detach")[0] == 0
    assert [item["spec"] for item in shell.workflows()] == [spec]


def test_a_run_that_failed_is_told_from_its_storage_once_its_workflow_is_deleted(shell: Shell) -> None:
    name = shell.submit()
    moment = now_text()
    record = StageRecord(
        task="launch", attempt=0, node="n", started_at=moment, ended_at=moment, exit_code=96, reason="NothingCommitted"
    )
    shell.store.replace(stage_record_key(name, task="launch", attempt=0), record.to_bytes())
    seen = RunView(
        run=name, state=RunState.FAILED, exit_code=96, failed_task="launch",
        stages=(StageView(task="launch", state=StageState.FAILED, exit_code=96),),
    )  # fmt: skip
    write_report(shell.store, seen, now=datetime.now(UTC))
    leave_record(shell.store, name, "finish")
    shell.server.put(f"{FOLDER}/{name}", shell.workflow(name), "DELETED")

    code, text = shell("status", name)
    assert (code, text.splitlines()[0]) == (0, f"{name}  Failed  exit code 96")
    assert "NothingCommitted: " in text


def test_a_run_that_was_stopped_is_still_stopped_once_its_workflow_is_deleted(shell: Shell) -> None:
    name = shell.submit()
    asked = EngineView(phase="Failed", exit_code=83, stop=StopRequest(by="ann@box", at=now_text()))
    view = RunView(run=name, state=RunState.STOPPED, exit_code=83, engine=asked, stop=asked.stop)
    write_report(shell.store, view, now=datetime.now(UTC))
    leave_record(shell.store, name, "finish")
    shell.server.put(f"{FOLDER}/{name}", shell.workflow(name), "DELETED")

    text = shell("status", name)[1]
    assert text.startswith(f"{name}  Stopped  exit code 83\nStopRequested: ann@box stopped the run")


def test_a_run_that_succeeded_is_told_from_its_storage_and_no_cluster_is_asked(shell: Shell) -> None:
    name = shell.submit()
    for task in ("preflight", "launch"):
        leave_record(shell.store, name, task)
    write_report(shell.store, RunView(run=name, state=RunState.SUCCEEDED, exit_code=0), now=datetime.now(UTC))
    leave_record(shell.store, name, "finish")
    assert shell.store.find(report_key(name, suffix="json")) is not None
    shell.server.asked.clear()

    code, text = shell("status", name)

    assert (code, text.splitlines()[0]) == (0, f"{name}  Succeeded")
    assert shell.server.asked == []
    assert imported_by("status", name) & {"hera", "kubernetes", "argo_workflows", "torch", "numpy"} == set()


def test_what_the_cluster_refuses_leaves_nothing_behind(shell: Shell, home: Path) -> None:
    shell.server.token = "another"

    code, text = shell(
        "submit", "--target", "kubernetes", "--set", f"storage={shell.store.uri}", "--set", f"platform_image={DIGEST}"
    )

    assert code == 78
    assert "NotSignedIn: " in text
    assert list(home.rglob("*.json")) == []
    shell.server.token = "good"
    for num_before in (2, 4):  # when it is asked whether the Workflow would be taken, and when it is created
        shell.server.faults += [let_through] * num_before
        shell.server.faults.append(answer(403, 'User "ann" cannot create resource "workflows"'))
        code, text = shell(
            "submit", "--target", "kubernetes", "--set", f"storage={shell.store.uri}",
            "--set", f"platform_image={DIGEST}",
        )  # fmt: skip
        assert code == 81
        assert 'Forbidden: "ann" may not create workflows.argoproj.io tiny-' in text
        assert list(home.rglob("*.json")) == []
    assert shell("submit", "--target", "kubernetes")[1].count("\n  ") == 2  # storage and platform_image


def test_a_namespace_that_is_not_there_or_not_prepared_is_told_before_anything_is_created(shell: Shell) -> None:
    description = ("--set", f"storage={shell.store.uri}", "--set", f"platform_image={DIGEST}")
    del shell.server.objects[f"{ACCOUNTS}/argosy-launcher"]

    code, text = shell("submit", "--target", "kubernetes", *description)
    assert code == 78
    assert "NoServiceAccount: namespace ml has no service account argosy-launcher; install infra/kubernetes" in text
    code, text = shell("submit", "--target", "kubernetes", "--namespace", "nowhere", *description)
    assert code == 78
    assert "NamespaceMissing: there is no namespace nowhere" in text
    assert shell.workflows() == []


def test_a_run_of_a_template_names_it_and_hands_over_its_parameters(shell: Shell) -> None:
    template = {
        "metadata": {"name": "train-tiny", "labels": {"argosy.dev/experiment": "tiny"}},
        "spec": {"arguments": {"parameters": [{"name": "run", "value": ""}, {"name": "storage", "value": "s3://bbb"}]}},
    }
    shell.server.put("/apis/argoproj.io/v1alpha1/namespaces/ml/workflowtemplates/train-tiny", template)
    place = ("submit", "--target", "kubernetes", "--detach", "--from-template")

    code, text = shell(*place, "train-tiny", "-p", f"storage={shell.store.uri}", "-o", "json")

    assert code == 0
    made = shell.workflow(json.loads(text)["run"])
    assert made["spec"]["workflowTemplateRef"] == {"name": "train-tiny"}
    assert {"name": "storage", "value": shell.store.uri} in made["spec"]["arguments"]["parameters"]
    assert shell(*place, "nothing")[1].startswith("NoSuchTemplate: ")
    assert "takes no parameter image; it has storage" in shell(*place, "train-tiny", "-p", "image=x")[1]
    assert shell("submit", "--from-template", "train-tiny")[1].startswith("Usage: templates are on a cluster")


def test_a_commit_that_is_no_full_sha_is_refused_before_anything_is_created(shell: Shell, home: Path) -> None:
    template = {
        "metadata": {"name": "train-tiny", "labels": {"argosy.dev/experiment": "tiny"}},
        "spec": {"arguments": {"parameters": [{"name": "run", "value": ""}, {"name": "commit", "value": ""}]}},
    }
    shell.server.put("/apis/argoproj.io/v1alpha1/namespaces/ml/workflowtemplates/train-tiny", template)
    place = ("submit", "--target", "kubernetes", "--detach", "--from-template", "train-tiny")

    code, text = shell(*place, "-p", "commit=main")

    assert (code, text.partition(":")[0]) == (78, "BadCommit")
    assert shell.workflows() == []
    assert list(home.rglob("*.json")) == []
    assert shell(*place, "-p", f"commit={'a' * 40}")[0] == 0


def test_stop_of_a_run_whose_workflow_was_deleted_says_what_becomes_of_it(shell: Shell) -> None:
    code, text = shell("stop", "--target", "kubernetes", "tiny-aaaaa")
    assert (code, text.partition(":")[0]) == (78, "NoSuchRun")
    assert "if it was deleted, nothing is left to stop, and `submit` takes its experiment over" in text


def test_a_stop_that_no_controller_sees_says_who_could_act(shell: Shell) -> None:
    name = shell.submit()
    created = shell.workflow(name)
    long_ago = {**created["metadata"], "creationTimestamp": "2026-11-29T18:00:00Z"}
    shell.server.put(f"{FOLDER}/{name}", {**created, "metadata": long_ago})

    assert shell("stop", name)[0] == 0

    code, text = shell("status", name)
    assert code == 0
    assert "NotTakenUp: " in text
    assert f"nothing of it runs: delete Workflow {name}, or see that one runs" in text


@pytest.mark.parametrize("command", ["status", "why", "logs", "stop", "resume"])
def test_a_run_of_a_namespace_that_is_not_there_is_no_missing_run(shell: Shell, command: str) -> None:
    code, text = shell(command, "--target", "kubernetes", "--namespace", "nowhere", "tiny-aaaaa")
    assert (code, text.partition(";")[0]) == (78, "NamespaceMissing: there is no namespace nowhere")


def test_logs_of_stage_pods_are_read_like_local_ones(shell: Shell) -> None:
    name = shell.submit()
    line = {"at": "2026-11-29T18:00:01.000Z", "level": "info", "message": "looked at everything", "task": "preflight"}
    shell.server.logs[f"{name}-preflight-preflight"] = json.dumps(line).encode() + b"\n"
    shell.becomes(name, "Running", a_pod(name, "preflight", "Succeeded", startedAt="2026-11-29T18:00:00Z"))

    code, text = shell("logs", name, "--stage", "preflight")

    assert code == 0
    assert text.endswith("preflight  looked at everything\n")
    shell.becomes(name, "Succeeded", a_pod(name, "preflight", "Succeeded", startedAt="2026-11-29T18:00:00Z"))
    assert shell("logs", "-f") == (0, text)
