"""`compile --cluster`: an edit in the cluster, another render, what may not be looked at; an API server at the wire."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import run
from tests.fakes.api_server import FakeApiServer, answer, api_server
from tests.pipelines.test_renders import PLACE, objects

FOLDER = "/apis/argoproj.io/v1alpha1/namespaces/research/workflowtemplates"
COMPILE = ["compile", "--recipe", "tiny", *(word for text in PLACE for word in ("--set", text)), "--cluster"]


@pytest.fixture
def server(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    with api_server() as made:
        monkeypatch.setenv("KUBECONFIG", str(made.write_kubeconfig(tmp_path / "kubeconfig")))
        yield made


def applied(server: FakeApiServer, template: dict[str, Any]) -> dict[str, Any]:
    """As a server keeps it, with its own notes and those of other tools."""
    kept = copy.deepcopy(template)
    kept["metadata"]["annotations"]["tool.example/note"] = "x"
    kept["metadata"]["labels"]["tool.example/instance"] = "x"
    kept["metadata"]["managedFields"] = [
        {"manager": "argocd", "time": "2026-11-30T01:00:00Z"},
        {"manager": "kubectl-edit", "time": "2026-11-30T02:00:00Z"},
    ]
    return server.put(f"{FOLDER}/tiny", kept)


def compiled(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    code = run([*COMPILE, *more])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_what_was_applied_is_what_is_rendered(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    applied(server, objects(kind="template")["WorkflowTemplate"])

    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 0
    assert out == "namespace research, context here: is what recipe tiny renders as template\n"


def test_an_edit_that_took_the_digest_away_is_not_taken_for_another_render(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    template = objects(kind="template")["WorkflowTemplate"]
    template["spec"]["activeDeadlineSeconds"] = 60
    del template["metadata"]["labels"]["argosy.dev/content"]
    applied(server, template)

    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 81
    assert "label argosy.dev/content is gone, so it was edited in the cluster or was never rendered" in out
    assert "another render" not in out


def test_an_edit_in_the_cluster_is_told_with_its_field_and_the_last_writer(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    template = objects(kind="template")["WorkflowTemplate"]
    template["spec"]["templates"][0]["container"]["image"] = "registry.example/other:1"
    applied(server, template)

    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 81
    assert "it was edited in the cluster, last by kubectl-edit at 2026-11-30T02:00:00Z" in out
    assert 'spec.templates[shard-plan].container.image: "registry.example/other:1" → "registry.example/argosy@' in out
    assert "tool.example" not in out


def test_an_older_render_is_not_called_an_edit(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    applied(server, objects("seed=7", kind="template")["WorkflowTemplate"])

    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 81
    assert "another render was applied" in out
    assert "[launch].container.args.--spec.seed: 7 → 1234" in out


def test_what_is_not_there_is_told(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 81
    assert "WorkflowTemplate tiny: is not there; apply the render" in out


def test_what_may_not_be_looked_at_is_not_taken_for_right(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults.append(
        answer(403, 'workflowtemplates is forbidden: User "ann" cannot get resource "workflowtemplates"')
    )

    code, out, _ = compiled(capsys, "--as", "template")

    assert code == 81
    assert "WorkflowTemplate tiny: cannot be looked at: Forbidden" in out


def test_a_folder_that_differs_counts_before_a_cluster_that_does(
    server: FakeApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = compiled(capsys, "--as", "template", "--check", str(tmp_path / "none"))

    assert code == 78
    assert "workflow-template.yaml: is missing" in out
    assert "is not there; apply the render" in out
