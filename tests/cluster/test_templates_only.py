"""A cluster that runs templates only: what gets in, and every way in that must not, each tried on a real API server."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
import yaml

from components.cluster.kinds import WORKFLOWS
from infra.kubernetes.admission import admission_yaml
from tests.cluster.gitops import Repository, workflow_over
from tests.cluster.harness import ClusterRun, description, wait_until
from tests.cluster.place import Place
from tests.cluster.strict_argo import strict_argo

pytestmark = pytest.mark.platform

SHA = "0123456789abcdef0123456789abcdef01234567"
REF = {"workflowTemplateRef": {"name": "given"}}
EVIL = {"entrypoint": "x", "templates": [{"name": "x", "container": {"image": "x", "command": ["x"]}}]}


@pytest.fixture(scope="module")
def instance(place: Place) -> Iterator[str]:
    """Of a controller in Strict mode."""
    if not place.is_devcluster:
        pytest.skip("only the development cluster has a controller to start")
    with strict_argo(place) as name:
        yield name


@pytest.fixture(scope="module")
def repository(place: Place, corpus: str, instance: str) -> Repository:
    value = description(place, "given", corpus=corpus, steps=5, num_nodes=1, argo__instance_id=instance)
    made = Repository(place, value)
    made.commit("template")
    made.deploy()
    return made


@pytest.fixture(scope="module")
def policy(place: Place) -> Iterator[str]:
    """In force in this place and in no other."""
    name, label = f"argosy-templates-only-{place.namespace}", f"argosy.dev/only-{place.namespace}"[:63]
    place.kubectl("label", "namespace", place.namespace, f"{label}=true")
    text = admission_yaml(["--name", name, "--label", label])
    try:
        place.kubectl("apply", "--filename", "-", stdin=text)
        # The API server learns of it a moment later.
        body = json.dumps(workflow("not-there", EVIL))
        dry = ("create", "--dry-run=server", "--filename", "-")
        wait_until(
            lambda: "denied request" in place.kubectl(*dry, stdin=body, may_fail=True), what="the policy to be in force"
        )
        yield name
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            place.kubectl("delete", kind, name, "--ignore-not-found", may_fail=True)


def workflow(name: str, spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": WORKFLOWS.api_version, "kind": "Workflow", "metadata": {"name": name}, "spec": spec, **more}


def cron(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    inner = {"schedules": ["0 0 1 1 *"], "suspend": True, "workflowSpec": spec}
    return {"apiVersion": WORKFLOWS.api_version, "kind": "CronWorkflow", "metadata": {"name": name}, "spec": inner}


def given(**parameters: Any) -> dict[str, Any]:
    return {**REF, "arguments": {"parameters": [{"name": key, "value": value} for key, value in parameters.items()]}}


def test_strict_argo_explains_why_a_workflow_with_templates_of_its_own_does_not_run(
    place: Place, instance: str, repository: Repository
) -> None:
    with closing(ClusterRun(place, {**repository.value, "experiment": "inline"})) as run:
        run.env["ARGO_INSTANCEID"] = instance
        code = run.start().finish()

    assert code == 78, run.terminal()
    assert "must use workflowTemplateRef" in run.terminal()
    assert "submit --from-template NAME" in run.terminal()
    assert not run.workers()


def test_a_run_of_a_template_passes_strict_argo_and_the_policy(
    place: Place, instance: str, repository: Repository, policy: str, figure: Callable[[str, float], None]
) -> None:
    begin = time.monotonic()
    with closing(ClusterRun(place, repository.value)) as run:
        run.env["ARGO_INSTANCEID"] = instance
        run.start("submit", "--from-template", "given", "--target", "kubernetes", "-p", f"commit={SHA}")
        code = run.finish(timeout=1100)

    assert code == 0, run.terminal()
    figure("submit --from-template, Strict, to its end", time.monotonic() - begin)
    assert run.workflow()["metadata"]["labels"]["argosy.dev/commit"] == SHA
    assert run.workflow()["spec"].keys() == {"workflowTemplateRef", "arguments"}
    assert run.report() is not None


def test_an_inline_submit_is_refused_by_the_policy_with_what_to_do(
    place: Place, repository: Repository, policy: str
) -> None:
    run = ClusterRun(place, {**repository.value, "experiment": "inline-two"})
    done = run.command("submit", "-c", "run.yaml", "--target", "kubernetes")

    assert done.returncode == 78, done.stderr
    assert "--from-template NAME" in done.stderr


WAYS_IN: dict[str, dict[str, Any]] = {
    "templates of one's own": workflow("w", EVIL),
    "templates beside a reference": workflow("w", {**REF, **EVIL}),
    "a status with templates": workflow("w", REF, status={"storedWorkflowTemplateSpec": EVIL}),
    "a status with a phase": workflow("w", REF, status={"phase": "Succeeded"}),
    "another entrypoint": workflow("w", {**REF, "entrypoint": "preflight"}),
    "another parameter": workflow("w", given(image="x")),
    "one parameter among good ones": workflow("w", given(run="w", commit=SHA, storage="s3://mine/x")),
    "a parameter from elsewhere": workflow("w", {**REF, "arguments": {"parameters": [
        {"name": "run", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]}}),
    "a global name": workflow("w", {**REF, "arguments": {"parameters": [
        {"name": "run", "value": "w", "globalName": "storage"}]}}),
    "an artifact": workflow("w", {**REF, "arguments": {"artifacts": [{"name": "x", "raw": {"data": "x"}}]}}),
    "a run that is a path": workflow("w", given(run="../w")),
    "a commit that is none": workflow("w", given(commit="HEAD")),
    "a tag as a commit": workflow("w", given(commit="{{workflow.name}}")),
    "a patch of pods": workflow("w", {**REF, "podSpecPatch": "{}"}),
    "another account": workflow("w", {**REF, "serviceAccountName": "default"}),
    "labels of its runs": workflow("w", {**REF, "workflowMetadata": {"labels": {"argosy.dev/commit": SHA}}}),
    "hooks": workflow("w", {**REF, "hooks": {"exit": {"template": "launch"}}}),
    "an exit handler": workflow("w", {**REF, "onExit": "launch"}),
    "a cluster-wide template": workflow("w", {"workflowTemplateRef": {"name": "given", "clusterScope": True}}),
    "a schedule of one's own templates": cron("w", EVIL),
    "a schedule with another parameter": cron("w", given(image="x")),
    "a schedule with another entrypoint": cron("w", {**REF, "entrypoint": "launch"}),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS_IN)
def test_no_way_in_is_left(place: Place, policy: str, way: str) -> None:
    said = place.kubectl("create", "--filename", "-", stdin=json.dumps(WAYS_IN[way]), may_fail=True)

    assert f"ValidatingAdmissionPolicy '{policy}'" in said
    assert "denied request" in said


@pytest.mark.skipif("ARGO_SERVER" not in os.environ or "ARGO" not in os.environ, reason="ARGO_SERVER is not named")
@pytest.mark.parametrize("way", ["a status with templates", "another entrypoint", "another parameter"])
def test_no_way_in_is_left_through_the_argo_server(place: Place, policy: str, way: str, tmp_path: Any) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(yaml.safe_dump(WAYS_IN[way]))
    env = {**os.environ, "ARGO_TOKEN": f"Bearer {place.token}", "ARGO_INSECURE_SKIP_VERIFY": "true"}
    env.pop("KUBECONFIG", None)
    said = subprocess.run(
        [os.environ["ARGO"], "submit", "--namespace", place.namespace, str(path)],
        env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert said.returncode != 0
    assert f"ValidatingAdmissionPolicy '{policy}'" in said.stderr + said.stdout


CHANGES: dict[str, dict[str, Any]] = {
    "a status": {"status": {"storedWorkflowTemplateSpec": EVIL}},
    "a phase": {"status": {"phase": "Succeeded"}},
    "an entrypoint": {"spec": {"entrypoint": "launch"}},
    "a parameter": {"spec": {"arguments": {"parameters": [{"name": "run", "value": "another"}]}}},
    "the template": {"spec": {"workflowTemplateRef": {"name": "another"}}},
    "nothing but arguments": {"spec": {"arguments": None}},
}


@pytest.fixture(scope="module")
def paused(place: Place, policy: str, instance: str, repository: Repository) -> str:
    """A Workflow that is there and does not run."""
    body = workflow("paused", {**given(run="paused"), "suspend": True})
    body["metadata"]["labels"] = {"workflows.argoproj.io/controller-instanceid": instance}
    place.kubectl("create", "--filename", "-", stdin=json.dumps(body))
    return "paused"


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_run_does_is_settled_when_it_is_submitted(place: Place, paused: str, change: str, policy: str) -> None:
    patch = f"--patch={json.dumps(CHANGES[change])}"
    said = place.kubectl("patch", "workflow", paused, "--type=merge", patch, may_fail=True)

    assert f"ValidatingAdmissionPolicy '{policy}'" in said


def test_a_run_can_still_be_labelled_and_stopped(place: Place, paused: str) -> None:
    place.kubectl("label", "workflow", paused, "team=one")
    for change in ({"spec": {"suspend": None}}, {"spec": {"shutdown": "Terminate"}}):
        place.kubectl("patch", "workflow", paused, "--type=merge", f"--patch={json.dumps(change)}")

    assert workflow_over(place, paused)["status"]["phase"] == "Failed"


def test_a_schedule_of_a_template_passes(place: Place, policy: str) -> None:
    place.kubectl("create", "--filename", "-", stdin=json.dumps(cron("good", given(commit=""))))
    place.kubectl("delete", "cronworkflow", "good")
