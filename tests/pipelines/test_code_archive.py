"""Code that travels: the same files are the same bytes, what cannot be carried is refused by name."""

import os
import socket
import tarfile
from pathlib import Path

import pytest

from components.agent.node_code import unpack_code
from components.errors import BadInput
from pipelines.code_archive import PackedCode, list_code, pack_code


def a_folder(folder: Path) -> Path:
    for name, text in {
        "train.py": "import model\n", "pkg/model.py": "x = 1\n", "pkg/data/big.ckpt": "0" * 100, "notes/a.txt": "a",
        ".git/HEAD": "ref", "pkg/__pycache__/model.cpython-311.pyc": "b", "venv/bin/python": "c",
        "run.sh": "#!/bin/sh\n",
    }.items():  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "run.sh").chmod(0o700)
    return folder


def packed(folder: Path, into: Path, *, exclude: tuple[str, ...] = (), max_bytes: int = 2**20) -> PackedCode:
    return pack_code(folder, exclude=exclude, max_bytes=max_bytes, into=into)


def names(folder: Path, *exclude: str) -> list[str]:
    return [item.name for item in list_code(folder, exclude=exclude)]


def test_the_same_files_are_the_same_bytes_wherever_and_whenever(tmp_path: Path) -> None:
    one, other = a_folder(tmp_path / "one"), a_folder(tmp_path / "other")
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    (other / "pkg").chmod(0o700)
    (other / "train.py").chmod(0o640)
    (other / "empty").mkdir()

    first, second = packed(one, tmp_path / "a.tar"), packed(other, tmp_path / "b.tar")

    assert first.digest == second.digest
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == "82d9d9fd4989a9da71dd6f7a3b572636e6140381ae16fe2b80e19b7acb6ca56d"  # nor may it ever change
    assert (first.num_files, first.size) == (5, 130)


@pytest.mark.parametrize("change", ["content", "name", "executable"])
def test_another_content_name_or_right_to_execute_is_another_digest(tmp_path: Path, change: str) -> None:
    before = packed(a_folder(tmp_path / "code"), tmp_path / "a.tar").digest
    path = tmp_path / "code" / "train.py"
    if change == "content":
        path.write_text("import Model\n")
    elif change == "name":
        path.rename(path.with_name("Train.py"))
    else:
        path.chmod(0o755)

    assert packed(tmp_path / "code", tmp_path / "b.tar").digest != before


def test_repositories_caches_and_environments_stay_behind(tmp_path: Path) -> None:
    assert names(a_folder(tmp_path)) == ["notes/a.txt", "pkg/data/big.ckpt", "pkg/model.py", "run.sh", "train.py"]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (("*.ckpt", "notes/"), ["pkg/model.py", "run.sh", "train.py"]),
        (("/pkg",), ["notes/a.txt", "run.sh", "train.py"]),
        (("data/",), ["notes/a.txt", "pkg/model.py", "run.sh", "train.py"]),
        (("*", "!train.py"), ["train.py"]),
        (("!venv/", "notes"), ["pkg/data/big.ckpt", "pkg/model.py", "run.sh", "train.py", "venv/bin/python"]),
    ],
)
def test_patterns_mean_what_a_gitignore_means(tmp_path: Path, exclude: tuple[str, ...], left: list[str]) -> None:
    assert names(a_folder(tmp_path), *exclude) == left


def test_what_cannot_be_carried_is_refused_by_name_and_all_at_once(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "code")
    (folder / "link.py").symlink_to("train.py")
    (folder / "pkg" / "outside").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    (folder / "new\nline.py").touch()
    with pytest.raises(BadInput) as caught:
        names(folder)

    assert caught.value.reason == "CodeRefused"
    assert [(item.where, item.seen) for item in caught.value.problems] == [
        ("link.py", "is a symbolic link to train.py"),
        ("'new\\nline.py'", "has control characters, or bytes that are no UTF-8, in its name"),
        ("pipe", "is a pipe"),
        ("pkg/outside", "is a symbolic link to /etc"),
        ("socket", "is a socket"),
    ]


def test_an_excluded_link_is_no_obstacle(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    (folder / "latest").symlink_to("/elsewhere")

    assert "train.py" in names(folder, "latest")


def test_too_much_is_refused_with_what_holds_most(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        packed(a_folder(tmp_path / "code"), tmp_path / "a.tar", max_bytes=129)

    assert "has 5 files of 130 B; at most 20000 and 129 B travel" in caught.value.seen
    assert [(item.where, item.seen) for item in caught.value.problems][:2] == [
        ("pkg/", "holds 106 B"), ("train.py", "holds 13 B"),
    ]  # fmt: skip
    assert not (tmp_path / "a.tar").exists()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.touch(), "is no folder"),
        (lambda path: path.mkdir(), "holds no file that is not excluded"),
    ],
)
def test_a_folder_that_is_none_is_told(tmp_path: Path, make: object, expected: str) -> None:
    make(tmp_path / "code")  # type: ignore[operator]
    with pytest.raises(BadInput, match=expected):
        packed(tmp_path / "code", tmp_path / "a.tar")


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "code")
    deep = folder / ("long-" * 30) / "näme.py"
    deep.parent.mkdir()
    deep.write_text("deep")
    archive = packed(folder, tmp_path / "a.tar")

    assert unpack_code(archive.path, tmp_path / "there") == archive.num_files
    assert unpack_code(archive.path, tmp_path / "there") == archive.num_files  # in place of the first
    there = {str(path.relative_to(tmp_path / "there")) for path in (tmp_path / "there").rglob("*") if path.is_file()}
    assert there == set(names(folder))
    assert (tmp_path / "there" / "pkg" / "model.py").read_text() == "x = 1\n"
    assert os.access(tmp_path / "there" / "run.sh", os.X_OK)
    assert (tmp_path / "there" / "train.py").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "there" / deep.relative_to(folder)).read_text() == "deep"


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/../../b", "./a"])
def test_an_archive_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(ValueError, match="no plain file inside it"):
        unpack_code(tmp_path / "a.tar", tmp_path / "there")

    assert not (tmp_path / "there").exists()


def test_an_archive_with_a_link_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ValueError, match="no plain file inside it"):
        unpack_code(tmp_path / "a.tar", tmp_path / "there")
