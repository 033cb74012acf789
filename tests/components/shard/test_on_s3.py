"""Corpora in a bucket: listed once, read side by side and in ranges, and noticed when they change."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from components.dataset.blobs import StoredObjects
from components.errors import BadInput
from components.shard.task import run_task
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.components.shard.building import LOG, plan, shard
from tests.components.shard.formats import made, rows, spec
from tests.components.shard.test_sources import rows_text, samples_of
from tests.fakes.s3_server import S3Server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """A bucket that corpora can be named in: the environment says where the server is."""
    store = s3_server.new_store()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return store


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def tar_of(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def upload(bucket: S3Store, folder: Path, prefix: str) -> str:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bucket.create(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
    return bucket.uri_of(prefix)


@pytest.mark.parametrize("format", ["tokens", "webdataset", "mds"])
def test_a_corpus_in_a_bucket_makes_the_same_samples_as_on_disk(
    store: LocalStore, bucket: S3Store, tmp_path: Path, format: str
) -> None:
    for n in range(3):
        rows(tmp_path / "corpus", count=60, name=f"{n}.jsonl", first=100 * n)
    uri = upload(bucket, tmp_path / "corpus", "texts")

    here = made(store, tmp_path / "corpus", format)
    there = made(store, uri, format, num_tasks=3)
    some = made(store, f"{uri}/[01].jsonl", format)

    assert [part.files[0].sha256 for part in there.shards] == [part.files[0].sha256 for part in here.shards]
    assert there.data_version == here.data_version
    assert some.counts.num_inputs == 2
    assert shard(bucket, spec(uri, format)).data_version == here.data_version


@pytest.mark.parametrize("name", ["t.txt.gz", "t.jsonl", "t.tar", "odd [1]*.jsonl"])
def test_an_object_by_itself_is_read_as_it_is_below_its_prefix_and_as_a_file_is(
    store: LocalStore, bucket: S3Store, tmp_path: Path, name: str
) -> None:
    (tmp_path / "alone").mkdir()
    lines = [json.dumps({"id": f"r{n}", "text": f"text {n}"}) for n in range(40)]
    content = "\n".join(lines).encode()
    (tmp_path / "alone" / name).write_bytes(
        gzip.compress(content) if name == "t.txt.gz" else tar_of({"a.txt": content}) if name == "t.tar" else content
    )
    uri = upload(bucket, tmp_path / "alone", f"alone-{len(name)}")
    how = {"read_as": "lines"} if name == "t.txt.gz" else {}

    versions = [
        made(store, corpus, "tokens", **how).data_version
        for corpus in (f"{uri}/{name}", uri, tmp_path / "alone" / name, f"file://{tmp_path}/alone/{name}")
    ]

    assert len(set(versions)) == 1


def test_objects_that_vanish_or_change_since_the_plan_are_named(
    store: LocalStore, bucket: S3Store, tmp_path: Path
) -> None:
    bucket.create("texts/a.jsonl", rows_text().encode())
    bucket.create("texts/b.jsonl", rows_text().encode())
    described = spec(bucket.uri_of("texts"), "webdataset")
    plan_id = plan(store, described)
    bucket.replace("texts/a.jsonl", rows_text().encode().replace(b"text", b"tent"))
    bucket.delete("texts/b.jsonl")

    with pytest.raises(BadInput, match="InputChanged") as caught:
        run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=LOG)

    assert "texts/a.jsonl: was written again since the plan was made" in str(caught.value)
    assert "texts/b.jsonl: is gone since the plan was made" in str(caught.value)


def test_a_manifest_in_a_bucket_names_ranges_of_objects(store: LocalStore, bucket: S3Store) -> None:
    bucket.create("set/blob.bin", bytes(range(200)))
    lines = [{"uri": "blob.bin", "range": [10 * n, 10 * n + 10], "key": f"k{n}"} for n in range(20)]
    bucket.create("set/list.jsonl", "\n".join(map(json.dumps, lines)).encode())

    manifest = made(store, bucket.uri_of("set/list.jsonl"), "webdataset", read_as="manifest")

    found = samples_of(store, manifest)
    assert [fields["bin"] for fields in found.values()] == [bytes(range(10 * n, 10 * n + 10)) for n in range(20)]


def test_a_bucket_that_is_not_there_is_bad_input(store: LocalStore, bucket: S3Store) -> None:
    with pytest.raises(Exception, match="no-such-bucket") as caught:
        plan(store, spec("s3://no-such-bucket/texts", "webdataset"))
    assert getattr(caught.value, "exit_code", None) == 78
    with pytest.raises(BadInput, match="there is no object below"):
        plan(store, spec(bucket.uri_of("nothing/here"), "webdataset"))


def test_a_range_costs_one_request_for_the_range(bucket: S3Store) -> None:
    bucket.create("blob", bytes(range(256)) * 1000)
    objects = StoredObjects(bucket.uri)

    assert objects.place("blob")[0].read_range("blob", 1000, 1010) == bytes(range(232, 242))  # type: ignore[attr-defined]
