"""Images are built from what is named exactly, hold the code and no tests, and are known by their digest."""

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from infra.images.build import CHECKOUT, CODE, TARGETS, digest_of, main


def test_a_base_that_may_be_another_tomorrow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--base", "docker.io/library/python:3.11-slim", "--out", str(tmp_path)]) == 78
    assert "names no digest" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_archives_image_is_known_by_its_digest(tmp_path: Path) -> None:
    index = json.dumps({"manifests": [{"digest": "sha256:abc"}]}).encode()
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(index)
        tar.addfile(entry, BytesIO(index))

    assert digest_of(tmp_path / "image.tar") == "sha256:abc"


def test_the_containerfile_has_a_stage_for_each_image_and_none_runs_as_root() -> None:
    text = (CHECKOUT / "infra" / "images" / "Containerfile").read_text(encoding="utf-8")

    stages = text.split("FROM ")[1:]
    assert {stage.split("\n")[0].split(" AS ")[1] for stage in stages} == set(TARGETS.values())
    assert all("USER 65532:65532" in stage for stage in stages)


def test_all_folders_of_the_code_are_in_the_platform_image() -> None:
    sources = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - {"tests"}

    assert sources == set(CODE)
