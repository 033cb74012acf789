"""Whatever is wrong with the input: one clear error with uri and offset, 78 (or 75, 81), and nothing half-published.

The command as people run it, in this process: only its flags, its streams and its exit code are looked at.
"""

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from components.shard.command import main
from components.storage.s3 import S3Store
from tests.components.shard.formats import FORMATS
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import S3Server

MANIFEST = ("--read-as", "manifest", "--format", "mds", "--corpus", "{corpus}/a.jsonl")
TOKENS = ("--sequence-length", "16", "--over-long", "split")


class Outcome:
    """What a command left behind."""

    def __init__(self, code: int, out: str, lines: str) -> None:
        self.code, self.out = code, out
        self.errors = [line for line in map(json.loads, lines.splitlines()) if line["level"] == "error"]
        self.said = "\n".join(line["message"] for line in self.errors)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def command(name: str, *arguments: object, storage: str = "") -> Outcome:
        code = main([name, *map(str, arguments), "--storage", storage or str(tmp_path / "storage")])
        return Outcome(code, *capsys.readouterr())

    return command


Run = Callable[..., Outcome]


def published(tmp_path: Path) -> list[str]:
    """Everything of data sets in the storage; plans and receipts alone make none."""
    folder = tmp_path / "storage" / "data"
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path) for path in found if path.parts[0] != "plans" or "receipts" in path.parts)


def flags_of(format: str) -> tuple[str, ...]:
    return ("--format", format, *(TOKENS if format == "tokens" else ()))


def an_empty_folder(folder: Path) -> Path:
    return folder


def only_empty_files(folder: Path) -> Path:
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(b"")
    return folder


def a_link_to_nowhere(folder: Path) -> Path:
    (folder / "lost.txt").symlink_to("/nowhere/at/all")
    return folder


def links_in_a_circle(folder: Path) -> Path:
    (folder / "circle").symlink_to("circle")
    return folder


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def lines(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "a.jsonl").write_bytes(b'{"id": "r0", "text": "good"}\n' + content)
        return folder

    return write


def only_row(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "a.jsonl").write_bytes(content)
        return folder

    return write


def a_tar(cut: int | None = None, *, flip: int | None = None, content: bytes = b"") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(5):
                member = tarfile.TarInfo(f"{number}.txt")
                member.size = 1000
                tar.addfile(member, io.BytesIO(b"z" * 1000))
        data = bytearray(content or file.getvalue()[:cut])
        if flip is not None:
            data[flip] ^= 1
        (folder / "a.tar").write_bytes(data)
        return folder

    return write


def a_pax_tar(length: bytes) -> Callable[[Path], Path]:
    """Of one file with a long name, whose records begin with that instead of their length."""

    def write(folder: Path) -> Path:
        with tarfile.open(folder / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            tar.addfile(tarfile.TarInfo("x" * 300 + ".txt"))
        content = (folder / "a.tar").read_bytes()
        place = content.index(b" path=")
        (folder / "a.tar").write_bytes(content[: place - 3] + length + content[place:])
        return folder

    return write


def a_linked_tar(folder: Path) -> Path:
    with tarfile.open(folder / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        member, link = tarfile.TarInfo("a.txt"), tarfile.TarInfo("b.txt")
        member.size, link.type, link.linkname = 3, tarfile.LNKTYPE, "a.txt"
        tar.addfile(member, io.BytesIO(b"abc"))
        tar.addfile(link)
    return folder


def a_parquet(cut: int | None = None, *, flip_at: bytes = b"", column: str = "text") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "a.parquet"
        table = pyarrow.table({column: [f"row {number}" for number in range(100)]})
        pyarrow.parquet.write_table(
            table, path, write_page_checksum=True, compression="none", use_dictionary=False, write_statistics=False
        )
        content = bytearray(path.read_bytes()[:cut])
        if flip_at:
            content[content.index(flip_at)] ^= 1
        path.write_bytes(content)
        return folder

    return write


def a_typed_parquet(**columns: pyarrow.DataType) -> Callable[[Path], Path]:
    """Of one row, which has no value in those columns."""

    def write(folder: Path) -> Path:
        table = pyarrow.table({"id": ["a"], **{name: pyarrow.nulls(1, kind) for name, kind in columns.items()}})
        pyarrow.parquet.write_table(table, folder / "a.parquet")
        return folder

    return write


def a_name_that_is_not_utf_8(folder: Path) -> Path:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_bytes(b"x")
    return folder


CORPORA: list[tuple[str, Callable[[Path], Path], tuple[str, ...], str]] = [
    ("empty folder", an_empty_folder, TOKENS, "no file found in {corpus}"),
    ("only empty files", only_empty_files, TOKENS, "all 2 files found in {corpus} are empty"),
    ("no such folder", lambda folder: folder / "gone", TOKENS, "{corpus} does not exist"),
    ("no such glob", lambda folder: folder / "*.txt", TOKENS, "no file found in"),
    ("nothing named", lambda folder: Path(), ("--corpus", "", *TOKENS), "corpus is empty"),
    ("a pipe", a_pipe, TOKENS, "{corpus} is neither a file nor a folder"),
    ("link to nowhere", a_link_to_nowhere, TOKENS, "lost.txt: cannot be read: No such file or directory"),
    ("links in a circle", links_in_a_circle, TOKENS, "Too many levels of symbolic links"),
    ("name not UTF-8", a_name_that_is_not_utf_8, TOKENS, r"\xff.txt: cannot be read: its name is not UTF-8"),
    ("invalid UTF-8", lines(b'{"text": "caf\xe9"}\n'), TOKENS, "a.jsonl at 29: cannot be used: it is not UTF-8"),
    ("UTF-16", lines('{"text": "a"}\n'.encode("utf-16-le")), TOKENS, "a.jsonl at 56: cannot be used: it is not JSON"),
    ("row cut short", lines(b'{"text": "cu'), TOKENS, "a.jsonl at 29: cannot be used: it is not JSON: Unterminated"),
    ("zeros", lines(bytes(3000)), TOKENS, "a.jsonl at 29: cannot be used: it is not JSON"),
    ("no such field", lines(b'{"body": "x"}\n'), TOKENS, "a.jsonl at 29: cannot be used: it has no field 'text'"),
    ("a key twice", lines(b'{"id": "r0", "text": "x"}\n'), ("--format", "webdataset", "--key-field", "id"),
     "a.jsonl at 29: cannot be used: its key 'r0' is another sample's already"),
    ("no key", lines(b'{"text": "x"}\n'), ("--format", "mds", "--key-field", "id"),
     "a.jsonl at 29: cannot be used: its field 'id', which should name it, is None"),
    ("number too large", lines(b'{"id": "a", "text": "x", "n": 1}\n'), ("--format", "parquet"),
     "a.jsonl at 29: cannot be used: its field n is one that the first record does not have"),
    ("tar cut in a header", a_tar(1536 + 100), ("--format", "webdataset"), "a.tar at byte 1636: ends inside a member"),
    ("tar cut in a payload", a_tar(1536 + 700), ("--format", "webdataset"), "a.tar at byte 2236: ends inside a member"),
    ("tar cut at a boundary", a_tar(1536), ("--format", "webdataset"), "a.tar at byte 1536: ends without the zero"),
    ("tar flipped", a_tar(flip=1536 + 4), ("--format", "webdataset"), "a.tar at byte 1536: holds no tar header"),
    ("tar flipped, mds", a_tar(flip=1536 + 4), ("--format", "mds"), "a.tar at byte 1536: holds no tar header"),
    ("no value", only_row(b'{"a": null}'), ("--format", "mds"), "of a.jsonl has no field with a value"),
    ("no number", only_row(b'{"a": 1e999}'), ("--format", "parquet"), "a.jsonl at 0: its field 'a': inf is not a n"),
    ("tar of nothing", a_tar(0, content=b""), TOKENS, "a.tar: cannot be read: is empty, not even the end of a tar"),
    ("tar without members", a_tar(content=bytes(10240)), ("--format", "webdataset"), "EmptyDataSet: nothing in corpus"),
    ("pax records cut", a_pax_tar(b"999"), ("--format", "mds"), "a.tar at byte 0: holds no pax records"),
    ("pax records damaged", a_pax_tar(b"abc"), ("--format", "webdataset"), "a.tar at byte 0: holds no pax records"),
    ("a link in a tar", a_linked_tar, ("--format", "webdataset"), "a.tar at 1024: cannot be used: 'b.txt' is a link"),
    ("a field twice", a_tar(), ("--format", "mds", "--field", "txt:text", "--field", "txt:int"), "is named twice"),
    ("no tar", a_tar(content=b"hello world " * 90), ("--format", "webdataset"), "a.tar at byte 0: holds no tar header"),
    ("Parquet cut", a_parquet(600), TOKENS, "a.parquet at byte 600: cannot be read: is no complete Parquet file"),
    ("Parquet of nothing", a_parquet(0), ("--format", "parquet"), "a.parquet at byte 0: cannot be read: is no comp"),
    ("Parquet flipped", a_parquet(flip_at=b"row 50"), TOKENS, "a.parquet: row group 0 cannot be read: "),
    ("no such column", a_parquet(column="body"), TOKENS, "a.parquet: cannot be read: has no column 'text', its columns "
     "are body"),
    ("no text column", a_typed_parquet(text=pyarrow.int32()), TOKENS, "has int32, not text, in its column 'text'"),
    ("a time", a_typed_parquet(when=pyarrow.timestamp("us")), ("--format", "mds"), "can hold in 'when' (timestamp["),
    ("odd columns", a_typed_parquet(
        day=pyarrow.date32(), cost=pyarrow.decimal128(9, 2), parts=pyarrow.list_(pyarrow.binary()),
        at=pyarrow.struct([("x", pyarrow.time64("ns"))]), by=pyarrow.dictionary(pyarrow.int8(), pyarrow.date64()),
     ), ("--format", "webdataset"), "a.parquet: cannot be read: has values that no field can hold in 'day' (date32[day]"
     "), 'cost' (decimal128(9, 2)), 'parts' (list<element: binary>), 'at.x' (time64[ns]), 'by' ("),
    ("a key of a row twice", lines(b'{"text": "x", "id": 1, "text": "y"}\n'), TOKENS,
     "a.jsonl at 29: cannot be used: it has the key 'text' twice"),
    ("deep inside", lines(b'{"id": "a", "text": "x", "n": [{"b": 1, "b": 1}]}\n'), ("--format", "webdataset"),
     "a.jsonl at 29: cannot be used: it has the key 'b' twice"),
    ("a uri of a manifest that leads nowhere", only_row(b'{"uri": "gs://x/y"}'), MANIFEST,
     "a.jsonl at byte 0: cannot be read: its uri: not a storage: 'gs://x'"),
    ("a uri of a manifest without a key", only_row(b'{"uri": "s3://x"}'), MANIFEST, "its uri: s3://x is everything"),
    ("a folder in a manifest", only_row(b'{"uri": "."}'), MANIFEST, ".: is a folder, pipe, socket or device, not a"),
    ("a manifest of nothing", only_row(b"\n"), MANIFEST, "a.jsonl: it names no record"),
    ("a packed manifest", lambda folder: write_text(folder, "a.jsonl.gz", b"\x1f\x8b\x08"), ("--read-as", "manifest",
     *TOKENS), "a.jsonl.gz: is packed with gzip, not JSON lines; unpack it"),
    ("a key of a manifest twice", only_row(b'{"uri": "a.jsonl", "uri": "/dev/null"}'),
     MANIFEST, "it has the key 'uri' twice"),
    ("only blank lines", only_row(b"\n" * 100), TOKENS, "EmptyDataSet: nothing in corpus {corpus} became"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "flags", "said"), [case[1:] for case in CORPORA], ids=[case[0] for case in CORPORA])
def test_a_corpus_that_cannot_be_packed_is_78_in_one_error_and_leaves_nothing(
    run: Run, tmp_path: Path, make: Callable[[Path], Path], flags: tuple[str, ...], said: str
) -> None:
    (tmp_path / "corpus").mkdir()
    corpus = make(tmp_path / "corpus")
    arguments = flags if "--corpus" in flags else ("--corpus", corpus, *flags)
    arguments = tuple(str(one).format(corpus=corpus) for one in arguments)

    done = run("all", *arguments)

    assert done.code == 78
    assert len(done.errors) == 1
    assert said.format(corpus=corpus) in done.said
    assert done.out == ""
    assert published(tmp_path) == [] or said.startswith("EmptyDataSet")
    assert not any(key.startswith("versions") for key in published(tmp_path))


@pytest.mark.parametrize("format", FORMATS)
def test_a_record_larger_than_a_shard_is_kept_whole_and_no_shard_is_empty(
    run: Run, tmp_path: Path, format: str
) -> None:
    (tmp_path / "corpus").mkdir()
    rows = [{"text": "y" * 20_000}, {"text": "small"}, {"text": "z" * 12_000}]
    (tmp_path / "corpus" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))

    done = run("all", "--corpus", tmp_path / "corpus", *flags_of(format), "--target-shard-size", "4KiB")

    assert done.code == 0
    version = dict(line.split("=") for line in done.out.splitlines())["data_version"]
    assert run("verify", "--version", version, "--level", "2").code == 0
    manifest = json.loads((tmp_path / "storage" / "data" / "versions" / version / "manifest.json").read_bytes())
    held = [shard["num_samples"] or shard["num_documents"] for shard in manifest["shards"]]
    assert sum(held) == 3
    assert 0 not in held
    assert [shard["index"] for shard in manifest["shards"]] == list(range(len(held)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "{path}: is gone since the plan was made"),
        (lambda path: path.write_bytes(b"a longer text"), "{path}: had 4 bytes when the plan was made, now 13"),
        (lambda path: os.utime(path, ns=(0, 0)), "{path}: was modified since the plan was made"),
        (lambda path: (path.unlink(), path.mkdir()), "b.txt: cannot be used: Is a directory"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "b.txt: cannot be used: Illegal seek"),
        (lambda path: (path.unlink(), path.symlink_to("/proc/self/mem")), "b.txt: cannot be used: Input/output error"),
    ],
    ids=["vanished", "grown", "touched", "a folder now", "a pipe now", "an input/output error"],
)
@pytest.mark.parametrize("format", ["tokens", "webdataset"])
def test_an_input_that_is_another_than_at_the_plan_is_78_with_its_path(
    run: Run, tmp_path: Path, format: str, change: Callable[[Path], object], said: str
) -> None:
    (tmp_path / "corpus").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "corpus" / name).write_bytes(b"text")
    planned = run("plan", "--corpus", tmp_path / "corpus", *flags_of(format))
    plan = planned.out.splitlines()[0].partition("=")[2]
    change(tmp_path / "corpus" / "b.txt")

    done = run("task", "--plan", plan)

    assert done.code == 78
    assert said.format(path=tmp_path / "corpus" / "b.txt") in done.said
    assert published(tmp_path) == []


def write_text(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"hello", "does not load as a tokenizer.json: Cannot instantiate Tokenizer from buffer: expected value"),
        (b"{}", "does not load as a tokenizer.json: Cannot instantiate Tokenizer from buffer: Model missing"),
        (b"\x00\xff" * 50, "does not load as a tokenizer.json"),
    ],
)
def test_a_tokenizer_that_does_not_load_is_78_together_with_what_else_is_wrong(
    run: Run, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)

    done = run("all", "--corpus", tmp_path / "gone", "--tokenizer", path, *TOKENS)

    assert done.code == 78
    assert said in done.said
    assert str(path) in done.said
    assert f"{tmp_path}/gone does not exist" in done.said
    assert published(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("merge", "--plan", "../../etc"), "'../../etc' is no plan's id"),
        (("task", "--plan", "p-0123456789abcdef", "--index", "3"), "--index is 3 and --tasks 1"),
        (("task", "--plan", "p-0123456789abcdef"), "run shard plan first"),
        (("verify", "--version", ""), "there is no ''"),
        (("verify", "--version", "d-../../x"), "there is no 'd-../../x'"),
        (("export", "--version", "d-0", "--to", "/nowhere"), "there is no 'd-0'"),
        (("all", "--corpus", "gs://bucket/x", *TOKENS), "not a storage: 'gs://bucket'"),
        (("all", "--corpus", "s3://bucket", *TOKENS), "name a prefix, such as s3://bucket/corpus"),
    ],
)
def test_names_that_lead_nowhere_are_78(run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)

    assert done.code == 78
    assert said in done.said
    assert published(tmp_path) == []


def test_a_storage_that_cannot_be_one_is_told(run: Run, tmp_path: Path) -> None:
    corpus = write_text(tmp_path, "a.txt", b"hello")

    assert run("all", "--corpus", corpus, *TOKENS, storage=" ").code == 78
    done = run("all", "--corpus", corpus, *TOKENS, storage=str(corpus))

    assert done.code == 81
    assert f"cannot write {corpus}/data/plans/" in done.said
    assert "a file stands where a folder should be" in done.said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("format", FORMATS)
def test_a_storage_that_is_full_mid_shard_is_told_and_a_rerun_with_room_makes_the_same(
    run: Run, tmp_path: Path, small_disk: Path, format: str
) -> None:
    (tmp_path / "corpus").mkdir()
    for number in range(8):
        write_text(tmp_path / "corpus", f"{number}.txt", bytes([97 + number]) * 30_000)
    arguments = ("all", "--corpus", tmp_path / "corpus", *flags_of(format), "--target-shard-size", "30KiB")
    (small_disk / "somebody-elses").write_bytes(bytes(100_000))

    full = run(*arguments, storage=str(small_disk / "storage"))
    left = {path.name: path.read_bytes() for path in (small_disk / "storage").rglob("*") if path.is_file()}
    with_room = run(*arguments)

    assert full.code == 81
    assert f"cannot write {small_disk}/storage/data/shards/" in full.said
    assert "No space left on device; free space on that disk" in full.said
    assert not any(path.name == "versions" for path in (small_disk / "storage" / "data").iterdir())
    assert with_room.code == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "storage").rglob("*") if path.is_file()}
    assert len(left) > 3
    assert {name: made.get(name) for name in left} == left


REFUSALS: list[tuple[str, Fault, int, str]] = [
    ("access denied", Fault(status=403, code="AccessDenied"), 81, "allow s3:GetObject"),
    ("no such key id", Fault(status=403, code="InvalidAccessKeyId"), 78, "check AWS_ACCESS_KEY_ID"),
    ("wrong secret", Fault(status=403, code="SignatureDoesNotMatch"), 78, "check AWS_ACCESS_KEY_ID"),
    ("expired", Fault(status=400, code="ExpiredToken"), 78, "get new credentials"),
    ("no such bucket", Fault(status=404, code="NoSuchBucket"), 78, "create the bucket"),
    ("other region", Fault(status=301, code="PermanentRedirect", headers={"x-amz-bucket-region": "eu-west-1"}), 78,
     "the bucket is in eu-west-1"),
    ("clock skew", Fault(status=403, code="RequestTimeTooSkewed"), 81, "correct this machine's clock"),
    ("quota", Fault(status=507, code="InsufficientStorage"), 81, "free space, or raise the quota"),
]  # fmt: skip


@pytest.fixture
def reachable(s3_server: S3Server, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """A bucket behind the proxy that commands find by their environment."""
    for name, value in {**s3_server.environment, "AWS_ENDPOINT_URL_S3": s3_proxy.endpoint}.items():
        monkeypatch.setenv(name, value)
    return s3_server.new_store(prefix="argosy")


@pytest.mark.parametrize(("fault", "code", "said"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
@pytest.mark.parametrize("what", ["storage", "corpus"])
def test_a_store_that_refuses_is_told_with_its_uri_and_the_cure_and_asked_once(
    run: Run, tmp_path: Path, reachable: S3Store, s3_proxy: S3Proxy, fault: Fault, code: int, said: str, what: str
) -> None:
    s3_proxy.always = lambda method, path: fault
    corpus = write_text(tmp_path, "a.txt", b"hello")

    if what == "storage":
        done = run("all", "--corpus", corpus, *TOKENS, storage=reachable.uri)
    else:
        done = run("all", "--corpus", f"{reachable.uri}/texts", *TOKENS)

    assert done.code == code
    assert said in done.said
    assert reachable.uri.rpartition("/")[0] in done.said
    assert len(done.errors) == 1
    assert len(s3_proxy.seen) <= 2
    s3_proxy.behave()
    assert list(reachable.list("data")) == []
    assert published(tmp_path) == []
