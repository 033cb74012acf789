"""The container template of a stage: its command line, its deadline, its outputs; user text stays inert."""

import json
from typing import Any

from hera.workflows import Workflow

from components.verify.spec import VerifySpec
from templates.stage import stage_template


def built(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "module": "verify",
        "spec": VerifySpec(experiment="tiny", model_version="v1", level="files", has_checkpoints=True),
        "experiment": "tiny",
        "timeout": 90.2,
        "retries": 2,
    }
    with Workflow(generate_name="x-", entrypoint="verify") as workflow:
        stage_template("verify", **{**arguments, **changes})
    template: dict[str, Any] = workflow.to_dict()["spec"]["templates"][0]
    return template


def test_the_command_line_is_the_one_every_stage_reads() -> None:
    container = built(inputs=("checkpoint",), values={"status": "x"}, task="verify-1")["container"]

    assert container["command"] == ["python", "-m", "components.verify"]
    assert container["args"] == [
        "--spec", '{"experiment":"tiny","has_checkpoints":true,"level":"files","model_version":"v1"}',
        "--storage", "{{workflow.parameters.storage}}",
        "--run", "{{workflow.parameters.run}}",
        "--workflow", "{{workflow.name}}",
        "--experiment", "tiny",
        "--task", "verify-1",
        "--attempt", "{{retries}}",
        "--workdir", "{{workflow.parameters.workdir}}",
        "--input", "checkpoint={{inputs.parameters.checkpoint}}",
        "--input", "status=x",
    ]  # fmt: skip


def test_a_part_of_a_stage_comes_first() -> None:
    assert built(part="merge")["container"]["args"][:2] == ["merge", "--spec"]


def test_a_fraction_of_a_second_is_never_cut_off_a_deadline() -> None:
    assert built()["activeDeadlineSeconds"] == 91


def test_the_grace_period_is_set_only_where_a_stage_needs_its_own() -> None:
    assert "podSpecPatch" not in built()
    assert json.loads(built(grace_seconds=69.5)["podSpecPatch"]) == {"terminationGracePeriodSeconds": 70}


def test_outputs_are_read_from_the_folder_the_stage_writes_to() -> None:
    assert built(outputs=("verdict",))["outputs"]["parameters"] == [
        {"name": "verdict", "valueFrom": {"path": "/argosy/out/verdict"}}
    ]


def test_nothing_in_a_spec_means_anything_to_argo_or_kubernetes() -> None:
    hostile = "$(ARGOSY_NODE) $$ {{retries}} \\$x"
    spec = VerifySpec(experiment=hostile, model_version="v1", level="files", has_checkpoints=True)
    text = built(spec=spec)["container"]["args"][1]

    assert "$" not in text
    assert "{{" not in text
    assert json.loads(text)["experiment"] == hostile
