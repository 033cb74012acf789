"""What counts as an input, and what is said about everything that does not."""

import os
import sysconfig
from pathlib import Path

import pytest

from components.contracts.dataset import BadRecord
from components.dataset.corpus import Corpus, list_corpus, root_folder
from components.errors import BadInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """corpus/{a.txt, b/c.txt, b/d.md, b/e/f.txt, empty}"""
    for name, text in (("a.txt", "a"), ("b/c.txt", "cc"), ("b/d.md", "ddd"), ("b/e/f.txt", "ffff"), ("empty", "")):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "corpus"


def names(corpus: Corpus) -> list[str]:
    return [planned.path for planned in corpus.inputs]


def test_a_folder_means_every_file_below_it_in_the_order_of_the_paths(folder: Path) -> None:
    corpus = list_corpus(str(folder), workdir="")

    assert names(corpus) == ["a.txt", "b/c.txt", "b/d.md", "b/e/f.txt", "empty"]
    assert [planned.size_bytes for planned in corpus.inputs] == [1, 2, 3, 4, 0]
    assert corpus.root == str(folder)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("corpus/*.txt", ["a.txt"]),
        ("corpus/**/*.txt", ["a.txt", "b/c.txt", "b/e/f.txt"]),
        ("corpus/*/*", ["b/c.txt", "b/d.md"]),
        ("corpus/b/**", ["c.txt", "d.md", "e/f.txt"]),
        ("c*/b/[cd].*", ["corpus/b/c.txt", "corpus/b/d.md"]),
        ("corpus/a.txt", ["a.txt"]),
        ("./corpus/../corpus/b", ["c.txt", "d.md", "e/f.txt"]),
    ],
)
def test_a_relative_corpus_starts_from_workdir(folder: Path, pattern: str, expected: list[str]) -> None:
    assert names(list_corpus(pattern, workdir=str(folder.parent))) == expected


def test_a_glob_does_not_look_into_folders_that_cannot_match(folder: Path) -> None:
    corpus = list_corpus(str(folder / "a*"), workdir="", storage=folder / "b")

    assert names(corpus) == ["a.txt"]
    assert corpus.problems == []


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "v[1]").mkdir()
    (tmp_path / "v[1]" / "x").write_text("x")

    assert names(list_corpus(str(tmp_path / "v[1]"), workdir="")) == ["x"]


def test_loops_of_links_end_and_no_file_is_taken_twice(folder: Path) -> None:
    (folder / "b" / "up").symlink_to(folder)
    (folder / "again").symlink_to(folder / "b")

    assert names(list_corpus(str(folder), workdir="")) == [
        "a.txt", "again/c.txt", "again/d.md", "again/e/f.txt", "empty",
    ]  # fmt: skip


def test_pipes_and_sockets_are_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert "pipe" not in names(list_corpus(str(folder), workdir=""))
    assert "neither a file nor a folder" in str(list_corpus(str(folder / "pipe"), workdir="").problems[0])


def test_a_link_that_leads_nowhere_is_unreadable_not_forgotten(folder: Path) -> None:
    (folder / "lost").symlink_to("/nowhere/at/all")

    corpus = list_corpus(str(folder), workdir="")

    assert corpus.unreadable == [BadRecord(path="lost", reason="No such file or directory")]


def test_a_name_that_is_not_utf8_is_reported_readably(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9")).write_text("x")

    corpus = list_corpus(str(folder), workdir="")

    assert corpus.unreadable == [BadRecord(path="caf\\xe9", reason="its name is not UTF-8")]


def test_the_storage_inside_the_corpus_is_refused(folder: Path) -> None:
    corpus = list_corpus(str(folder), workdir="", storage=folder / "b" / "e")

    assert "is the storage itself" in str(corpus.problems[0])


def test_a_missing_corpus_names_where_it_was_looked_for(tmp_path: Path) -> None:
    corpus = list_corpus("data/text", workdir=str(tmp_path))

    assert corpus.inputs == []
    assert f"{tmp_path}/data/text does not exist" in str(corpus.problems[0])
    assert f"relative paths start from {tmp_path}" in str(corpus.problems[0])


@pytest.mark.parametrize("text", ["s3://bucket/corpus", "python:site-packages", "https://example.org/x"])
def test_an_unknown_scheme_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="name a folder, a file, a glob, or python:stdlib"):
        list_corpus(text, workdir="")


def test_the_standard_library_is_its_sources_and_nothing_installed_beside_it() -> None:
    corpus = list_corpus("python:stdlib", workdir="")

    assert corpus.root == "python:stdlib"
    assert root_folder(corpus.root) == sysconfig.get_path("stdlib")
    assert {"os.py", "json/decoder.py"} <= set(names(corpus))
    assert len(corpus.inputs) > 500
    assert all(name.endswith(".py") and "site-packages" not in name for name in names(corpus))
