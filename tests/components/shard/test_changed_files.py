"""A file:// corpus that is written again behind the plan's back is noticed, even when it looks as it did."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from components.errors import BadInput
from components.shard.task import run_task
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, a_corpus, a_spec, plan, shard


def write_again(path: Path) -> None:
    """Other bytes, as many as before, and the modification time put back."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # some file systems' clocks tick every few ms
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


@pytest.mark.parametrize("change", [write_again, replace])
def test_other_bytes_with_the_old_size_and_time_are_noticed(tmp_path: Path, change: Callable[[Path], None]) -> None:
    corpus, store = a_corpus(tmp_path / "corpus"), LocalStore(tmp_path / "storage")
    plan_id = plan(store, a_spec(f"file://{corpus}"))
    victim = corpus / "03"
    change(victim)
    with pytest.raises(BadInput) as caught:
        run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG)
    assert caught.value.reason == "InputChanged"
    assert [problem.where for problem in caught.value.problems] == [str(victim)]


def test_a_file_corpus_is_the_same_data_set_as_its_folder(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    versions = {
        shard(LocalStore(tmp_path / name), a_spec(spelled)).data_version
        for name, spelled in (("one", str(corpus)), ("two", f"file://{corpus}"))
    }
    assert len(versions) == 1
