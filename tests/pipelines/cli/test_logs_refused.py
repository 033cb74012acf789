"""`logs` of a run whose stages' output may not be read: ranks' lines are shown all the same, then what was refused."""

# ruff: noqa: F811

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contracts.clock import now_text
from components.contracts.layout import log_folder
from components.storage.s3 import S3Store
from tests.fakes.api_server import Asked, api_server
from tests.fakes.argo_server import ArgoHandler
from tests.pipelines.cli.test_on_cluster import Shell, a_pod, storage  # noqa: F401

REFUSAL = 'pods "p" is forbidden: User "me" cannot watch resource "pods" in API group "" in the namespace "ml"'


class NoLogs(ArgoHandler):
    """Argo Server as it answers who may not watch pods."""

    def _argo_log(self, asked: Asked) -> None:
        if asked.query["podName"].endswith("launch"):
            return self.refuse(403, REFUSAL)
        return super()._argo_log(asked)


@pytest.fixture
def refused(
    storage: S3Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> Iterator[Shell]:  # fmt: skip
    with api_server(NoLogs) as server:
        for name, value in (("SERVER", server.url), ("TOKEN", "Bearer good"), ("NAMESPACE", "ml")):
            monkeypatch.setenv(f"ARGO_{name}", value)
        yield Shell(server, storage, capsys, "argo-server")


def a_run_with_logs(shell: Shell, phase: str) -> str:
    """Its rank 1 wrote a line, and so did two stages, of which one may not be read."""
    name = shell.submit()
    line = {"at": now_text(), "level": "info", "message": "step 3", "task": "launch", "rank": 1}
    key = f"{log_folder(name, generation=0, stream='node-0.rank-1.attempt-0')}/000000000.jsonl"
    shell.store.replace(key, json.dumps(line).encode() + b"\n")
    shell.server.logs[f"{name}-preflight-preflight"] = b"the place is fit"
    nodes = (a_pod(name, task, phase) for task in ("preflight", "launch"))
    shell.becomes(name, phase, *nodes)
    return name


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_lines_of_ranks_need_no_right_to_see_pods(refused: Shell, phase: str) -> None:
    name = a_run_with_logs(refused, phase)

    code, text = refused("logs", name, "--rank", "1")

    assert (code, len(text.splitlines())) == (0, 1)
    assert text.endswith("launch/rank 1  step 3\n")


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_what_may_be_read_is_shown_and_what_may_not_is_told_afterwards(refused: Shell, phase: str) -> None:
    name = a_run_with_logs(refused, phase)

    code, text = refused("logs", name)

    assert code == 81
    assert "step 3\n" in text
    assert "the place is fit\n" in text
    assert text.splitlines()[-1].startswith("Forbidden: get logs of workflows.argoproj.io")
    assert 'a Role with verb "watch" on "pods"' in text


def test_who_follows_is_told_at_once_and_once(refused: Shell) -> None:
    name = a_run_with_logs(refused, "Failed")

    code, text = refused("logs", name, "--follow")

    assert code == 81
    assert "step 3\n" in text
    assert text.count("what stages wrote is not all shown: Forbidden: ") == 1


def test_a_server_that_shows_nothing_of_a_stage_that_succeeded_is_no_stage_without_output(refused: Shell) -> None:
    """Argo Server hides that it may not read a pod's log in the caller's name."""
    name = refused.submit()
    refused.becomes(name, "Running", a_pod(name, "preflight", "Succeeded"), a_pod(name, "verify", "Failed"))

    code, text = refused("logs", name)

    assert (code, text.partition(",")[0]) == (81, "NoPodLogs: the Argo Server shows no line of any pod")
    assert "not even of preflight, which succeeded" in text
    assert 'a Role with verb "get" on "pods/log" of API group ""' in text
    refused.server.logs[f"{name}-verify-verify"] = b"no such corpus"
    assert refused("logs", name)[0] == 0
    refused.becomes(name, "Failed", a_pod(name, "verify", "Failed", "ImagePullBackOff"))
    refused.server.logs.clear()
    assert refused("logs", name) == (0, "")


def test_a_run_of_a_cluster_is_not_suggested_to_who_asks_this_machine_for_it(refused: Shell) -> None:
    name = refused.submit()

    code, text = refused("status", name, "--target", "local")

    assert code == 78
    assert f"run {name} went to a cluster, and the target is local; leave --target out" in text
