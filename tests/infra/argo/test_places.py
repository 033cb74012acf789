"""Argo by the Kubernetes API and by its own server: the same Workflows, over real HTTP."""

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.cluster.answers import Request
from components.cluster.api import KubernetesCluster
from components.cluster.base import AlreadyThere, NotSignedIn, Refused
from components.cluster.kinds import WORKFLOWS
from components.cluster.transport import Tries
from components.contracts.stop import StopRequest
from components.errors import BadInput
from infra.argo.argo import Argo
from infra.argo.follower import Follower
from infra.argo.kubernetes import ArgoByKubernetes
from infra.argo.server import ArgoByServer, explain
from infra.argo.view import is_over
from tests.e2e.harness import wait_until
from tests.fakes.api_server import FakeApiServer, Handler, api_server, do_then_hang_up
from tests.fakes.argo_server import ArgoHandler

WORKFLOW = {"metadata": {"name": "tiny-b2c4d", "labels": {"argosy.dev/run": "tiny-b2c4d"}}, "spec": {"entrypoint": "x"}}
PATH = "/apis/argoproj.io/v1alpha1/namespaces/ml/workflows/tiny-b2c4d"
TRIES = Tries(total_seconds=20.0, first_pause_seconds=0.001)


@pytest.fixture(params=["kubernetes", "argo-server"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FakeApiServer, Argo]]:
    handler: type[Handler] = Handler if request.param == "kubernetes" else ArgoHandler
    with api_server(handler) as server:
        if request.param == "kubernetes":
            found = KubernetesCluster.connect(kubeconfig=str(server.write_kubeconfig(tmp_path / "config")))
            yield server, ArgoByKubernetes(replace(found, transport=replace(found.transport, tries=TRIES)))
        else:
            argo = ArgoByServer.connect(url=server.url, namespace="ml", token="good")
            yield server, replace(argo, transport=replace(argo.transport, tries=TRIES))


def test_a_workflow_is_submitted_found_stopped_and_its_output_read(at: tuple[FakeApiServer, Argo]) -> None:
    server, argo = at
    server.logs["pod-1"] = b'{"message":"first"}\nsecond\n'

    argo.lint(WORKFLOW)
    assert argo.create(WORKFLOW)["metadata"]["name"] == "tiny-b2c4d"
    with pytest.raises(AlreadyThere):
        argo.create(WORKFLOW)
    assert [item["metadata"]["name"] for item in argo.list(labels="argosy.dev/run=tiny-b2c4d")] == ["tiny-b2c4d"]
    assert argo.list(labels="argosy.dev/run=other") == []
    request = StopRequest(by="ann@box")
    assert argo.end("tiny-b2c4d", strategy="Stop", request=request) is True
    assert argo.end("nobody", strategy="Stop", request=request) is False
    read = argo.read("tiny-b2c4d")
    assert read is not None
    assert read["spec"]["shutdown"] == "Stop"
    assert argo.read("nobody") is None
    assert argo.template("nobody") is None
    stream = argo.logs("tiny-b2c4d", "pod-1", follow=False)
    assert stream is not None
    assert list(stream) == [b'{"message":"first"}', b"second"]


def test_a_submit_whose_answer_was_lost_submits_once(at: tuple[FakeApiServer, Argo]) -> None:
    server, argo = at
    server.faults.append(do_then_hang_up)

    assert argo.create(WORKFLOW)["metadata"]["name"] == "tiny-b2c4d"
    assert server.num("POST") == 1


def test_a_follower_hears_of_the_end_through_broken_watches_and_forgotten_versions(
    at: tuple[FakeApiServer, Argo],
) -> None:
    server, argo = at
    argo.create(WORKFLOW)
    follower = Follower(argo, "tiny-b2c4d")
    assert phase(follower) == ""

    change(server, "Pending")
    wait_until(lambda: phase(follower) == "Pending")
    server.cut_watches()
    change(server, "Running")
    wait_until(lambda: phase(follower) == "Running")
    with server.lock:
        server.oldest = 10_000_000  # whatever version is asked for, it is forgotten
        server.cut_watches()
        change(server, "Succeeded")
    wait_until(lambda: phase(follower) == "Succeeded")

    assert is_over(follower.latest() or {})
    follower.close()


def test_a_follower_sees_a_workflow_that_is_deleted_and_one_that_never_was(at: tuple[FakeApiServer, Argo]) -> None:
    server, argo = at
    assert Follower(argo, "nobody").latest() is None
    argo.create(WORKFLOW)
    follower = Follower(argo, "tiny-b2c4d")
    assert follower.latest() is not None

    server.put(PATH, server.objects[PATH], "DELETED")

    wait_until(lambda: follower.latest() is None)
    follower.close()


def test_a_follower_tells_also_of_an_answer_that_nobody_thought_of(at: tuple[FakeApiServer, Argo]) -> None:
    server, argo = at
    argo.create(WORKFLOW)
    server.objects[PATH]["metadata"] = {}
    with pytest.raises(KeyError, match="resourceVersion"):
        Follower(argo, "tiny-b2c4d").latest()


def test_a_token_that_is_not_valid_is_told_with_what_to_do(at: tuple[FakeApiServer, Argo]) -> None:
    server, argo = at
    server.token = "another"

    with pytest.raises(NotSignedIn, match=r"expired|ARGO_TOKEN"):
        argo.read("tiny-b2c4d")
    follower = Follower(argo, "tiny-b2c4d")
    with pytest.raises(NotSignedIn):
        follower.latest()


def test_the_server_lints_before_anything_is_created() -> None:
    with api_server(ArgoHandler) as server:
        argo = ArgoByServer.connect(url=f"{server.url}/", namespace="ml", token="Bearer good")
        with pytest.raises(Refused, match=r"spec\.entrypoint is required"):
            argo.lint({**WORKFLOW, "spec": {}})
        assert argo.place == f"namespace ml, Argo Server {server.url}"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="is no address of an Argo Server"):
        ArgoByServer.connect(url="ftp://x", namespace="ml")
    with pytest.raises(BadInput, match="is no address of an Argo Server"):
        ArgoByServer.connect(url="https://argo:99999", namespace="ml")
    with pytest.raises(BadInput, match="there is no file /nonexistent"):
        ArgoByServer.connect(url="argo:2746", namespace="ml", ca_file="/nonexistent")


def change(server: FakeApiServer, phase: str) -> None:
    item: dict[str, Any] = server.objects[PATH]
    server.put(PATH, {**item, "status": {"phase": phase}})


def phase(follower: Follower) -> str:
    workflow = follower.latest()
    assert workflow is not None
    return str((workflow.get("status") or {}).get("phase") or "")


def test_the_right_that_lacks_is_the_one_that_kubernetes_names() -> None:
    request = Request("get logs of", WORKFLOWS, "ml", "exp-abcde")
    message = 'pods "exp-abcde-launch-1" is forbidden: User "ann" cannot watch resource "pods" in API group "" in ml'
    told = str(explain(request, 403, json.dumps({"message": message}).encode(), {}))
    assert 'allow it: a Role with verb "watch" on "pods" of API group ""' in told
    assert 'with verb "get logs of" for' in str(explain(request, 403, b"no", {}))


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("list", 'Permission denied, you are not allowed to list workflows in namespace "ml"'),
        ("get", "permission denied"),
    ],
)
def test_a_right_that_the_server_does_not_name_is_that_of_the_request(verb: str, message: str) -> None:
    told = str(explain(Request(verb, WORKFLOWS, "ml"), 403, json.dumps({"message": message}).encode(), {}))
    assert f'a Role with verb "{verb}" on "workflows" of API group "argoproj.io"' in told


def test_what_refuses_with_a_page_is_no_argo_server() -> None:
    error = explain(Request("list", WORKFLOWS, "ml"), 403, b"<?xml version='1.0'?><Error>AccessDenied</Error>", {})
    assert (error.reason, error.exit_code) == ("NotAnArgoServer", 81)
    assert "is this the address of an Argo Server? correct --server, ARGO_SERVER or argo_server.url" in str(error)


def test_an_authority_that_is_no_certificate_is_bad_input(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("experiment: no certificate\n")
    with api_server(ArgoHandler) as server:
        url = server.url.replace("http://", "https://")
        argo = ArgoByServer.connect(url=url, namespace="ml", token="good", ca_file=str(authority))
        with pytest.raises(BadInput, match=r"CaUnreadable: .*correct argo_server\.ca_file in the configuration file"):
            argo.list(labels="")


@pytest.mark.parametrize(
    ("url", "cause", "told"),
    [
        ("https://argo:2746", socket.gaierror(socket.EAI_NONAME, "?"), "UnknownHost: .*correct --server, ARGO_SERVER"),
        ("https://argo:2746", ConnectionRefusedError(), "is the Argo Server up, and reachable from here"),
        (
            "http://argo:2746",
            ConnectionResetError(),
            "if it speaks TLS, use https:// in its address; else: is the Argo",
        ),
    ],
)
def test_what_is_told_of_a_server_that_is_away_is_about_argo_servers(url: str, cause: OSError, told: str) -> None:
    argo = ArgoByServer.connect(url=url, namespace="ml", token="good")
    assert re.search(told, str(argo.transport._unanswered(Request("list", WORKFLOWS, "ml"), cause)))
