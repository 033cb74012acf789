"""Verifying, publishing, and the ledger with ten thousand records."""

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy
from safetensors.numpy import save_file

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.clock import utc_text
from components.contracts.gang import ResumeRule
from components.contracts.layout import checkpoint_folder
from components.contracts.names import checkpoint_id
from components.contracts.retention import KeepBest, RetentionPolicy
from components.ledger.ledger import begin, claim, commit, mark_verified
from components.ledger.log import Ledger
from components.ledger.owner import this_process
from components.ledger.publish import publish_files, write_manifest
from components.ledger.records import Begin, Change, Commit, Record, Verified
from components.ledger.select import select_source
from components.ledger.state import LedgerState, fold
from components.retain.plan import plan_retention
from components.storage.local import LocalStore
from tests.benchmarks import committing, long_ledger, verifying
from tests.benchmarks.measure import Figure
from tests.components.ledger.counting import CountingStore

NUM_RECORDS = NUM_CHECKPOINTS = 10_000
TENSOR_BYTES = 256 << 20


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        formats = Path(folder, "formats")
        formats.mkdir()
        yield from verifying.figures(formats)
        yield _publishing(Path(folder))
        yield from _ten_thousand_records(Path(folder, "many"))
        yield from long_ledger.figures(LocalStore(Path(folder, "many")), Path(folder, "s3"))
        yield from committing.figures()


def _publishing(root: Path) -> Figure:
    staged = root / "staged"
    staged.mkdir()
    weights = numpy.random.default_rng(1).standard_normal(TENSOR_BYTES // 4, dtype=numpy.float32)
    save_file({"weights": weights}, staged / "model.safetensors")
    del weights
    folder = checkpoint_folder("e", "v1", "d-0", step=1, term=1)
    began = time.perf_counter()
    publish_files(LocalStore(root / "storage"), folder=folder, source=staged, node_rank=0, term=1, step=1)
    return Figure("publish with SHA-256 and fsync", TENSOR_BYTES / 1e6 / (time.perf_counter() - began), "MB/s")


def _ten_thousand_records(root: Path) -> Iterator[Figure]:
    store = LocalStore(root)
    ledger = Ledger(store, "e", "v1")
    claim(ledger, run="r", owner=this_process(target="local"), is_gone=lambda owner: False)
    term = begin(ledger, run="r", generation=0, attempt=0, reason="bench", charged=False, source=None)
    began = time.perf_counter()
    for step in range(1, NUM_RECORDS // 2):
        manifest = CheckpointManifest(
            checkpoint=checkpoint_id(step=step, term=term), experiment="e", model_version="v1", data_version="d-0",
            run="r", term=term, step=step, world_size=1, metrics={"loss": 1 / step}, files=(),
        )  # fmt: skip
        commit(ledger, manifest=manifest, manifest_sha256=manifest.digest())
        mark_verified(ledger, checkpoint=manifest.checkpoint, level="tensors")
    yield Figure("append a record, durable", (time.perf_counter() - began) / NUM_RECORDS * 1000, "ms")
    # CPU time where nothing is waited for, so that other load on the machine does not count.
    began = time.process_time()
    Ledger(store, "e", "v1").state()
    yield Figure(f"fold of {NUM_RECORDS} records, CPU", time.process_time() - began, "s", 1.0)
    yield from _selecting(store, root.parent / "one-step", term)
    yield from _planning()


def _selecting(store: LocalStore, staged: Path, term: int) -> Iterator[Figure]:
    """With a real checkpoint at the end of the log; as if every object had to be fetched."""
    counting = CountingStore(store)
    ledger = Ledger(counting, "e", "v1")
    ledger.state()
    staged.mkdir()
    save_file({"weights": numpy.ones(1024, dtype=numpy.float32)}, staged / "model.safetensors")
    step = NUM_RECORDS
    folder = checkpoint_folder("e", "v1", "d-0", step=step, term=term)
    counting.requests.clear()
    receipt = publish_files(counting, folder=folder, source=staged, node_rank=0, term=term, step=step)
    manifest, sha256 = write_manifest(
        counting, receipts=[receipt], experiment="e", model_version="v1", data_version="d-0", run="r", term=term,
        step=step, world_size=1, parent=None, metrics={},
    )  # fmt: skip
    commit(ledger, manifest=manifest, manifest_sha256=sha256)
    small = [key for _, key in counting.requests if not key.endswith("model.safetensors")]
    yield Figure("requests of a commit beyond its data", len(small), "", 3)
    mark_verified(ledger, checkpoint=manifest.checkpoint, level="tensors")
    counting.requests.clear()
    began = time.process_time()
    rule = ResumeRule(source="latest", on_new_data="refuse")
    source = select_source(Ledger(counting, "e", "v1"), counting, resume=rule, data_version="d-0", run="r2")
    yield Figure(f"select at {NUM_RECORDS} records, CPU", time.process_time() - began, "s", 1.0)
    assert source.checkpoint == manifest.checkpoint
    yield Figure(f"requests to select at {NUM_RECORDS} records", len(counting.requests), "", 400)


def _planning() -> Iterator[Figure]:
    """A plan of many checkpoints, none of them retired yet."""
    changes: list[Change] = [Begin(term=1, run="r", generation=0, attempt=0, reason="bench", charged=False)]
    for step in range(NUM_CHECKPOINTS):
        name = checkpoint_id(step=step, term=1)
        changes.append(
            Commit(
                checkpoint=name, term=1, step=step, run="r", data_version="d-0", folder=f"f/{step}",
                manifest_sha256="0" * 64, size_bytes=1, num_files=1, world_size=1, metrics={"loss": 1 / (step + 1)},
            )
        )  # fmt: skip
        changes.append(Verified(checkpoint=name, level="tensors"))
    at = utc_text(datetime.now(UTC))
    state = fold(
        LedgerState(),
        [
            Record(seq=seq, experiment="e", model_version="v1", nonce="n", at=at, change=change)
            for seq, change in enumerate(changes, start=1)
        ],
    )
    policy = RetentionPolicy(keep_last=3, keep_every_steps=1000, keep_best=KeepBest(), keep_for=3600.0)
    began = time.process_time()
    plan_retention(state, policy, datetime.now(UTC))
    yield Figure(f"retention plan of {NUM_CHECKPOINTS} checkpoints, CPU", time.process_time() - began, "s", 2.0)
