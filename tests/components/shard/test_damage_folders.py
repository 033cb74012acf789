"""Every damage in tests/damage/data is told by its level, by the command and by the stage: shard, offset, both values.

The readers people use say nothing about most of these, and some then train on fewer samples than there are.
"""

import json
import shutil
from pathlib import Path

import pytest

from components.contracts.dataset import ProofLevel
from components.errors import BadInput
from components.shard.command import main
from components.shard.task import run_task
from components.shard.verify import verify_version
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, plan
from tests.components.shard.formats import FORMATS, made, rows, spec
from tests.damage.data_damages import DAMAGED, DataSet, damages_of
from tests.damage.make_data_damage import HERE, LEVELS, said_by_every_level

FOLDERS = sorted(path.parent.name for path in HERE.glob("*/expected.json"))


def laid_out(name: str, to: Path) -> tuple[Path, dict[str, object]]:
    """The storage in which that happened, and what is to be said about it."""
    expected = json.loads((HERE / name / "expected.json").read_text())
    shutil.copytree(HERE / f"sound-{name.partition('-')[0]}", to)
    shutil.copytree(HERE / name, to, dirs_exist_ok=True)
    for key in expected["gone"]:
        (to / key).unlink(missing_ok=True)
    return to, expected


@pytest.mark.parametrize("name", FOLDERS)
def test_a_damage_is_told_by_its_level_and_those_above_word_for_word(name: str, tmp_path: Path) -> None:
    storage, expected = laid_out(name, tmp_path / "storage")

    said = said_by_every_level(storage, str(expected["version"]))

    assert said == expected["said"]
    assert [level for level in LEVELS if said[level]] == list(LEVELS[LEVELS.index(expected["level"]) :])  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
def test_every_damage_has_its_folder_and_without_one_nothing_is_said(format: str) -> None:
    (folder,) = (HERE / f"sound-{format}" / "data" / "versions").iterdir()

    assert said_by_every_level(HERE / f"sound-{format}", folder.name) == {level: [] for level in LEVELS}
    assert set(damages_of(format)) <= {name.removeprefix(f"{format}-") for name in FOLDERS}


@pytest.mark.parametrize("name", [name for name in FOLDERS if "manifest-cut" not in name])
def test_the_command_ends_with_96_and_tells_programs_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, expected = laid_out(name, tmp_path / "storage")
    level, version = str(expected["level"]), str(expected["version"])

    assert main(["verify", "--storage", str(storage), "--version", version, "--level", level]) == 96

    out, lines = capsys.readouterr()
    told = [json.loads(line) for line in lines.splitlines()]
    assert out == ""
    assert told[-1]["exit_code"] == 96
    of_shards = [line for line in told if "shard" in line]
    assert [line["message"] for line in of_shards] == [
        said for said in expected["said"][level] if said.startswith("shard ")  # type: ignore[index]
    ]  # fmt: skip
    assert all({"file", "offset", "expected", "found"} <= set(line) for line in of_shards)


def sound_data_set(store: LocalStore, format: str, version: str) -> DataSet:
    return DataSet(format, version, {info.key: store.read(info.key) for info in store.list("data")})


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("format", FORMATS)
def test_the_stage_refuses_a_damaged_shard_that_it_finds_done(format: str, level: ProofLevel, tmp_path: Path) -> None:
    corpus, store = rows(tmp_path / "rows", count=9), LocalStore(tmp_path / "storage")
    described = spec(corpus, format, target=300, key_field="id")
    manifest, plan_id = made(store, corpus, format, target=300, key_field="id"), plan(store, described)
    sound = sound_data_set(store, format, manifest.data_version)
    for damage, happen in damages_of(format).items():
        files = dict(sound.files)
        happen(sound, files)
        changed = [key for key in sound.files if files.get(key) != sound.files[key]]
        if not all(key.startswith("data/shards/") and key in files for key in changed):
            continue  # beside the shards, or gone: made again
        for key in changed:
            (store.root / key).write_bytes(files[key])
        if level != "files" or any(len(files[key]) != len(sound.files[key]) for key in changed):
            with pytest.raises(BadInput, match=r"ShardDamaged: (.|\n)*expected ") as caught:
                run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG, verify=level)
            assert f"{manifest.shards[DAMAGED].entry}." in str(caught.value.problems[0]), damage
        else:
            run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG, verify=level)
        for key in changed:
            (store.root / key).write_bytes(sound.files[key])
    assert verify_version(store, manifest.data_version, level="records", log=LOG) == len(manifest.shards)
