"""What is handed to Argo."""

import pytest

from components.errors import BadInput
from infra.argo.submission import require_fit_for_cluster, workflow_again, workflow_from_template, workflow_of

DIGEST = "argosy@sha256:" + "a" * 64
MANIFEST = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "tiny-", "namespace": "other", "labels": {"argosy.dev/experiment": "tiny"}},
    "spec": {
        "entrypoint": "train",
        "arguments": {"parameters": [{"name": "run", "value": ""}, {"name": "image", "value": "i"}]},
        "templates": [],
    },
}


def test_a_run_names_its_workflow_and_everything_made_for_it() -> None:
    made = workflow_of(MANIFEST, name="tiny-b2c4d", run="tiny-b2c4d", parameters={"run": "tiny-b2c4d"}, instance_id="x")

    assert made["metadata"] == {
        "name": "tiny-b2c4d",
        "labels": {
            "argosy.dev/experiment": "tiny", "argosy.dev/run": "tiny-b2c4d", "app.kubernetes.io/managed-by": "argosy",
            "workflows.argoproj.io/controller-instanceid": "x",
        },
    }  # fmt: skip
    assert made["spec"]["podMetadata"] == {"labels": {"argosy.dev/run": "tiny-b2c4d"}}
    assert made["spec"]["arguments"]["parameters"] == [
        {"name": "run", "value": "tiny-b2c4d"}, {"name": "image", "value": "i"},
    ]  # fmt: skip
    assert MANIFEST["metadata"]["generateName"] == "tiny-"  # type: ignore[index]


def test_a_run_of_a_template_says_nothing_that_a_strict_cluster_refuses() -> None:
    template = {
        "metadata": {"name": "train-tiny", "labels": {"argosy.dev/experiment": "tiny", "team": "x"}, "uid": "u"},
        "spec": {"serviceAccountName": "s"},
    }

    made = workflow_from_template(template, name="tiny-b2c4d", run="tiny-b2c4d", parameters={"run": "tiny-b2c4d"})

    assert made["spec"] == {
        "workflowTemplateRef": {"name": "train-tiny"},
        "arguments": {"parameters": [{"name": "run", "value": "tiny-b2c4d"}]},
    }
    assert made["metadata"]["labels"] == {
        "argosy.dev/experiment": "tiny", "argosy.dev/run": "tiny-b2c4d", "app.kubernetes.io/managed-by": "argosy",
    }  # fmt: skip


def test_the_same_run_again_keeps_what_was_submitted_and_nothing_of_how_it_went() -> None:
    earlier = workflow_of(MANIFEST, name="tiny-b2c4d", run="tiny-b2c4d", parameters={"run": "tiny-b2c4d"})
    ended = {
        **earlier, "status": {"phase": "Failed"}, "spec": {**earlier["spec"], "shutdown": "Stop"},
        "metadata": {
            **earlier["metadata"], "uid": "u", "resourceVersion": "7", "annotations": {"argosy.dev/stop": "{}"},
            "labels": {**earlier["metadata"]["labels"], "workflows.argoproj.io/phase": "Failed"},
        },
    }  # fmt: skip

    again = workflow_again(ended, name="tiny-b2c4d-r7w2k")

    assert again["spec"] == earlier["spec"]
    assert again["metadata"] == {"name": "tiny-b2c4d-r7w2k", "labels": earlier["metadata"]["labels"]}
    assert "status" not in again


@pytest.mark.parametrize("parameters", [[], [{"name": "run", "value": ""}]])
def test_a_run_that_was_named_by_its_workflow_keeps_that_name_when_it_goes_on(parameters: list[dict[str, str]]) -> None:
    given = {"parameters": [*parameters, {"name": "commit", "value": "c"}]}
    spec = {"workflowTemplateRef": {"name": "tiny"}, "arguments": given}
    by_event = {"metadata": {"name": "tiny-0123456789", "labels": {}}, "spec": spec}
    by_schedule = {"metadata": {"name": "tiny-1764460800"}, "spec": {"workflowTemplateRef": {"name": "tiny"}}}

    again = workflow_again(by_event, name="tiny-0123456789-r7w2k")["spec"]["arguments"]["parameters"]
    assert sorted((item["name"], item["value"]) for item in again) == [("commit", "c"), ("run", "tiny-0123456789")]
    assert workflow_again(by_schedule, name="x")["spec"]["arguments"]["parameters"] == [
        {"name": "run", "value": "tiny-1764460800"}
    ]
    labelled = {**by_event, "metadata": {"name": "other", "labels": {"argosy.dev/run": "tiny-b2c4d"}}}
    assert {"name": "run", "value": "tiny-b2c4d"} in workflow_again(labelled, name="x")["spec"]["arguments"][
        "parameters"
    ]


def test_what_works_on_one_machine_only_is_refused_with_every_fault() -> None:
    require_fit_for_cluster(storage="s3://bucket/x", image=DIGEST, platform_image=DIGEST)
    with pytest.raises(BadInput) as raised:
        require_fit_for_cluster(storage="file:///tmp/x", image="train:1", platform_image="argosy:1")
    assert [problem.where for problem in raised.value.problems] == ["storage", "platform_image", "image"]


def test_what_is_read_from_a_folder_of_the_submitting_machine_is_refused_by_its_field() -> None:
    anywhere = {"corpus": "s3://bucket/texts/*.txt", "stdlib": "python:stdlib", "in the image": "/data/texts"}
    require_fit_for_cluster(storage="s3://bucket/x", image=DIGEST, platform_image=DIGEST, inputs=anywhere)
    with pytest.raises(BadInput) as raised:
        require_fit_for_cluster(
            storage="s3://bucket/x", image=DIGEST, platform_image=DIGEST,
            inputs={"shard.corpus": "corpus/", "shard.tokenizer": "./tokenizer.json"},
        )  # fmt: skip
    assert [problem.where for problem in raised.value.problems] == ["shard.corpus", "shard.tokenizer"]
