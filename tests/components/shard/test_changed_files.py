"""A corpus of files that is written again behind the plan's back is noticed, even when it looks as it did."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts.dataset import ReadOptions
from components.dataset.witness import NewestChange
from components.errors import BadInput
from components.shard.task import run_task
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, a_corpus, a_spec, plan, shard


def write_again(path: Path) -> None:
    """Other bytes, as many as before, and the modification time put back."""
    before, newest = path.stat(), max(file.stat().st_ctime_ns for file in path.parent.iterdir())
    while path.stat().st_ctime_ns <= newest:  # some file systems' clocks tick every few ms
        path.write_bytes(b"?" * before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    """The same by a file that takes its place."""
    other = path.with_name("other")
    before = path.stat()
    other.write_bytes(path.read_bytes())
    write_again(other)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


def a_manifest(corpus: Path) -> Path:
    lines = [json.dumps({"uri": f"corpus/{path.name}"}) for path in sorted(corpus.iterdir())]
    (corpus.parent / "list.jsonl").write_text("\n".join(lines))
    return corpus.parent / "list.jsonl"


@pytest.mark.parametrize("change", [write_again, replace])
@pytest.mark.parametrize("spelled", ["uri", "folder", "manifest"])
def test_other_bytes_with_the_old_size_and_time_are_noticed(
    tmp_path: Path, change: Callable[[Path], None], spelled: str
) -> None:
    corpus, store = a_corpus(tmp_path / "corpus"), LocalStore(tmp_path / "storage")
    if spelled == "manifest":
        spec = a_spec(a_manifest(corpus), read=ReadOptions(read_as="manifest"))
    else:
        spec = a_spec(f"file://{corpus}" if spelled == "uri" else corpus)
    plan_id = plan(store, spec)
    victim = corpus / "03"
    change(victim)
    with pytest.raises(BadInput) as caught:
        run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG)
    assert caught.value.reason == "InputChanged"
    assert [problem.where for problem in caught.value.problems] == [str(victim)]


def test_a_plan_made_elsewhere_says_nothing_about_inodes_here(tmp_path: Path) -> None:
    corpus, store = a_corpus(tmp_path / "corpus"), LocalStore(tmp_path / "storage")
    plan_id = plan(store, a_spec(corpus))
    (witness,) = store.list(f"data/plans/{plan_id}/seen")
    store.create(f"data/plans/{plan_id}/seen/{'0' * 16}.json", store.read(witness.key))
    store.delete(witness.key)
    write_again(corpus / "03")

    assert len(run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG).shards) > 0


def test_a_new_plan_of_the_same_files_is_the_same_and_takes_their_inodes_as_they_are_now(tmp_path: Path) -> None:
    corpus, store = a_corpus(tmp_path / "corpus"), LocalStore(tmp_path / "storage")
    plan_id = plan(store, a_spec(corpus))
    write_again(corpus / "03")

    assert plan(store, a_spec(corpus)) == plan_id
    assert len(run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG).shards) > 0


def test_a_time_that_is_another_at_every_look_is_not_kept(tmp_path: Path) -> None:
    newest = NewestChange()
    newest.saw(str(tmp_path), tmp_path.stat().st_ctime_ns)
    assert newest.holds
    newest.saw(str(tmp_path), tmp_path.stat().st_ctime_ns + 1)
    assert not newest.holds
    assert not NewestChange().holds


def test_a_file_corpus_is_the_same_data_set_as_its_folder(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    versions = {
        shard(LocalStore(tmp_path / name), a_spec(spelled)).data_version
        for name, spelled in (("one", str(corpus)), ("two", f"file://{corpus}"))
    }
    assert len(versions) == 1
