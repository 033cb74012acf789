"""What killed writers leave where files cannot be nameless: collected when they are provably gone, never before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.processes import start_time
from components.storage import local, unfinished
from components.storage.local import LocalStore
from components.storage.unfinished import is_abandoned, unfinished_name

WRITER = """
import os, sys
from pathlib import Path
from components.storage import local
local._open_nameless = lambda folder: None  # as on NFS
store = local.LocalStore(Path(sys.argv[1]))
def write(file):
    file.write(b"half")
    print("writing", flush=True)
    sys.stdin.readline()
store._write("a/b/c", write, exclusive=True)
"""


def renamed(name: str, **fields: str) -> str:
    """With other fields: machine, boot, namespace, pid, started."""
    parts = dict(zip(("tmp", "machine", "boot", "namespace", "pid", "started", "id"), name[1:].split("-"), strict=True))
    return "." + "-".join({**parts, **fields}.values())


def test_a_file_that_is_being_written_stays_and_one_of_a_killed_writer_goes(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    store = LocalStore(tmp_path)
    assert store.sweep("a") == 0
    assert len(list(tmp_path.rglob(".tmp-*"))) == 1

    writer.kill()
    writer.communicate()

    assert store.sweep("a") == 1
    assert list(tmp_path.iterdir()) == []  # nor the folders that were made for it


def test_where_files_have_names_nothing_is_left_and_one_writer_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_open_nameless", lambda folder: None)
    store = LocalStore(tmp_path)

    store.create("a/b", b"first")
    with pytest.raises(local.AlreadyExists):
        store.create("a/b", b"second")
    store.replace("a/b", b"third")

    assert store.read("a/b") == b"third"
    assert list(tmp_path.rglob(".tmp-*")) == []


def test_this_process_has_not_abandoned_what_it_writes() -> None:
    assert not is_abandoned(unfinished_name())


def test_what_cannot_be_proved_stays() -> None:
    name, gone = unfinished_name(), {"started": "1"}  # another process had this pid
    assert is_abandoned(renamed(name, **gone))
    for unknown in ({"namespace": "1" * 16}, {"namespace": "0" * 16}, {"boot": "0" * 16}):
        assert not is_abandoned(renamed(name, **gone, **unknown))
    assert not is_abandoned(renamed(name, boot="1" * 16, machine="1" * 16))
    assert not is_abandoned(renamed(name, boot="1" * 16, machine="0" * 16))


def test_everything_of_an_earlier_boot_of_this_machine_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "_here", lambda: ("a" * 16, "b" * 16, "c" * 16))
    name = f".tmp-{'a' * 16}-{'d' * 16}-{'c' * 16}-{os.getpid()}-{start_time(os.getpid())}-{'e' * 32}"
    assert is_abandoned(name)
    monkeypatch.setattr(unfinished, "_here", lambda: ("0" * 16, "b" * 16, "c" * 16))
    assert not is_abandoned(name.replace("a" * 16, "0" * 16))


@pytest.mark.parametrize(
    "name", [".tmp-", ".tmp-0123456789abcdef0123456789abcdef", ".tmp-half", "model.safetensors", ".tmp-a-b-c-1-1-d"]
)
def test_a_name_of_another_kind_proves_nothing(name: str) -> None:
    assert not is_abandoned(name)
