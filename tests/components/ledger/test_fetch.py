"""A checkpoint comes to this machine complete and proven, or not at all."""

import threading
from pathlib import Path

import pytest

from components.errors import ArgosyError, Interrupted, NodeUnfit, VerificationFailed
from components.ledger.fetch import fetch_checkpoint
from components.storage.base import ObjectNotFound, ObjectStore
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage
from tests.fakes.s3_proxy import Fault, S3Proxy

FILES = {"model/weights.bin": b"w" * 100_000, "state.json": b'{"step": 10}'}


def published(store: ObjectStore, tmp_path: Path) -> str:
    """The folder of a committed checkpoint."""
    ledger = a_ledger(store)
    stage = a_stage(tmp_path / "stage", FILES)
    manifest = a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))
    return ledger.state().checkpoints[manifest.checkpoint].folder


def fetch(store: ObjectStore, folder: str, tmp_path: Path, *, cancelled: bool = False) -> Path:
    event = threading.Event()
    if cancelled:
        event.set()
    return fetch_checkpoint(store, folder=folder, into=tmp_path / "here", cancelled=event)


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "here").rglob("*") if path.is_file())


def test_a_checkpoint_on_this_machine_stays_where_it_is(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "storage")
    folder = published(store, tmp_path)

    assert fetch(store, folder, tmp_path) == tmp_path / "storage" / folder
    assert not (tmp_path / "here").exists()


def test_one_elsewhere_is_fetched_once_with_its_manifest(
    proxied_store: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    folder = published(proxied_store, tmp_path)
    path = fetch(proxied_store, folder, tmp_path)

    assert path == tmp_path / "here" / folder
    assert (path / "model/weights.bin").read_bytes() == FILES["model/weights.bin"]
    assert left(tmp_path) == ["MANIFEST.json", "state.json", "weights.bin"]
    num_requests = len(s3_proxy.seen)
    assert fetch(proxied_store, folder, tmp_path) == path
    assert len(s3_proxy.seen) == num_requests


def test_a_bit_that_flips_on_the_way_is_fetched_again(
    proxied_store: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    folder = published(proxied_store, tmp_path)
    s3_proxy.misbehave(Fault(method="GET", key="weights.bin", flip=True))

    path = fetch(proxied_store, folder, tmp_path)

    assert (path / "model/weights.bin").read_bytes() == FILES["model/weights.bin"]


@pytest.mark.parametrize("damage", ["state.json", "model/weights.bin"])
def test_a_damaged_file_is_named_and_nothing_is_left(s3_store: S3Store, tmp_path: Path, damage: str) -> None:
    folder = published(s3_store, tmp_path)
    s3_store.replace(f"{folder}/{damage}", b"damaged")

    with pytest.raises(VerificationFailed, match=rf"CheckpointDamaged: .*{damage} arrives with SHA-256"):
        fetch(s3_store, folder, tmp_path)
    assert left(tmp_path) == []


def test_a_missing_file_and_a_missing_manifest_are_named(s3_store: S3Store, tmp_path: Path) -> None:
    folder = published(s3_store, tmp_path)
    for name in ("state.json", "MANIFEST.json"):
        s3_store.delete(f"{folder}/{name}")
        with pytest.raises(ObjectNotFound, match=f"{name} does not exist"):
            fetch(s3_store, folder, tmp_path)
    assert left(tmp_path) == []


def test_a_fetch_that_is_called_off_leaves_nothing(s3_store: S3Store, tmp_path: Path) -> None:
    folder = published(s3_store, tmp_path)

    with pytest.raises(Interrupted):
        fetch(s3_store, folder, tmp_path, cancelled=True)
    assert left(tmp_path) == []


def test_a_place_that_cannot_be_written_makes_the_node_unfit(s3_store: S3Store, tmp_path: Path) -> None:
    folder = published(s3_store, tmp_path)
    (tmp_path / "here").write_text("a file")

    with pytest.raises(NodeUnfit, match="cannot keep s3://"):
        fetch(s3_store, folder, tmp_path)


def test_a_manifest_that_names_a_file_elsewhere_is_refused(s3_store: S3Store, tmp_path: Path) -> None:
    folder = published(s3_store, tmp_path)
    manifest = s3_store.read(f"{folder}/MANIFEST.json").replace(b"model/weights.bin", b"../../weights.bin")
    s3_store.replace(f"{folder}/MANIFEST.json", manifest)

    with pytest.raises(ArgosyError, match=r"names '\.\./\.\./weights\.bin'"):
        fetch(s3_store, folder, tmp_path)
    assert left(tmp_path) == []
