"""What the command line says of a run's place goes before what was noted when it was submitted from here."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.argo.submitted import Place, Submitted
from infra.local.run_dir import RunDir
from pipelines.cli.find_on_cluster import find_cluster_run
from pipelines.cli.targets import PlaceOptions, Target, resolve_target
from tests.fakes.api_server import FakeApiServer, api_server
from tests.fakes.argo_server import ArgoHandler
from tests.pipelines.cli.test_on_cluster import FOLDER, Shell, a_pod, shell, storage  # noqa: F401

LAB = FOLDER.replace("/ml/", "/lab/")
OTHER = {"kubernetes": "argo-server", "argo-server": "kubernetes"}


@pytest.fixture
def argo(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:  # noqa: F811
    """An Argo Server before the same cluster."""
    with api_server(ArgoHandler) as server:
        server.objects = shell.server.objects
        for name, value in (("SERVER", server.url), ("TOKEN", "Bearer good"), ("NAMESPACE", "elsewhere")):
            monkeypatch.setenv(f"ARGO_{name}", value)
        yield server


@pytest.fixture(params=["kubernetes", "argo-server"])
def submitted(request: pytest.FixtureRequest, shell: Shell, argo: FakeApiServer) -> str:  # noqa: F811
    """A run that went through that door and runs in namespace ml; its name."""
    shell.target = request.param
    name = shell.submit("--namespace", "ml")
    shell.becomes(name, "Running", a_pod(name, "preflight", "Running"))
    shell.server.put("/api/v1/namespaces/lab", {"metadata": {"name": "lab"}})
    for server in (shell.server, argo):
        server.asked.clear()
    return name


def run_at(name: str, **said: str) -> Submitted:
    """What is known of a run at the place that is said."""
    found = find_cluster_run(name, resolve_target(PlaceOptions(**said)))
    assert found is not None
    return found.info


def test_a_run_is_looked_for_through_the_door_that_is_said(
    shell: Shell, argo: FakeApiServer, submitted: str  # noqa: F811
) -> None:  # fmt: skip
    said = OTHER[shell.target]
    noted, asked = (shell.server, argo) if said == "argo-server" else (argo, shell.server)

    for named in ((submitted,), ()):
        code, text = shell("status", *named, "--target", said, "-o", "json")
        assert code == 0, text
        assert (json.loads(text)["run"], json.loads(text)["target"]) == (submitted, said)
        why = json.loads(shell("why", *named, "--target", said, "-o", "json")[1])
        assert ("objects" in why.get("withheld", {})) == (said == "argo-server")
    assert noted.asked == []
    assert asked.asked != []
    found, note = run_at(submitted, target=said), run_at(submitted, target=shell.target)
    assert found == note.model_copy(update={"place": found.place})
    assert found.description["experiment"] == "tiny"
    assert (found.place.target, found.place.namespace) == (said, "ml")


def test_a_run_is_stopped_through_the_door_that_is_said(
    shell: Shell, argo: FakeApiServer, submitted: str  # noqa: F811
) -> None:  # fmt: skip
    said = OTHER[shell.target]

    assert shell("stop", submitted, "--target", said)[0] == 0

    assert shell.workflow(submitted)["spec"]["shutdown"] == "Stop"
    assert (argo.asked == []) == (said == "kubernetes")
    assert shell.server.num("PATCH") == (said == "kubernetes")


def test_without_a_word_a_run_is_looked_for_where_it_went(
    shell: Shell, argo: FakeApiServer, submitted: str, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setenv("ARGOSY_TARGET", OTHER[shell.target])

    for words in ((), ("--target", shell.target), ("--target", shell.target, "--namespace", "ml")):
        assert json.loads(shell("status", submitted, *words, "-o", "json")[1])["target"] == shell.target
    assert (argo.asked == []) == (shell.target == "kubernetes")


@pytest.mark.parametrize("command", ["status", "why", "logs", "stop", "resume"])
def test_a_run_that_is_not_in_the_namespace_that_is_said_is_not_taken_from_another(
    shell: Shell, submitted: str, command: str  # noqa: F811
) -> None:  # fmt: skip
    for target in OTHER:
        code, text = shell(command, submitted, "--target", target, "--namespace", "lab")
        assert (code, text.partition(",")[0]) == (
            78, f"NoSuchRun: there is no Workflow of a run {submitted} in namespace lab",
        )  # fmt: skip
        assert f"it was submitted to namespace ml through {shell.target} " in text
        assert f"to look there, leave --target {target} --namespace lab out" in text
    assert "shutdown" not in shell.workflow(submitted)["spec"]
    assert len(shell.workflows()) == 1


def test_a_run_of_others_with_the_same_name_is_told_from_its_own_workflow(shell: Shell, submitted: str) -> None:  # noqa: F811
    parameters = [{"name": "storage", "value": f"{shell.store.uri}/of-others"}]
    theirs = {"metadata": {"name": submitted}, "spec": {"arguments": {"parameters": parameters}}}
    shell.server.put(f"{LAB}/{submitted}", {**theirs, "status": {"phase": "Failed"}})

    found = run_at(submitted, target="kubernetes", namespace="lab")

    assert (found.place.namespace, found.description, found.storage) == ("lab", {}, f"{shell.store.uri}/of-others")


def test_the_latest_run_is_one_of_the_namespace_that_is_said(
    shell: Shell, submitted: str, a_run: Callable[..., RunDir], monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    a_run({"preflight": "true"}, name="tiny-local")
    monkeypatch.setenv("ARGOSY_TARGET", shell.target)

    code, text = shell("status", "--namespace", "lab")
    assert (code, text.partition(";")[0]) == (78, "NoRuns: no run was submitted from here to --namespace lab")
    assert shell("status", "tiny-local", "--namespace", "lab")[1].startswith("NoSuchRun: ")
    assert shell("status", "--namespace", "ml")[1].startswith(submitted)
    assert shell("status")[1].startswith("tiny-local")


def test_the_context_that_is_said_is_another_cluster(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    name = shell.submit()
    with api_server() as prod:
        named = prod.write_kubeconfig(tmp_path / "prod").read_text().replace("here", "prod")
        named = named.replace("cluster: c\n", "cluster: p\n").replace("name: c\n", "name: p\n")
        (tmp_path / "prod").write_text(named)
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/kubeconfig:{tmp_path}/prod")
        prod.put("/api/v1/namespaces/ml", {"metadata": {"name": "ml"}})
        shell.server.asked.clear()

        code, text = shell("stop", name, "--target", "kubernetes", "--context", "prod")

        assert (code, text.partition(":")[0]) == (78, "NoSuchRun")
        assert "it was submitted to namespace ml through kubernetes here: to look there, leave --target" in text
        assert prod.asked != []
    assert shell.server.asked == []
    assert shell("status", name, "--target", "kubernetes", "--context", "here")[1].startswith(name)


def test_the_server_that_is_said_is_asked(shell: Shell, argo: FakeApiServer) -> None:  # noqa: F811
    shell.target = "argo-server"
    name = shell.submit("--namespace", "ml")
    argo.asked.clear()
    with api_server(ArgoHandler) as other:
        code, text = shell("status", name, "--target", "argo-server", "--server", other.url)

        assert (code, text.partition(":")[0]) == (78, "NoSuchRun")
        assert f"through argo-server {argo.url}: to look there" in text
        assert other.asked != []
    assert argo.asked == []
    assert shell("status", name, "--target", "argo-server", "--server", f"{argo.url}/")[1].startswith(name)


def test_what_the_command_line_leaves_open_is_as_noted() -> None:
    noted = Place(target="argo-server", namespace="ml", server="https://argo:2746")
    target = Target("kubernetes", "--target", namespace="default", context="dev", given=PlaceOptions("kubernetes"))
    assert (target.is_another_door(noted), target.is_elsewhere(noted)) == (True, False)
    there = target.instead_of(noted)
    assert (there.name, there.namespace, there.context, there.server) == ("kubernetes", "ml", "dev", "")

    by_environment = Target("kubernetes", "ARGOSY_TARGET", given=PlaceOptions(namespace="lab"))
    assert (by_environment.is_another_door(noted), by_environment.is_elsewhere(noted)) == (False, True)
    there = by_environment.instead_of(noted)
    assert (there.name, there.namespace, there.server) == ("argo-server", "lab", "https://argo:2746")

    short = Target("argo-server", "--target", given=PlaceOptions("argo-server", server="argo:2746/"))
    assert not short.is_elsewhere(noted)
