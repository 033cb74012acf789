"""The compiled Workflow: its shape, its figures, and user text that Argo must never take for its own."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import BadInput
from components.launch.spec import LaunchSpec
from components.preflight.spec import PreflightSpec
from infra.local.substitution import substitute
from infra.workflow import load_workflow
from pipelines.config import load_config
from pipelines.manifest_text import to_json, to_yaml
from pipelines.workflow import compile_manifest


def compiled(*overrides: str, recipe: str = "tiny") -> dict[str, Any]:
    return compile_manifest(load_config(recipe=recipe, overrides=overrides), storage="file:///x")


def leaf(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in manifest["spec"]["templates"] if item["name"] == name)
    return found


def spec_of(manifest: dict[str, Any], name: str) -> str:
    arguments = leaf(manifest, name)["container"]["args"]
    text: str = arguments[arguments.index("--spec") + 1]
    return text


def test_shard_and_preflight_run_side_by_side_and_the_rest_follows() -> None:
    tasks = {task["name"]: task.get("depends") for task in leaf(compiled(), "train")["dag"]["tasks"]}

    assert tasks == {
        "shard-plan": None,
        "shard-task": "shard-plan",
        "shard-merge": "shard-task",
        "preflight": None,
        "launch": "shard-merge && preflight",
        "verify": "launch",
        "retain": "verify",
    }


def test_the_exit_handler_hears_how_the_workflow_ended() -> None:
    manifest = compiled()

    assert manifest["spec"]["onExit"] == "at-the-end"
    assert "status={{workflow.status}}" in leaf(manifest, "finish")["container"]["args"]


def test_places_differ_in_parameters_only() -> None:
    here, there = compiled(), compiled("storage=file:///mnt/shared", "image=x/train@sha256:1", "platform_image=x/p:1")
    assert here["spec"].pop("arguments") != there["spec"].pop("arguments")
    # The description, filed by preflight, says what was asked for; nothing else may know the place.
    for manifest in (here, there):
        arguments = leaf(manifest, "preflight")["container"]["args"]
        spec = json.loads(arguments[arguments.index("--spec") + 1])
        for field in ("storage", "image", "platform_image"):
            spec["description"].pop(field, None)
        arguments[arguments.index("--spec") + 1] = spec

    assert here == there


def test_how_a_storage_is_reached_is_told_to_every_container() -> None:
    manifest = compiled(
        "storage=s3://bucket/team", "storage_options.endpoint=https://s3.example", "storage_options.path_style=false"
    )
    containers = [item["container"] for item in manifest["spec"]["templates"] if "container" in item]

    assert len(containers) == 8
    for container in containers:
        assert container["env"] == [
            {"name": "AWS_ENDPOINT_URL_S3", "value": "https://s3.example"},
            {"name": "ARGOSY_S3_PATH_STYLE", "value": "false"},
        ]
    assert not any("env" in item.get("container", {}) for item in compiled()["spec"]["templates"])


def test_fractions_of_a_second_leave_the_deadlines_sound() -> None:
    compiled("verify.timeout=1500ms", "retain.timeout=100ms", "launch.limits.run=90500ms")


def test_the_launcher_gets_time_to_stop_its_gang() -> None:
    launch = leaf(compiled("launch.limits.stop=5m"), "launch")

    assert json.loads(launch["podSpecPatch"]) == {"terminationGracePeriodSeconds": 310}


def test_retries_and_deadlines_are_those_of_the_description() -> None:
    verify = leaf(compiled("verify.timeout=7m", "verify.retries=0"), "verify")

    assert verify["activeDeadlineSeconds"] == 420
    assert verify["retryStrategy"]["limit"] == 0


HOSTILE = ["{{workflow.parameters.storage}}", "{{x}}", "{{=1+1}}", 'a"b\\', "{", "}}", "ünïcode", "\x1b[31m", "$(id)"]


def test_user_text_is_never_a_tag_and_arrives_as_written() -> None:
    command = json.dumps(["python", *HOSTILE])
    manifest = compiled(
        f"launch.command={command}", f"launch.env={json.dumps({'A': HOSTILE[0]})}", "shard.corpus='{{x}}/*'"
    )
    text = spec_of(manifest, "launch")

    assert "{{" not in text
    # What the engine and Argo do before the container sees its arguments:
    substituted = substitute(leaf(manifest, "launch"), {"workflow.parameters.storage": "gone", "x": "gone"})
    arguments = substituted["container"]["args"]
    spec = LaunchSpec.model_validate_json(arguments[arguments.index("--spec") + 1])
    assert spec.command == ("python", *HOSTILE)
    assert spec.env == {"A": "{{workflow.parameters.storage}}"}
    assert json.loads(spec_of(manifest, "shard-plan"))["corpus"] == "{{x}}/*"


@pytest.mark.parametrize("checkpoint", ["none", "{every_steps: 5, writers: all}"])
def test_every_spec_reads_back_as_the_stage_reads_it(checkpoint: str) -> None:
    manifest = compiled(f"checkpoint={checkpoint}")

    launch = LaunchSpec.model_validate_json(spec_of(manifest, "launch"))
    preflight = PreflightSpec.model_validate_json(spec_of(manifest, "preflight"))
    assert launch.checkpoint == preflight.checkpoint
    assert (launch.checkpoint is None) == (checkpoint == "none")
    assert preflight.description["checkpoint"] == (
        "none" if checkpoint == "none" else {"every_steps": 5, "writers": "all"}
    )


def test_a_long_command_stays_below_the_limit_of_a_spec() -> None:
    # The longest description that is accepted at all still gives Specs below 32 KiB.
    for length in (13_000, 14_000, 14_200):
        try:
            config = load_config(recipe="tiny", overrides=[f"launch.command=[a, {'x' * length}]"])
        except BadInput:
            continue
        compile_manifest(config, storage="file:///x")


def test_yaml_and_json_say_the_same() -> None:
    import yaml

    manifest = compiled("model_version=1e3", "experiment='no'", 'launch.command=[a, "y", "1e3", "0x1", "~", ""]')

    assert yaml.safe_load(to_yaml(manifest)) == manifest
    assert json.loads(to_json(manifest)) == manifest
    # Words that some YAML reader would take for something else are quoted.
    assert "argosy.dev/model-version: '1e3'" in to_yaml(manifest)
    assert "argosy.dev/experiment: 'no'" in to_yaml(manifest)


def test_the_view_accepts_what_is_compiled() -> None:
    assert load_workflow(compiled()).metadata.generate_name == "tiny-"


def test_a_manifest_that_would_not_run_as_meant_is_refused() -> None:
    with pytest.raises(BadInput, match="holds braces"):
        compiled("storage=file:///{{x}}")


seconds = st.integers(1, 30 * 86_400_000).map(lambda milliseconds: f"{milliseconds}ms")
retries = st.integers(0, 20)


@settings(max_examples=50, deadline=None)
@given(
    timeouts=st.tuples(seconds, seconds, seconds, seconds),
    limits=st.tuples(seconds, seconds, seconds),
    attempts=st.tuples(retries, retries, retries, retries, retries),
    num_tasks=st.integers(1, 1000),
)
def test_every_valid_description_compiles_to_a_manifest_without_a_fault(
    timeouts: tuple[str, ...], limits: tuple[str, ...], attempts: tuple[int, ...], num_tasks: int
) -> None:
    stages = ("shard", "preflight", "verify", "retain")
    overrides = [f"{stage}.timeout={timeout}" for stage, timeout in zip(stages, timeouts, strict=True)]
    overrides += [f"launch.limits.{name}={limit}" for name, limit in zip(("run", "start", "stop"), limits, strict=True)]
    overrides += [f"{stage}.retries={count}" for stage, count in zip((*stages, "launch"), attempts, strict=True)]

    manifest = compiled(f"shard.num_tasks={num_tasks}", *overrides)

    assert manifest["spec"]["activeDeadlineSeconds"] > 0
