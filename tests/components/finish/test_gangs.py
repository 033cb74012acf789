"""In a cluster the exit handler removes what this Workflow's launch stage left, and nothing of anybody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contracts.gang import GenerationView, LaunchState
from components.contracts.layout import launch_state_key
from components.contracts.lifecycle import RunState
from components.storage.local import LocalStore
from tests.components.finish.test_finish import AT, CHECKOUT, RUN, SPEC
from tests.fakes.api_server import FakeApiServer, api_server

JOBS, PODS = "/apis/batch/v1/namespaces/ml/jobs", "/api/v1/namespaces/ml/pods"
SECRETS, SERVICES = "/api/v1/namespaces/ml/secrets", "/api/v1/namespaces/ml/services"
WORKFLOW = f"/apis/argoproj.io/v1alpha1/namespaces/ml/workflows/{RUN}"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    with api_server() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        tell_workflow(server)
        yield server


def tell_workflow(server: FakeApiServer, **spec: Any) -> None:
    server.put(WORKFLOW, {"metadata": {"name": RUN, "uid": "w1"}, "spec": spec, "status": {}})


def put_gang(server: FakeApiServer, name: str, *, workflow: str = RUN, run: str = RUN, **metadata: Any) -> None:
    labels = {"argosy.dev/run": run, "argosy.dev/gang": name}
    annotations = {"argosy.dev/workflow": workflow}
    for place in (JOBS, SECRETS, SERVICES):
        item = {"metadata": {"name": name, "labels": labels, "annotations": annotations, **metadata}, "spec": {}}
        server.put(f"{place}/{name}", item)


def finish(folder: Path) -> tuple[int, str]:
    """Exit code and log."""
    argv = [
        sys.executable, "-m", "components.finish", "--spec", SPEC.to_bytes().decode(), "--storage", f"file://{folder}",
        "--run", RUN, "--workflow", RUN, "--input", "status=Failed", "--input", "failures=null",
    ]  # fmt: skip
    env = {
        **os.environ, "PYTHONPATH": str(CHECKOUT), "ARGOSY_OUT": str(folder / "out"), "ARGOSY_TARGET": "kubernetes",
        "ARGOSY_TERMINATION_LOG": str(folder / "last-words"), "KUBECONFIG": str(folder / "kubeconfig"),
    }  # fmt: skip
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def gangs_left(server: FakeApiServer) -> list[str]:
    return sorted(path.rpartition("namespaces/ml/")[2] for path in server.objects if "workflows" not in path)


def test_the_gang_its_secret_and_its_service_go(server: FakeApiServer, tmp_path: Path) -> None:
    put_gang(server, f"{RUN}-g1")

    code, log = finish(tmp_path)

    assert code == 0
    assert gangs_left(server) == []
    assert f"{RUN}-g1 is left: it is removed" in log
    (request,) = [item for item in server.asked if item.method == "DELETE" and "/jobs/" in item.path]
    assert request.body["propagationPolicy"] == "Foreground"


def test_gangs_of_another_workflow_another_run_or_a_jobset_stay(server: FakeApiServer, tmp_path: Path) -> None:
    put_gang(server, f"{RUN}-g0", workflow="a-later-one")
    put_gang(server, "other-abcde-g0", run="other-abcde")
    put_gang(server, f"{RUN}-g1-n-0", ownerReferences=[{"kind": "JobSet", "name": f"{RUN}-g1", "controller": True}])
    before = gangs_left(server)

    assert finish(tmp_path)[0] == 0
    assert gangs_left(server) == before


def test_a_stop_through_argo_is_the_reason_of_a_launcher_that_could_not_say_it(
    server: FakeApiServer, tmp_path: Path
) -> None:
    tell_workflow(server, shutdown="Stop")
    state = LaunchState(
        run=RUN, backend="job", state=RunState.RUNNING, updated_at=AT,
        generations=(GenerationView(generation=0, created_at=AT),),
    )  # fmt: skip
    LocalStore(tmp_path).create(launch_state_key(RUN), state.to_bytes())

    assert finish(tmp_path)[0] == 0
    after = LaunchState.from_bytes(LocalStore(tmp_path).read(launch_state_key(RUN)), where="launch.json")
    assert (after.state, after.reason, after.exit_code) == (RunState.STOPPED, "StopRequested", 83)


def test_an_api_server_that_refuses_fails_no_run_and_is_told(server: FakeApiServer, tmp_path: Path) -> None:
    server.token = "another"

    code, log = finish(tmp_path)

    assert code == 0
    assert "cannot end what is left of the gang" in log
