"""doctor: each fault of a machine is named, with what to do about it."""

import os
from pathlib import Path

import pytest

from components.checks.question import Question
from components.contracts.checks import CheckStatus
from pipelines.config import load_config
from pipelines.machine import (
    declared_requirements,
    examine,
    home_writable,
    judge_facilities,
    judge_packages,
    judge_python,
)
from tests.fakes.s3_server import S3Server

QUESTION = Question(name="x", scope="environment", expected="y", origin="z", remedy="do it")


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10, 9), "fail"), ((3, 11, 0), "ok"), ((3, 13, 5), "ok"), ((3, 14, 0), "fail")],
)
def test_python_must_be_one_that_argosy_is_made_for(version: tuple[int, ...], status: str) -> None:
    assert judge_python(QUESTION, version=version).status == status


def test_missing_and_unsuitable_packages_are_all_named() -> None:
    result = judge_packages(QUESTION, requirements=["pydantic>=2", "no-such-package", "click>=99,<100"])

    assert result.status is CheckStatus.FAIL
    assert result.measured.startswith("no-such-package is missing; click is 8.")
    assert "click is" in result.measured
    assert "pydantic" not in result.measured


def test_what_argosy_needs_is_read_from_pyproject() -> None:
    assert any(item.startswith("hera") for item in declared_requirements())
    assert judge_packages(QUESTION, requirements=declared_requirements()).status is CheckStatus.OK


def test_a_home_that_is_not_there_yet_is_fine_where_it_can_be_made(tmp_path: Path) -> None:
    result = home_writable(QUESTION, tmp_path / "a" / "b")

    assert result.status is CheckStatus.OK
    assert str(tmp_path) in result.measured
    assert list(tmp_path.iterdir()) == []


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert home_writable(QUESTION, tmp_path / "file").status is CheckStatus.FAIL


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_nobody_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    assert home_writable(QUESTION, tmp_path / "a").status is CheckStatus.FAIL


def test_missing_facilities_are_named() -> None:
    assert judge_facilities(QUESTION, missing=["child subreaper"]).measured == "missing: child subreaper"


def test_a_run_too_large_for_the_machine_is_told_by_name(tmp_path: Path) -> None:
    config = load_config(
        recipe="tiny", overrides=["preflight.memory_per_rank=900TiB", "launch.command=[no-such-program]"]
    )

    report = examine(config, home=tmp_path, storage=f"file://{tmp_path}/storage", workdir=tmp_path)

    assert {result.name for result in report.blocking} == {"memory", "program"}
    assert list(tmp_path.iterdir()) == []


def test_a_storage_folder_is_asked_whether_it_keeps_its_promises_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    found = {}
    for folder in (tmp_path / "new" / "storage", tmp_path / "kept"):
        report = examine(load_config(recipe="tiny"), home=tmp_path, storage=f"file://{folder}", workdir=tmp_path)
        found[folder.name] = {item.name: item.status for item in report.results if item.name.startswith("storage")}

    assert list(found.values()) == [{"storage_writable": "ok", "storage_atomic": "ok"}] * 2
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_a_storage_folder_that_cannot_be_made_is_unfit(tmp_path: Path) -> None:
    report = examine(load_config(recipe="tiny"), home=tmp_path, storage="file:///proc/x", workdir=tmp_path)

    failed = {result.name: result.measured for result in report.blocking if result.name.startswith("storage")}
    assert set(failed) == {"storage_writable", "storage_atomic"}
    assert failed["storage_writable"].startswith("cannot write /proc/x/")


def test_an_s3_storage_is_asked_whether_it_keeps_its_promises(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    found = {}
    for bucket in (s3_server.new_bucket(), "no-such-bucket"):
        config = load_config(recipe="smoke", overrides=[f"storage=s3://{bucket}/x"])
        report = examine(config, home=tmp_path, storage=f"s3://{bucket}/x", workdir=tmp_path)
        found[bucket] = {result.name: result for result in report.results if result.name.startswith("storage")}

    good, missing = found.values()
    assert {name: result.status for name, result in good.items()} == {"storage_writable": "ok", "storage_atomic": "ok"}
    assert {result.status for result in missing.values()} == {"fail"}
    assert missing["storage_writable"].remedy == "create the bucket, or correct its name"
