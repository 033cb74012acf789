"""`compile --as`, `--check`: what is written, what is left alone, and what a bad commit is told."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipelines.cli.compile import compile_
from tests.pipelines.test_renders import PLACE

SET = [word for text in PLACE for word in ("--set", text)]


def run(*arguments: str) -> Result:
    from components.errors import ArgosyError

    result = CliRunner().invoke(compile_, ["--recipe", "tiny", *SET, *arguments], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, ArgosyError):
        raise result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert run("--as", "all", "--out", str(tmp_path / "render")).exception is None
    return tmp_path / "render"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def problems(result: Result) -> list[str]:
    found: Any = getattr(result.exception, "problems", ())
    return [str(problem) for problem in found]


def test_a_render_that_is_committed_as_it_is_passes(folder: Path) -> None:
    result = run("--check", str(folder))

    assert result.return_value == 0
    assert "is what recipe tiny renders as all" in result.stdout


def test_a_description_that_moved_on_is_told_field_by_field(folder: Path) -> None:
    result = run("--check", str(folder), "--set", "launch.limits.stop=2m", "--set", "seed=7")

    assert result.return_value == 78
    assert "workflow-template.yaml: differs (committed → rendered now)" in result.stdout
    assert "[launch].container.args.--spec.seed: 1234 → 7" in result.stdout
    assert "[launch].podSpecPatch.terminationGracePeriodSeconds: 70 → 130" in result.stdout


def test_an_edit_by_hand_is_told_and_linted(folder: Path) -> None:
    path = folder / "workflow-template.yaml"
    path.write_text(path.read_text().replace("shard-merge && preflight", "shard-merge"))
    result = run("--check", str(folder))

    assert result.return_value == 78
    assert '[launch].depends: "shard-merge" → "shard-merge && preflight"' in result.stdout

    path.write_text(path.read_text().replace("template: retain", "template: retian"))
    assert (
        "lint: spec.templates[train].dag.tasks[retain].template: there is no template 'retian'"
        in run("--check", str(folder)).stdout
    )


def test_missing_superfluous_reformatted_and_broken_files_are_each_told(folder: Path) -> None:
    (folder / "cron-workflow.yaml").write_text((folder / "roles.yaml").read_text())
    (folder / "roles.yaml").unlink()
    (folder / "workflow-template.yaml").write_text((folder / "workflow-template.yaml").read_text() + "\n")
    head = "".join((folder / "event-binding.yaml").read_text().splitlines(keepends=True)[:2])
    (folder / "event-binding.yaml").write_text(head + "a: [")
    result = run("--check", str(folder))

    assert result.return_value == 78
    for told in (
        "roles.yaml: is missing", "cron-workflow.yaml: would no longer be rendered", "in form only, from line",
        "is no YAML",
    ):  # fmt: skip
        assert told in result.stdout


def test_an_empty_folder_is_not_a_render(tmp_path: Path) -> None:
    result = run("--check", str(tmp_path / "nothing"))

    assert result.return_value == 78
    assert "workflow-template.yaml: is missing" in result.stdout


def test_foreign_files_are_left_alone_and_named(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "more").mkdir()
    result = run("--as", "all", "--out", str(folder), "--set", "seed=7")

    assert "left alone, and not in the kustomization: more/, notes.txt" in result.stderr
    assert (folder / "notes.txt").read_text() == "mine"
    checked = run("--check", str(folder), "--set", "seed=7")
    assert checked.return_value == 0
    assert "not looked at: more/, notes.txt" in checked.stderr


def test_a_foreign_file_with_the_name_of_one_of_ours_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [mine.yaml]\n")
    result = run("--as", "all", "--out", str(tmp_path))

    assert problems(result) == [
        f"{tmp_path}/kustomization.yaml: is no render; move it, or choose another folder",
    ]
    assert names(tmp_path) == ["kustomization.yaml"]
    assert "kustomization.yaml: is no render" in run("--check", str(tmp_path)).stdout


def test_the_render_of_another_description_is_never_overwritten(folder: Path) -> None:
    before = (folder / "workflow-template.yaml").read_text()
    result = run("--as", "all", "--out", str(folder), "--set", "model_version=v2")

    assert f"{folder}/roles.yaml: is a render of experiment tiny, model version v1" in "\n".join(problems(result))
    assert (folder / "workflow-template.yaml").read_text() == before


def test_what_is_no_longer_rendered_is_removed_and_the_rest_is_not_written_again(folder: Path) -> None:
    before = (folder / "workflow-template.yaml").stat().st_mtime_ns
    result = run("--as", "template", "--out", str(folder))

    assert names(folder) == ["kustomization.yaml", "workflow-template.yaml"]
    assert "removed event-binding.yaml, roles.yaml" in result.stderr
    assert run("--check", str(folder)).return_value == 0  # as which kind it was rendered is known
    again = run("--as", "template", "--out", str(folder))
    assert "nothing changed" in again.stderr
    assert (folder / "workflow-template.yaml").stat().st_mtime_ns != before  # its head says as what
    assert "is not what recipe tiny renders as all" in run("--check", str(folder), "--as", "all").stdout


def test_without_a_folder_the_objects_are_printed() -> None:
    import yaml

    kinds = [item["kind"] for item in yaml.safe_load_all(run("--as", "event").stdout)]

    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "Secret", "WorkflowTemplate", "WorkflowEventBinding"]


@pytest.mark.parametrize(
    "options",
    [
        ["--check", "x", "--out", "y"], ["--check", "x", "--as", "workflow"], ["--allow-tags"],
        ["--as", "all", "-o", "json"], ["--namespace", "ml"],
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(options: list[str]) -> None:
    result = run(*options)

    assert getattr(result.exception, "reason", None) == "Usage"
