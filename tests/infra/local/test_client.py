"""Runs of this machine: created whole or not at all, found by name, listed by age."""

import json
from pathlib import Path

import pytest

from components.errors import BadInput, EnvironmentUnfit
from infra.local.client import create_run, home, list_runs, request_stop, withdraw_run
from tests.infra.local.workflows import a_shell, a_task, a_workflow

MANIFEST = a_workflow(
    [a_task("a")],
    [a_shell("a", "echo {{workflow.parameters.storage}}")],
    arguments={"parameters": [{"name": "storage", "value": "file:///default"}]},
)


def create(folder, *, run="run-1", manifest=MANIFEST, **parameters):
    return create_run(
        home=folder, manifest=manifest, run=run, experiment="e", model_version="v1", parameters=parameters,
        description={"experiment": "e"}, argv=["submit", "-c", "run.yaml"],
    )  # fmt: skip


def test_the_home_is_where_the_environment_says():
    assert home({"ARGOSY_HOME": "/data/argosy"}) == Path("/data/argosy")
    assert home({}) == Path.home() / ".local" / "state" / "argosy"


def test_a_new_run_says_what_was_submitted_and_has_its_parameters_in_the_manifest(tmp_path):
    run_dir = create(tmp_path, storage="file:///mine")

    info = run_dir.info()
    assert (info.run, info.experiment, info.storage, info.argv) == (
        "run-1",
        "e",
        "file:///mine",
        ("submit", "-c", "run.yaml"),
    )
    assert run_dir.manifest()["spec"]["arguments"]["parameters"] == [{"name": "storage", "value": "file:///mine"}]
    assert MANIFEST["spec"]["arguments"]["parameters"][0]["value"] == "file:///default"
    assert run_dir.state().phase == "Pending"
    assert not run_dir.engine_alive()


def test_storage_is_the_manifests_own_unless_replaced(tmp_path):
    assert create(tmp_path).info().storage == "file:///default"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run": "Run_1"}, "BadRunName"),
        ({"run": "../x"}, "BadRunName"),
        ({"colour": "red"}, "UnknownParameter"),
        ({"manifest": {"kind": "Workflow"}}, "UnsupportedWorkflow"),
    ],
)
def test_what_cannot_run_leaves_no_folder(tmp_path, change, reason):
    with pytest.raises(BadInput) as caught:
        create(tmp_path, **change)

    assert caught.value.reason == reason
    assert list(tmp_path.rglob("*")) == []


def test_a_run_is_never_overwritten(tmp_path):
    create(tmp_path, storage="file:///first")
    with pytest.raises(BadInput, match="exists already"):
        create(tmp_path, storage="file:///second")

    (kept,) = list_runs(tmp_path)
    assert kept.info().storage == "file:///first"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run-1"]


def test_a_home_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(EnvironmentUnfit, match="set ARGOSY_HOME"):
        create(tmp_path / "file")


def test_only_a_run_that_was_never_started_is_withdrawn(tmp_path):
    never, started = create(tmp_path, run="never"), create(tmp_path, run="started")
    started.engine_log_path.touch()

    withdraw_run(never)
    withdraw_run(started)

    assert [run_dir.name for run_dir in list_runs(tmp_path)] == ["started"]


def test_a_stop_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path):
    run_dir = create(tmp_path)
    run_dir.stop_path.mkdir()
    before = sorted(run_dir.path.iterdir())

    with pytest.raises(EnvironmentUnfit, match=r"cannot write .*stop\.json: Is a directory"):
        request_stop(run_dir, by="me")
    assert sorted(run_dir.path.iterdir()) == before


def test_runs_are_listed_by_age_and_half_made_ones_are_not_runs(tmp_path):
    assert list_runs(tmp_path) == []
    for name in ("zebra", "ant"):
        create(tmp_path, run=name)
    (tmp_path / "runs" / ".new-bee-1").mkdir()
    (tmp_path / "runs" / "empty").mkdir()

    assert [run_dir.name for run_dir in list_runs(tmp_path)] == ["zebra", "ant"]


def test_a_damaged_run_file_is_said_with_its_path(tmp_path):
    run_dir = create(tmp_path)
    (run_dir.path / "run.json").write_text(json.dumps({"run": 1}))
    run_dir.manifest_path.write_text("{")

    with pytest.raises(Exception, match=r"run\.json is not a readable RunInfo"):
        run_dir.info()
    with pytest.raises(Exception, match=r"manifest\.json is not JSON"):
        run_dir.manifest()
    assert [other.name for other in list_runs(tmp_path)] == ["run-1"]
