"""What stands in infra/gitops: the webhook's signature, its place, and examples that name real things."""

import json
from pathlib import Path

import pytest
import yaml

from infra.gitops.webhook import endpoint, main, push, signature

FOLDER = Path(__file__).parents[2] / "infra" / "gitops"


def test_a_body_is_signed_as_github_documents_it() -> None:
    assert (
        signature(b"Hello, World!", "It's a Secret to Everybody")
        == "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


def test_a_post_says_branch_and_commit() -> None:
    assert json.loads(push(commit="a" * 40, branch="main")) == {"ref": "refs/heads/main", "after": "a" * 40}
    assert endpoint("https://argo.example:2746/", namespace="ml", experiment="gpt") == (
        "https://argo.example:2746/api/v1/events/ml/gpt"
    )


def test_nothing_is_posted_unsigned(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("WEBHOOK_SECRET", raising=False)
    code = main(["https://127.0.0.1:1", "--namespace", "ml", "--experiment", "gpt", "--commit", "a" * 40])

    assert code == 78
    assert "WEBHOOK_SECRET" in capsys.readouterr().err


@pytest.mark.parametrize("commit", ["HEAD", "", "a" * 39, "A" * 40, "0" * 40])
def test_a_commit_that_would_start_nothing_is_not_posted(
    commit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", "x")
    code = main(["127.0.0.1:1", "--namespace", "ml", "--experiment", "gpt", "--commit", commit])

    assert code == 78
    told = capsys.readouterr().err
    assert "is no full SHA" in told
    assert "'127.0.0.1:1' is no address" in told


def test_a_server_that_does_not_answer_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", "x")
    code = main(["http://127.0.0.1:1", "--namespace", "ml", "--experiment", "gpt", "--commit", "a" * 40])

    assert code == 75


def test_the_application_deploys_a_folder_into_a_namespace_and_heals_it() -> None:
    spec = yaml.safe_load((FOLDER / "application.yaml").read_text())["spec"]

    assert spec["source"]["path"] == "deploy"
    assert spec["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}
