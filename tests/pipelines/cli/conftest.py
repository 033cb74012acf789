"""Small real runs: manifests of `sh` containers, executed by the real engine, seen through the real command line."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.local import client
from infra.local.run_dir import CHECKOUT, RunDir

DESCRIPTION = {
    "experiment": "tiny",
    "launch": {"num_nodes": 1, "nproc_per_node": 2, "max_restarts": 0, "limits": {"start": "5m"}},
}


def a_manifest(scripts: Mapping[str, str], *, after: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A Workflow whose tasks are shell scripts; `after` holds the `depends` of those that wait."""
    templates = [
        {
            "name": name,
            "activeDeadlineSeconds": 60,
            "podSpecPatch": '{"terminationGracePeriodSeconds":5}',
            "container": {"image": "none", "command": ["sh", "-c"], "args": [script]},
        }
        for name, script in scripts.items()
    ]
    tasks = [
        {"name": name, "template": name} | ({"depends": (after or {})[name]} if name in (after or {}) else {})
        for name in scripts
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "tiny-"},
        "spec": {
            "entrypoint": "train",
            "arguments": {"parameters": [{"name": "storage", "value": ""}]},
            "templates": [{"name": "train", "dag": {"tasks": tasks}}, *templates],
        },
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """$ARGOSY_HOME of one test; whatever still runs there at its end is killed."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("ARGOSY_HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KUBECONFIG", "ARGO_SERVER", "ARGOSY_TARGET"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    for run in client.list_runs(folder):
        if run.engine_alive():
            client.request_stop(run, by="the test's end", force=True)
            wait_until(lambda run=run: not run.engine_alive())


@pytest.fixture
def a_run(home: Path) -> Callable[..., RunDir]:
    """Makes a run that nothing executes yet; `resume` or `client.start_engine` does."""

    def make(scripts: Mapping[str, str], *, name: str = "tiny-b2c4d", after: Mapping[str, str] | None = None) -> RunDir:
        return client.create_run(
            home=home, manifest=a_manifest(scripts, after=after), run=name, experiment="tiny", model_version="v1",
            parameters={"storage": f"file://{home}/storage"}, description=DESCRIPTION,
            argv=["pipelines/train.py", "submit", "--recipe", "tiny"],
        )  # fmt: skip

    return make


def argosy(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """One command line, as people give it."""
    command = [sys.executable, str(CHECKOUT / "pipelines" / "train.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def start_argosy(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """One command line that goes on, in a session of its own."""
    command = [sys.executable, str(CHECKOUT / "pipelines" / "train.py"), *arguments]
    return subprocess.Popen(command, text=True, start_new_session=True, **options)


def finish(run: RunDir) -> None:
    """Execute a run to its end."""
    client.start_engine(run)
    wait_until(lambda: run.state().is_final and not run.engine_alive())


def wait_until(holds: Callable[[], bool], *, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that run in or name `folder`."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(f"{entry.path}/cwd")
        except OSError:
            continue
        if str(folder) in command or where.startswith(str(folder)):
            found.append(command)
    return found
