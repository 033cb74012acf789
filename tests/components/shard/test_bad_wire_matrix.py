"""A store that misbehaves on the wire: the packer and the node's cache go through it, and what is there is the same."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.dataset.cache import CacheSettings, open_data
from components.errors import ArgosyError, BadInput, ExitCode
from components.shard.export import export_version
from components.shard.verify import verify_version
from components.storage.local import LocalStore
from components.storage.patience import Patience
from components.storage.s3 import S3Store
from tests.components.shard.building import entries, plan, shard
from tests.components.shard.formats import LOG, made, rows, spec
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import S3Server

FAULTS: dict[str, Fault] = {
    "500": Fault(status=500, code="InternalError"),
    "500 after it was done": Fault(status=500, code="InternalError", after=True),
    "502 from something between": Fault(status=502),
    "503 slow down": Fault(status=503, code="SlowDown"),
    "connection cut": Fault(cut=True),
    "connection cut after it was done": Fault(cut=True, after=True),
    "answer cut in its body": Fault(body_bytes=11),
    "answer dripping": Fault(drip_bytes=997),
    "conflict": Fault(method="PUT", status=409, code="ConditionalRequestConflict"),
    "request body damaged": Fault(method="PUT", status=400, code="BadDigest"),
}


TRIES = Patience(
    total_seconds=0.0, min_tries=8, first_pause_seconds=0.001, max_pause_seconds=0.004, slow_down_seconds=0.002
)
"""So many tries, however long they take: nothing here depends on the speed of the machine."""


@pytest.fixture(scope="module")
def client(s3_server_of_session: S3Server, s3_proxy_of_session: tuple[S3Proxy, Any]) -> Iterator[Any]:
    """Of the misbehaving endpoint; waits long for an answer, since a busy machine is not a silent server."""
    made = s3_server_of_session.client_of(s3_proxy_of_session[0].endpoint, read_seconds=60)
    yield made
    made.close()


@pytest.fixture
def far(s3_server: S3Server, s3_proxy: S3Proxy, client: Any) -> S3Store:
    """A store on a bucket of its own, reached through the proxy."""
    return s3_server.new_store(client=client, patience=TRIES)


def first_time_only(fault: Fault) -> Callable[[str, str], Fault | None]:
    """Each different request meets the fault once."""
    met = set[tuple[str, str]]()

    def always(method: str, path: str) -> Fault | None:
        if (method, path) in met or fault.method not in ("", method):
            return None
        met.add((method, path))
        return fault

    return always


def in_bursts(fault: Fault) -> Callable[[str, str], Fault | None]:
    """Six requests in a row fail, then six go well."""
    count = [0]

    def always(method: str, path: str) -> Fault | None:
        count[0] += 1
        return fault if count[0] // 6 % 2 == 0 else None

    return always


def data_of(store: S3Store | LocalStore) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("data")}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_what_is_packed_fetched_verified_and_exported_through_it_is_what_it_would_be(
    far: S3Store, s3_proxy: S3Proxy, tmp_path: Path, fault: Fault
) -> None:
    corpus = rows(tmp_path / "rows", count=20)
    here = LocalStore(tmp_path / "here")
    expected = made(here, corpus, "webdataset", target=500, key_field="id")

    s3_proxy.always = first_time_only(fault)
    there = made(far, corpus, "webdataset", target=500, key_field="id", num_tasks=1)
    num_shards = verify_version(far, there.data_version, level="records", log=LOG)
    settings = CacheSettings(tmp_path / "cache")
    with open_data(far, there.data_version, run="toy", log=LOG, settings=settings) as data:
        cached = {path.name: path.read_bytes() for path in data.manifest_path.parent.glob("../../shards/*.tar")}
    folder = export_version(far, there.data_version, to=tmp_path / "out", log=LOG)
    s3_proxy.behave()

    assert there == expected
    assert num_shards == len(expected.shards) == len(list(folder.glob("*.tar"))) >= 5
    assert data_of(far) == data_of(here)
    assert {hashlib.sha256(content).hexdigest() for content in cached.values()} == {
        shard.files[0].sha256 for shard in expected.shards
    }


@pytest.mark.parametrize("name", ["500", "503 slow down", "500 after it was done", "connection cut after it was done"])
def test_bursts_of_failures_are_survived(
    far: S3Store, s3_proxy: S3Proxy, tmp_path: Path, name: str
) -> None:  # fmt: skip
    corpus = rows(tmp_path / "rows", count=20)
    expected = made(LocalStore(tmp_path / "here"), corpus, "mds", target=500)

    s3_proxy.always = in_bursts(FAULTS[name])

    assert made(far, corpus, "mds", target=500) == expected


@pytest.mark.parametrize("format", ["tokens", "webdataset"])
def test_a_corpus_that_is_read_through_it_makes_the_same_data(
    s3_server: S3Server, s3_proxy: S3Proxy, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**s3_server.environment, "AWS_ENDPOINT_URL_S3": s3_proxy.endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("components.storage.s3.FULL", TRIES)
    corpus, bucket = rows(tmp_path / "rows", count=20), s3_server.new_store()
    bucket.create("texts/rows.jsonl", (corpus / "rows.jsonl").read_bytes())
    expected = made(LocalStore(tmp_path / "here"), corpus, format, target=500, key_field="id")

    for number, name in enumerate(("500", "503 slow down", "connection cut", "answer cut in its body")):
        s3_proxy.always = first_time_only(FAULTS[name])
        store = LocalStore(tmp_path / f"there-{number}")
        there = made(store, bucket.uri_of("texts"), format, target=500, key_field="id")
        assert there.data_version == expected.data_version, name


def test_a_shard_that_somebody_else_made_alike_is_taken_and_another_one_is_refused_with_both_digests(
    far: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    corpus, here = rows(tmp_path / "rows", count=20), LocalStore(tmp_path / "here")
    described = spec(corpus, "webdataset", target=500)
    expected = shard(here, described)
    first, second = (f"data/shards/{entry.id}.tar" for entry in entries(here, expected.plan_id)[:2])
    far.create(first, here.read(first))  # PUT answers 412 from now on

    far.create(second, b"somebody else's")
    plan(far, described)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="OutputDiffers") as caught:
        shard(far, described)  # type: ignore[arg-type]
    assert f"{far.uri_of(second)} exists with other bytes" in str(caught.value)
    assert f"sha256 {hashlib.sha256(b'somebody else' + bytes([39]) + b's').hexdigest()}, not " in str(caught.value)
    assert list(far.list("data/versions")) == []

    far.delete(second)
    assert shard(far, described) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        (
            Fault(status=403, code="RequestTimeTooSkewed", headers={"date": "x"}),
            ExitCode.ENVIRONMENT_UNFIT,
            "ClockSkew",
        ),
        (Fault(status=500, code="InternalError"), ExitCode.TRANSIENT, "StorageNotAnswering"),
        (Fault(method="PUT", cut=True), ExitCode.TRANSIENT, "StorageNotAnswering"),
        (Fault(method="PUT", status=501, code="NotImplemented"), ExitCode.ENVIRONMENT_UNFIT, "NoConditionalWrites"),
    ],
)
def test_a_store_that_stays_so_ends_the_task_without_a_half_data_set_and_a_rerun_completes_it(
    far: S3Store, s3_proxy: S3Proxy, tmp_path: Path, fault: Fault, code: ExitCode, reason: str
) -> None:
    corpus = rows(tmp_path / "rows", count=20)
    expected = made(LocalStore(tmp_path / "here"), corpus, "webdataset", target=500)
    count = [0]

    def always(method: str, path: str) -> Fault | None:
        count[0] += "/shards/" in path
        return fault if count[0] > 4 and fault.method in ("", method) else None

    s3_proxy.always = always
    with pytest.raises(ArgosyError) as caught:
        made(far, corpus, "webdataset", target=500)
    s3_proxy.behave()

    assert (caught.value.exit_code, caught.value.reason) == (code, reason)
    assert f"{far.uri}/data/" in str(caught.value)
    assert list(far.list("data/versions")) == []
    assert made(far, corpus, "webdataset", target=500) == expected


def test_a_bit_that_flips_on_the_way_never_reaches_the_nodes_cache(
    far: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    manifest = made(far, rows(tmp_path / "rows", count=20), "mds", target=500)
    s3_proxy.always = first_time_only(Fault(method="GET", flip=True))

    with open_data(far, manifest.data_version, run="toy", log=LOG, settings=CacheSettings(tmp_path / "cache")) as data:
        document = json.loads(data.manifest_path.read_bytes())
        for part in document["shards"]:
            content = (data.manifest_path.parent / part["files"][0]["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == part["files"][0]["sha256"]
