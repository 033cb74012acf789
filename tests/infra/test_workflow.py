"""The strict view reads what `compile` prints, refuses everything else with its path, and knows what has no meaning."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import BadInput
from infra.workflow import BackoffView, SequenceView, View, Workflow, load_workflow, without_meaning

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((GOLDEN / "tiny.yaml").read_text())
    return loaded


def faults(manifest: Any) -> list[str]:
    with pytest.raises(BadInput) as caught:
        load_workflow(manifest)
    return [str(problem) for problem in caught.value.problems]


def test_the_view_holds_everything_of_a_golden_manifest(manifest: dict[str, Any]) -> None:
    view = load_workflow(manifest)

    spec = view.spec
    launch = spec.template("launch")
    assert (spec.entrypoint, spec.on_exit) == ("train", "at-the-end")
    assert spec.arguments.values()["storage"] == "file:///srv/argosy/storage"
    assert launch is not None
    assert launch.is_leaf
    assert launch.pod_spec_patch == '{"terminationGracePeriodSeconds":70}'
    assert [output.name for output in launch.outputs.parameters][:2] == ["checkpoint", "step"]
    dag = spec.template("train")
    assert dag is not None
    assert dag.dag is not None
    task = dag.dag.task("shard-task")
    assert task is not None
    assert task.with_sequence is not None
    assert task.with_sequence.items() == ("0", "1", "2", "3")


def test_an_unknown_field_is_refused_with_the_names_on_its_path(manifest: dict[str, Any]) -> None:
    leaf = next(item for item in manifest["spec"]["templates"] if item["name"] == "launch")
    leaf["container"]["workingDir"] = "/x"
    leaf["inputs"]["parameters"][0]["enum"] = ["a"]

    assert faults(manifest) == [
        "spec.templates[launch].inputs.parameters[data_version].enum: unknown field; "
        "Argosy neither emits nor honours it; remove it",
        "spec.templates[launch].container.workingDir: unknown field; Argosy neither emits nor honours it; remove it",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kind": "CronWorkflow"}, "kind: Input should be 'Workflow'"),
        ({"apiVersion": "v1"}, "apiVersion: Input should be 'argoproj.io/v1alpha1'"),
        ({"spec": {"entrypoint": "a", "templates": []}}, "spec.templates: "),
        (
            {"spec": {"entrypoint": "a", "templates": [{"name": "a"}]}},
            "spec.templates[a]: must be a container, a dag, or one step",
        ),
        ({"metadata": 3}, "metadata: "),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(change: dict[str, Any], expected: str, manifest: Any) -> None:
    assert any(fault.startswith(expected) for fault in faults({**manifest, **change}))


@pytest.mark.parametrize("value", [None, [], "text", {}])
def test_what_is_no_workflow_is_refused(value: Any) -> None:
    assert faults(value) != []


def test_a_number_may_be_written_as_text_as_kubernetes_allows(manifest: dict[str, Any]) -> None:
    manifest["spec"]["templates"][0]["retryStrategy"]["limit"] = "5"

    retry = load_workflow(manifest).spec.templates[0].retry_strategy
    assert retry is not None
    assert retry.limit == 5


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ({"duration": "3s", "factor": 3, "cap": "60s"}, [3, 9, 27, 60, 60]),
        ({"duration": "1m"}, [60, 60, 60, 60, 60]),
        ({"duration": "2s", "factor": "2"}, [2, 4, 8, 16, 32]),
    ],
)
def test_the_wait_before_a_retry_grows_up_to_the_cap(backoff: dict[str, Any], waits: list[float]) -> None:
    view = BackoffView.model_validate(backoff)

    assert [view.wait_seconds(retry) for retry in range(5)] == waits


@pytest.mark.parametrize(
    ("sequence", "items"),
    [
        ({"count": "3"}, ("0", "1", "2")),
        ({"count": 0}, ()),
        ({"start": 2, "count": 2}, ("2", "3")),
        ({"start": "3", "end": "1"}, ("3", "2", "1")),
    ],
)
def test_a_sequence_counts_as_argo_does(sequence: dict[str, Any], items: tuple[str, ...]) -> None:
    assert SequenceView.model_validate(sequence).items() == items


def test_fields_without_meaning_here_are_listed_with_a_reason(manifest: dict[str, Any]) -> None:
    listed = without_meaning(manifest)

    assert listed["spec.podGC"] == "there are no pods on one machine"
    assert "spec.templates[].container.image" in listed
    assert "spec.templates[].activeDeadlineSeconds" not in listed
    assert all(listed.values())


def test_every_field_without_meaning_is_a_field_of_the_view() -> None:
    from infra.workflow import WITHOUT_MEANING

    for view, alias in WITHOUT_MEANING:
        assert alias in {info.alias for info in view.model_fields.values()}
    assert issubclass(Workflow, View)
