"""`why` when the cluster, its server or the storage cannot be read: answered from the rest, and said so."""

# ruff: noqa: F811

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.contracts.lifecycle import RunState
from components.contracts.run_view import EngineView, RunView
from components.report.report_files import write_report
from tests.pipelines.cli.test_on_cluster import Shell, a_pod, either_shell, leave_record, shell, storage  # noqa: F401


def test_a_run_that_ended_is_explained_from_its_storage_to_who_is_not_signed_in_any_more(
    either_shell: Shell, home: Path
) -> None:
    name = either_shell.submit()
    view = RunView(run=name, state=RunState.SUCCEEDED, exit_code=0, engine=EngineView(phase="Succeeded", exit_code=0))
    write_report(either_shell.store, view, now=datetime.now(UTC))
    leave_record(either_shell.store, name, "finish")
    either_shell.server.token = "another one"

    code, text = either_shell("why", name, "-o", "json")

    answer = json.loads(text)
    assert (code, answer["reason"], answer["exit_code"]) == (0, "Succeeded", 0)
    if either_shell.target == "kubernetes":  # which was asked for more
        assert answer["withheld"]["cluster"].startswith("NotSignedIn: ")


def test_a_run_of_which_nobody_says_anything_is_no_answer(either_shell: Shell, home: Path) -> None:
    name = either_shell.submit()
    either_shell.server.token = "another one"

    code, text = either_shell("why", name)

    assert (code, text.partition(":")[0]) == (78, "NotSignedIn")


def test_a_storage_that_refuses_is_named_beside_the_answer(
    either_shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = either_shell.submit()
    either_shell.becomes(name, "Failed", a_pod(name, "launch", "Failed", "main: Error (exit code 90): WorkerFailed: x"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    code, text = either_shell("why", name)

    assert code == 0
    assert "unseen  run: s3://" in text
    assert "NoCredentials: " in text


def test_a_server_that_refuses_is_named_beside_what_the_storage_tells(either_shell: Shell, home: Path) -> None:
    name = either_shell.submit()
    leave_record(either_shell.store, name, "preflight")
    either_shell.server.token = "another one"

    code, text = either_shell("why", name)

    assert code == 0
    assert f"unseen  {'cluster' if either_shell.target == 'kubernetes' else 'run'}: " in text
    assert "NotSignedIn: " in text
