"""Bad input on a real cluster: told clearly, with the right exit code, early, and with nothing half-created."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cluster.api import KubernetesCluster
from components.cluster.base import AlreadyThere, NotServed, Refused
from components.cluster.kinds import WORKFLOWS, Kind
from infra.argo.kubernetes import ArgoByKubernetes
from tests.cluster.harness import description
from tests.cluster.place import ROOT, Place

NO_IMAGE = "localhost/argosy-no-such-image@sha256:" + "0" * 64
_PATIENCE = 240.0


class Shell:
    """The command line, as somebody with the Role for people types it."""

    def __init__(self, place: Place, described: Mapping[str, Any], folder: Path) -> None:
        self.place, self.home, self.file = place, folder / "home", folder / "run.yaml"
        self.file.write_text(yaml.safe_dump(dict(described)))

    def __call__(self, *arguments: str, **environ: str) -> tuple[int, str]:
        env = {**os.environ, "ARGOSY_HOME": str(self.home), "KUBECONFIG": str(self.place.submitter), **environ}
        argv = [sys.executable, "pipelines/train.py", *arguments]
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def submit(self, *more: str, **environ: str) -> tuple[int, str]:
        return self("submit", "-c", str(self.file), "--target", "kubernetes", "--detach", *more, **environ)

    def start(self, *more: str) -> str:
        code, text = self.submit("-o", "json", *more)
        assert code == 0, text
        return str(document_in(text)["run"])

    def wait_for(self, run: str, words: str) -> str:
        """The status, once it holds them."""
        deadline = time.monotonic() + _PATIENCE
        while words not in (text := self("status", run)[1]):
            assert time.monotonic() < deadline, text
            time.sleep(1)
        return text

    def stages_at_the_end(self, run: str) -> dict[str, dict[str, Any]]:
        """What the status says of each stage, once the run has failed."""
        deadline = time.monotonic() + _PATIENCE
        while (view := document_in(self("status", run, "-o", "json")[1]))["state"] != "Failed":
            assert time.monotonic() < deadline, view
            time.sleep(1)
        return {stage["task"]: stage for stage in view["stages"]}


def document_in(text: str) -> dict[str, Any]:
    """The JSON object among what was printed."""
    found, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return dict(found)


@pytest.fixture
def shell(place: Place, corpus: str, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(place, description(place, "refused", corpus=corpus), tmp_path)
    yield made
    for item in place.cluster.list(WORKFLOWS).items:
        place.cluster.delete(WORKFLOWS, item["metadata"]["name"])


@pytest.fixture
def nothing_created(place: Place, shell: Shell) -> Iterator[None]:
    before = {item["metadata"]["name"] for item in place.cluster.list(WORKFLOWS).items}
    yield
    assert {item["metadata"]["name"] for item in place.cluster.list(WORKFLOWS).items} == before
    assert list(shell.home.rglob("*.json")) == []


def changed(place: Place, folder: Path, **user: Any) -> str:
    """The submitter's kubeconfig with another way in."""
    value = json.loads(place.submitter.read_text())
    if "server" in user:
        value["clusters"][0]["cluster"]["server"] = user["server"]
    if "token" in user:
        value["users"][0]["user"]["token"] = user["token"]
    (folder / "changed.kubeconfig").write_text(json.dumps(value))
    return str(folder / "changed.kubeconfig")


@pytest.mark.usefixtures("nothing_created")
def test_no_cluster_a_wrong_context_and_an_expired_token(shell: Shell, place: Place, tmp_path: Path) -> None:
    code, text = shell.submit(KUBECONFIG="/nonexistent")
    assert (code, text.partition(":")[0]) == (78, "NoCluster")
    code, text = shell.submit(KUBECONFIG=changed(place, tmp_path, server="https://127.0.0.1:1"))
    assert (code, text.partition(":")[0]) == (75, "NoAnswer")
    assert "https://127.0.0.1:1 does not answer" in text
    code, text = shell.submit("--context", "prod")
    assert (code, text.partition(":")[0]) == (78, "UnknownContext")
    assert "use one of: tests" in text
    code, text = shell.submit(KUBECONFIG=changed(place, tmp_path, token="expired"))
    assert (code, text.partition(":")[0]) == (78, "NotSignedIn")


@pytest.mark.usefixtures("nothing_created")
def test_a_namespace_one_may_not_use_does_not_exist_or_is_not_prepared(shell: Shell) -> None:
    code, text = shell.submit("--namespace", "default")
    assert code == 81
    assert "may not create workflows.argoproj.io refused-" in text
    assert 'a Role with verb "create" on "workflows" of API group "argoproj.io"' in text
    admin = {"KUBECONFIG": os.environ["KUBECONFIG"]}
    code, text = shell.submit("--namespace", "no-such-namespace", **admin)
    assert (code, text.partition(";")[0]) == (78, "NamespaceMissing: there is no namespace no-such-namespace")
    code, text = shell.submit("--namespace", "default", **admin)
    assert code == 78
    assert "namespace default has no service account argosy-launcher and no argosy-stage" in text


@pytest.mark.usefixtures("nothing_created")
def test_secrets_that_are_missing_are_told_to_whoever_may_see_them(shell: Shell, place: Place) -> None:
    names = ("--set", "image_pull_secrets=[none]", "--set", "storage_options.credentials_secret=none")
    code, text = shell.submit("--namespace", place.namespace, *names, KUBECONFIG=os.environ["KUBECONFIG"])

    assert code == 78
    assert text.startswith("MissingObjects: ")
    assert f"image_pull_secrets: there is no Secret none in namespace {place.namespace}" in text
    assert f"storage_options.credentials_secret: there is no Secret none in namespace {place.namespace}" in text


@pytest.mark.usefixtures("nothing_created")
def test_without_a_janitor_a_lost_node_could_not_be_forced(shell: Shell, place: Place) -> None:
    found = json.loads(place.kubectl("get", "deployment", "argosy-janitor", "-o", "json"))
    place.kubectl("delete", "deployment", "argosy-janitor")
    try:
        code, text = shell.submit()
    finally:
        kept = {key: found["metadata"][key] for key in ("name", "labels")}
        place.apply({**{key: found[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})

    assert code == 81
    assert "NoJanitor: launch.lost_node is force_after, but Deployment argosy-janitor does not exist" in text


def test_a_controller_that_does_not_take_the_workflow_up_is_told(shell: Shell) -> None:
    run = shell.start("--set", "argo.instance_id=nobody")

    assert "see that one runs and that it watches this namespace" in shell.wait_for(run, "NotTakenUp")


def test_an_image_that_cannot_be_pulled_is_told_while_it_waits(shell: Shell) -> None:
    run = shell.start("--set", f"platform_image={NO_IMAGE}")

    text = shell.wait_for(run, "ImagePullBackOff")
    assert NO_IMAGE in text.splitlines()[1]  # beside the state, with what the node says about it
    assert "its image" in text.splitlines()[1]


def test_a_bucket_that_does_not_exist_is_found_by_preflight(shell: Shell) -> None:
    run = shell.start("--set", "storage=s3://argosy-no-such-bucket/x")

    stages = shell.stages_at_the_end(run)
    assert "NoSuchBucket" in stages["preflight"]["message"]
    assert stages["preflight"]["state"] == "Failed"
    assert stages["launch"]["state"] == "Skipped"


def test_credentials_that_are_wrong_are_found_by_preflight(shell: Shell, place: Place) -> None:
    place.apply({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wrong"},
        "stringData": {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "wrong"},
    })  # fmt: skip
    run = shell.start("--set", "storage_options.credentials_secret=wrong")

    stages = shell.stages_at_the_end(run)
    assert "CredentialsRefused" in stages["preflight"]["message"]
    assert stages["launch"]["state"] == "Skipped"


def test_a_name_that_is_taken_and_an_object_over_the_limit_are_refused(place: Place, shell: Shell) -> None:
    argo = ArgoByKubernetes(place.cluster)
    taken = {"metadata": {"name": "taken"}, "spec": {"suspend": True}}
    argo.create(taken)
    with pytest.raises(AlreadyThere, match="taken"):
        argo.create(taken)
    with pytest.raises(Refused, match="make the object smaller") as caught:
        argo.create({"metadata": {"name": "large"}, "spec": {"suspend": True, "entrypoint": "x" * 4_000_000}})
    assert caught.value.reason == "TooLarge"
    assert argo.read("large") is None


def test_a_kind_that_is_not_installed_or_of_another_version_is_told(place: Place) -> None:
    other = Kind("jobset.x-k8s.io/v9", "jobsets", "JobSet")
    assert not place.cluster.serves(other)
    with pytest.raises(NotServed, match=r"the cluster knows no JobSet \(jobset.x-k8s.io/v9\); install what defines"):
        KubernetesCluster.connect(namespace=place.namespace).list(other)
