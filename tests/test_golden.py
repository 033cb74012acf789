"""Every recipe compiles to the manifest recorded in tests/golden; `make golden` rewrites them."""

from pathlib import Path

import pytest
import yaml
from hera.workflows import models as m

from infra.lint.manifest import lint
from pipelines.manifest_text import to_json, to_yaml
from pipelines.recipes import RECIPES, find_recipe
from pipelines.workflow import compile_manifest
from tests.pipelines.test_renders import files as rendered_files

GOLDEN = Path(__file__).parent / "golden"
STORAGE = "file:///srv/argosy/storage"


def compiled(name: str) -> dict[str, object]:
    return compile_manifest(find_recipe(name)[1], storage=STORAGE)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_compiles_to_its_golden_manifest(name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}.yaml"
    if request.config.getoption("--regenerate"):
        path.write_text(to_yaml(compiled(name)), encoding="ascii")

    assert compiled(name) == yaml.safe_load(path.read_text(encoding="ascii"))


def test_a_render_is_the_recorded_bytes(request: pytest.FixtureRequest) -> None:
    folder = GOLDEN / "render"
    if request.config.getoption("--regenerate"):
        for name, text in rendered_files().items():
            (folder / name).write_text(text, encoding="ascii")

    assert rendered_files() == {path.name: path.read_text(encoding="ascii") for path in folder.iterdir()}


def test_every_golden_manifest_has_a_recipe() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_golden_manifest_survives_the_models_of_argo_unchanged(name: str) -> None:
    manifest = yaml.safe_load((GOLDEN / f"{name}.yaml").read_text(encoding="ascii"))

    # Fields the models do not know would vanish here.
    assert m.Workflow.model_validate(manifest).model_dump(mode="json", by_alias=True, exclude_none=True) == manifest


@pytest.mark.parametrize("name", RECIPES)
def test_a_golden_manifest_passes_the_lint(name: str) -> None:
    assert lint(yaml.safe_load((GOLDEN / f"{name}.yaml").read_text(encoding="ascii"))) == []


def test_compiling_twice_gives_the_same_bytes() -> None:
    assert to_yaml(compiled("tiny")) == to_yaml(compiled("tiny"))
    assert to_json(compiled("tiny")) == to_json(compiled("tiny"))


def test_the_default_manifest_is_below_30_kb_and_does_not_grow_with_the_tasks() -> None:
    sizes = []
    for num_tasks in (100, 999):
        config = find_recipe("tiny")[1]
        shard = config.shard.model_copy(update={"num_tasks": num_tasks})
        sizes.append(len(to_yaml(compile_manifest(config.model_copy(update={"shard": shard}), storage=STORAGE))))

    assert sizes[0] == sizes[1]
    assert sizes[0] < 30_000
