"""Code that travels with the run is on every node before anything looks for the program, or no rank starts."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts.layout import code_key
from pipelines.code_archive import pack_code
from tests.components.agent.gang import Gang

NewGang = Callable[..., Gang]

PROGRAM = """
import os, helper
print(helper.WORD, "in", os.path.basename(os.getcwd()), flush=True)
"""


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    source = tmp_path / "source" / "app"
    source.mkdir(parents=True)
    (source / "train.py").write_text(PROGRAM)
    (source / "helper.py").write_text("WORD = 'travelled'\n")
    return pack_code(tmp_path / "source", exclude=(), max_bytes=2**20, into=tmp_path / "code.tar").path.read_bytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_ranks_of_every_node_start_in_the_code_that_travelled(new_gang: NewGang, archive: bytes) -> None:
    gang = new_gang(("python3", "train.py"), code=sha256(archive), workdir="app")
    gang.store.create(code_key(sha256(archive)), archive)

    assert gang.start().wait() == [0, 0]

    for rank in (0, 1):
        assert gang.messages(rank, rank=rank) == ["travelled in app"]


def test_code_that_was_altered_starts_no_rank(new_gang: NewGang, archive: bytes) -> None:
    gang = new_gang(("python3", "train.py"), code=sha256(archive), workdir="app")
    gang.store.create(code_key(sha256(archive)), archive.replace(b"travelled", b"tampered!"))

    assert gang.start().wait() == [81, 81]

    altered = sha256(archive.replace(b"travelled", b"tampered!"))
    assert f"check code {gang.store.uri_of(code_key(sha256(archive)))} is fail: SHA-256 {altered}" in gang.final.message


def test_code_that_is_gone_starts_no_rank(new_gang: NewGang, archive: bytes) -> None:
    gang = new_gang(("python3", "train.py"), code=sha256(archive))

    assert gang.start().wait() == [81, 81]

    assert f"code/{sha256(archive)}.tar" in gang.final.message
