"""From a commit to a run on a real cluster, and what does not get that far."""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import datetime

import pytest

from components.cluster.kinds import CRON_WORKFLOWS, WORKFLOW_TEMPLATES, WORKFLOWS
from tests.cluster.gitops import Repository, push, stages_of, workflow_over
from tests.cluster.harness import description, wait_until
from tests.cluster.place import Place

pytestmark = pytest.mark.platform

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def repository(place: Place, corpus: str) -> Repository:
    """With one render, deployed, and a webhook that is trusted."""
    made = Repository(place, description(place, "pushed", corpus=corpus, steps=5, num_nodes=1))
    made.commit()
    made.deploy()
    made.trust_webhook()
    return made


needs_server = pytest.mark.skipif(
    "ARGO_SERVER" not in os.environ or "ARGO_SERVER_CA" not in os.environ, reason="ARGO_SERVER is not named"
)


@needs_server
def test_a_push_becomes_one_run_of_its_commit_that_succeeds(
    repository: Repository, figure: Callable[[str, float], None]
) -> None:
    repository.value["seed"] = 8
    sha = repository.commit()
    repository.deploy()

    assert repository.post(push(sha)) == 200
    name = f"pushed-{sha[:10]}"
    workflow = workflow_over(repository.place, name)

    assert workflow["status"]["phase"] == "Succeeded", stages_of(workflow)
    labels = workflow["metadata"]["labels"]
    assert labels["argosy.dev/commit"] == sha
    assert labels["argosy.dev/run"] == name
    assert {"name": "commit", "value": sha} in workflow["spec"]["arguments"]["parameters"]
    template = repository.place.cluster.read(WORKFLOW_TEMPLATES, "pushed")
    assert template is not None
    assert labels["argosy.dev/content"] == template["metadata"]["labels"]["argosy.dev/content"]
    status = workflow["status"]
    figure("a run from its webhook to its end", _seconds(status["startedAt"], status["finishedAt"]))
    # Delivered once more, it is the same run.
    repository.post(push(sha))
    assert [item["metadata"]["name"] for item in repository.workflows()].count(name) == 1


@needs_server
@pytest.mark.parametrize("secret", [None, "another secret"])
def test_a_post_that_is_not_signed_by_the_repository_is_refused(repository: Repository, secret: str | None) -> None:
    before = len(repository.workflows())

    assert repository.post(push(SHA), secret=secret) in (401, 403)
    assert len(repository.workflows()) == before


@needs_server
@pytest.mark.parametrize(
    "payload",
    [
        {}, [], "push", {"ref": "refs/heads/main"}, push(None), push(""), push(7), push({"sha": SHA}), push("HEAD"),
        push(SHA[:39]), push(SHA.upper()), push(f"{SHA}0"), push("0" * 40), push(SHA, branch="topic"),
        {"ref": ["refs/heads/main"], "after": SHA},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_payload_that_is_no_push_to_the_branch_starts_nothing(repository: Repository, payload: object) -> None:
    before = len(repository.workflows())

    assert repository.post(payload) in (200, 401)  # nobody it is meant for, or no push event at all
    assert len(repository.workflows()) == before


def test_a_commit_that_is_none_gets_past_nobody_who_trains(repository: Repository) -> None:
    name = "pushed-by-hand"
    repository.place.apply(_workflow(name, commit="null"))
    workflow = workflow_over(repository.place, name)

    assert workflow["status"]["phase"] == "Failed"
    stages = stages_of(workflow)
    assert stages.get("preflight") == "Failed"
    assert stages.get("launch", "Omitted") == "Omitted"
    assert "BadCommit" in json.dumps(workflow["status"]["nodes"])
    assert stages["finish"] == "Succeeded"


def test_a_template_that_was_edited_in_the_cluster_is_told_field_by_field(repository: Repository) -> None:
    place = repository.place
    assert repository.compile("--check", "deploy", "--cluster").returncode == 0

    change = [{"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 60}]
    place.kubectl("patch", "workflowtemplate", "pushed", "--type=json", f"--patch={json.dumps(change)}")
    drifted = repository.compile("--check", "deploy", "--cluster")
    repository.deploy(by_force=True)

    assert drifted.returncode == 81, drifted.stderr
    assert "deploy: is what run.yaml renders as all" in drifted.stdout
    assert "WorkflowTemplate pushed: differs (cluster → rendered now); it was edited in the cluster" in drifted.stdout
    assert "kubectl-patch" in drifted.stdout
    assert "spec.activeDeadlineSeconds: 60 → " in drifted.stdout
    assert repository.compile("--cluster").returncode == 0


def test_a_bad_commit_is_stopped_by_the_check_by_our_lint_and_by_argos(repository: Repository) -> None:
    path = repository.render / "workflow-template.yaml"
    good = path.read_text()
    try:
        path.write_text(good.replace("template: verify", "template: verifyy"))
        checked = repository.compile("--check", "deploy")
        argo = [os.environ.get("ARGO", "argo"), "lint", "--offline", "--kinds=workflowtemplates", str(path)]
        linted = subprocess.run(argo, capture_output=True, text=True, check=False, timeout=60)
        dry_run = repository.place.kubectl("apply", "--server-side", "--dry-run=server", f"--filename={path}")
    finally:
        path.write_text(good)

    assert checked.returncode == 78
    assert "lint: spec.templates[train].dag.tasks[verify].template: there is no template 'verifyy'" in checked.stdout
    assert linted.returncode != 0
    assert "verifyy" in linted.stdout + linted.stderr
    assert "serverside-applied" in dry_run.replace(" ", "")  # which is why the others are needed


def test_a_schedule_starts_runs_that_never_overlap(place: Place, corpus: str) -> None:
    """Every minute, and a run takes longer: the next begins when its predecessor is over, and not before."""
    value = description(
        place, "nightly", corpus=corpus, steps=5, seconds=15.0, num_nodes=1, gitops__schedules=["* * * * *"]
    )
    scheduled = Repository(place, value)
    scheduled.commit("cron")
    scheduled.deploy()
    try:
        first = str(wait_until(scheduled.workflows, what="the schedule to start a run")[0]["metadata"]["name"])
        ended = workflow_over(place, first)
        second = wait_until(lambda: scheduled.workflows()[1:], what="the next run")[0]
    finally:
        place.kubectl("patch", "cronworkflow", "nightly", "--type=merge", '--patch={"spec":{"suspend":true}}')
    cron = place.cluster.read(CRON_WORKFLOWS, "nightly")
    place.kubectl("delete", "workflows.argoproj.io", str(second["metadata"]["name"]), "--wait=false")

    assert cron is not None
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    status = ended["status"]
    assert status["phase"] == "Succeeded", stages_of(ended)
    assert _seconds(status["startedAt"], status["finishedAt"]) > 60, "a run shorter than the schedule proves nothing"
    assert second["metadata"]["creationTimestamp"] >= status["finishedAt"]
    assert ended["metadata"]["labels"]["argosy.dev/run"] == first


def _workflow(name: str, **parameters: str) -> dict[str, object]:
    values = [{"name": key, "value": value} for key, value in parameters.items()]
    spec = {"workflowTemplateRef": {"name": "pushed"}, "arguments": {"parameters": values}}
    return {"apiVersion": WORKFLOWS.api_version, "kind": "Workflow", "metadata": {"name": name}, "spec": spec}


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
