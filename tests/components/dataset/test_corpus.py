"""What counts as an input, and what is said about everything that does not."""

import os
import sysconfig
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from components.contracts.dataset import BadRecord
from components.dataset.corpus import Corpus, Found, open_corpus
from components.errors import BadInput
from tests.fakes.s3_server import ENVIRONMENT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """corpus/{a.txt, b/c.txt, b/d.md, b/e/f.txt, empty}"""
    for name, text in (("a.txt", "a"), ("b/c.txt", "cc"), ("b/d.md", "ddd"), ("b/e/f.txt", "ffff"), ("empty", "")):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "corpus"


def found(corpus: str, *, workdir: str = "", storage: Path | None = None) -> tuple[Corpus, list[Found]]:
    """The corpus, listed to its end."""
    opened = open_corpus(corpus, workdir=workdir, storage=storage)
    return opened, list(opened)


def names(corpus: str, *, workdir: str = "", storage: Path | None = None) -> list[str]:
    return [item.path for item in found(corpus, workdir=workdir, storage=storage)[1]]


def test_a_folder_means_every_file_below_it_in_the_order_of_the_paths(folder: Path) -> None:
    corpus, files = found(str(folder))

    assert [item.path for item in files] == ["a.txt", "b/c.txt", "b/d.md", "b/e/f.txt", "empty"]
    assert [item.size for item in files] == [1, 2, 3, 4, 0]
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
    assert names(pattern, workdir=str(folder.parent)) == expected


def test_a_glob_does_not_look_into_folders_that_cannot_match(folder: Path) -> None:
    corpus, files = found(str(folder / "a*"), storage=folder / "b")

    assert [item.path for item in files] == ["a.txt"]
    assert corpus.problems == []


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "v[1]").mkdir()
    (tmp_path / "v[1]" / "x").write_text("x")

    assert names(str(tmp_path / "v[1]"), workdir="") == ["x"]


def test_loops_of_links_end_and_no_file_is_taken_twice(folder: Path) -> None:
    (folder / "b" / "up").symlink_to(folder)
    (folder / "again").symlink_to(folder / "b")

    assert names(str(folder), workdir="") == [
        "a.txt", "again/c.txt", "again/d.md", "again/e/f.txt", "empty",
    ]  # fmt: skip


def test_pipes_sockets_and_devices_are_unreadable_not_forgotten(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "b" / "pipe")
    (folder / "b" / "device").symlink_to("/dev/null")

    corpus, files = found(str(folder))
    only_text, _ = found(f"{folder}/**/*.txt")

    assert [item.path for item in files] == ["a.txt", "b/c.txt", "b/d.md", "b/e/f.txt", "empty"]
    assert corpus.unreadable == [
        BadRecord(path=path, reason="is a pipe, socket or device, not a file")
        for path in ("b/device", "b/pipe", "pipe")
    ]
    assert only_text.unreadable == []
    assert "neither a file nor a folder" in str(found(str(folder / "pipe"))[0].problems[0])


def test_a_link_that_leads_nowhere_is_unreadable_not_forgotten(folder: Path) -> None:
    (folder / "lost").symlink_to("/nowhere/at/all")

    corpus, _ = found(str(folder))

    assert corpus.unreadable == [BadRecord(path="lost", reason="No such file or directory")]


def test_a_link_to_itself_is_named_and_its_neighbours_are_read(folder: Path) -> None:
    (folder / "b" / "self").symlink_to("self")

    corpus, files = found(str(folder))

    assert corpus.unreadable == [BadRecord(path="b/self", reason="Too many levels of symbolic links")]
    assert corpus.problems == []
    assert "b/c.txt" in [item.path for item in files]


def test_a_name_that_is_not_utf8_is_reported_readably(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9")).write_text("x")

    corpus, _ = found(str(folder))

    assert corpus.unreadable == [BadRecord(path="caf\\xe9", reason="its name is not UTF-8")]


def test_the_storage_inside_the_corpus_is_refused(folder: Path) -> None:
    corpus, _ = found(str(folder), storage=folder / "b" / "e")

    assert "is the storage itself" in str(corpus.problems[0])


def test_a_missing_corpus_names_where_it_was_looked_for(tmp_path: Path) -> None:
    corpus, files = found("data/text", workdir=str(tmp_path))

    assert files == []
    assert f"{tmp_path}/data/text does not exist" in str(corpus.problems[0])
    assert f"relative paths start from {tmp_path}" in str(corpus.problems[0])


@pytest.mark.parametrize("text", ["python:site-packages", "mailto:somebody"])
def test_an_unknown_scheme_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="name a folder, a file, a glob, s3://bucket/prefix or python:stdlib"):
        open_corpus(text, workdir="")


def test_the_standard_library_is_its_sources_and_nothing_installed_beside_it() -> None:
    corpus, files = found("python:stdlib")

    assert corpus.root == "python:stdlib"
    assert corpus.place == sysconfig.get_path("stdlib")
    assert {"os.py", "json/decoder.py"} <= {item.path for item in files}
    assert len(files) > 500
    assert all(item.path.endswith(".py") and "site-packages" not in item.path for item in files)


def test_files_come_in_the_order_of_their_whole_paths_whatever_sorts_before_a_slash(tmp_path: Path) -> None:
    for name in ("a/z", "a!", "a.b", "a0", "a-b/c", "a/-", "a/b/c", "é", "a/b.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert names(str(tmp_path)) == ["a!", "a-b/c", "a.b", "a/-", "a/b.c", "a/b/c", "a/z", "a0", "é"]


def test_a_uri_is_read_through_its_store_with_prefixes_and_patterns(folder: Path) -> None:
    assert names(f"file://{folder}") == ["a.txt", "b/c.txt", "b/d.md", "b/e/f.txt", "empty"]
    assert names(f"file://{folder}/**/*.txt") == ["a.txt", "b/c.txt", "b/e/f.txt"]
    assert names(f"file://{folder}/b/c.txt") == ["c.txt"]
    assert found(f"file://{folder}/b")[0].root == f"file://{folder}/b"


def test_a_prefix_without_objects_and_a_whole_store_are_refused(folder: Path) -> None:
    assert "there is no object below" in str(found(f"file://{folder}/nowhere")[0].problems[0])
    with pytest.raises(BadInput, match="name a prefix"):
        open_corpus("s3://bucket", workdir="")
    with pytest.raises(BadInput, match="at least one plain name"):
        open_corpus("s3://bucket/*.txt", workdir="")


class _OddBucket(BaseHTTPRequestHandler):
    """Lists keys that are no paths, as some stores have them."""

    def do_GET(self) -> None:
        keys = "".join(
            f"<Contents><Key>odd/{name}</Key><Size>1</Size><ETag>1</ETag></Contents>"
            for name in ("../up.txt", "./here.txt", "a//b.txt", "good.txt")
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_keys_that_are_no_paths_are_named_and_the_others_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _OddBucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{server.server_port}"}).items():
            monkeypatch.setenv(name, value)
        corpus = open_corpus("s3://bucket/odd", workdir="")
        found = [entry.path for entry in corpus]
        server.shutdown()
        thread.join()

    assert found == ["good.txt"]
    assert [record.path for record in corpus.unreadable] == ["../up.txt", "./here.txt", "a//b.txt"]
    assert {record.reason for record in corpus.unreadable} == {
        "its key has a part that is empty, . or .., so it is no path"
    }
