"""A written run.yaml explains every field and reads back as the description it was made from."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config import TrainConfig, load_config
from pipelines.describe import json_schema
from pipelines.recipes import RECIPES, find_recipe
from pipelines.run_yaml import run_yaml

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_reads_back_from_its_run_yaml(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(run_yaml(find_recipe(name)[1], title="x"))

    assert load_config(path) == find_recipe(name)[1]


@settings(deadline=None)
@given(command=st.lists(texts, min_size=1, max_size=5), value=texts)
def test_any_command_and_any_variable_survive_the_run_yaml(
    command: list[str], value: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = find_recipe("tiny")[1]
    launch = config.launch.model_copy(update={"command": tuple(command), "env": {"A": value}})
    changed = config.model_copy(update={"launch": launch})
    path = tmp_path_factory.getbasetemp() / "run.yaml"
    path.write_text(run_yaml(changed, title="x"), encoding="utf-8")

    assert load_config(path) == changed


def test_lines_survive_the_run_yaml_also_where_hera_has_changed_how_yaml_is_written(tmp_path: Path) -> None:
    importlib.import_module("hera.workflows")
    config = find_recipe("tiny")[1]
    changed = config.model_copy(
        update={"launch": config.launch.model_copy(update={"command": ("sh", "-c", "a\nb\n", "\n")})}
    )
    path = tmp_path / "run.yaml"
    path.write_text(run_yaml(changed, title="x"), encoding="utf-8")

    assert load_config(path) == changed


def test_every_field_has_a_meaning() -> None:
    without = []

    def visit(name: str, schema: dict[str, Any]) -> None:
        for field, body in schema.get("properties", {}).items():
            if not body.get("description"):
                without.append(f"{name}.{field}")

    schema = json_schema(TrainConfig)
    visit("TrainConfig", schema)
    for name, body in schema["$defs"].items():
        visit(name, body)

    # Sections are described by their own docstring; the others by the line below the field.
    assert [item for item in without if item.split(".")[0] != "TrainConfig"] == []
    assert {item.split(".")[1] for item in without} <= {
        "shard", "preflight", "launch", "resume", "verify", "retain",
    }  # fmt: skip


def test_fields_at_rest_are_shown_but_commented_out() -> None:
    text = run_yaml(find_recipe("tiny")[1], title="x")

    assert "\n# storage:\n" in text
    assert "\n  # workdir:\n" in text
    assert "\n  over_long: split\n" in text


def test_the_schema_refuses_unknown_keys_and_knows_the_choices() -> None:
    schema = json_schema(TrainConfig)

    assert schema["additionalProperties"] is False
    assert schema["required"] == ["experiment", "shard", "launch", "checkpoint"]
    assert schema["$defs"]["ShardSection"]["properties"]["over_long"]["enum"] == ["split", "truncate", "drop", "error"]
    assert schema["$defs"]["Limits"]["properties"]["run"]["type"] == "string"
    assert schema["$defs"]["ResumeSection"]["properties"]["from"]["default"] == "latest"
    assert [option.get("const") for option in schema["properties"]["checkpoint"]["anyOf"]] == [None, "none"]
