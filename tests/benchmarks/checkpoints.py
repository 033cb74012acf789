"""Verifying, publishing, and the ledger with ten thousand records."""

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy
from safetensors.numpy import save_file

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.layout import checkpoint_folder
from components.contracts.names import checkpoint_id
from components.contracts.retention import KeepBest, RetentionPolicy
from components.ledger.ledger import begin, claim, commit, mark_verified
from components.ledger.log import Ledger
from components.ledger.owner import this_process
from components.ledger.publish import publish_files
from components.retain.plan import plan_retention
from components.storage.local import LocalStore
from tests.benchmarks import verifying
from tests.benchmarks.measure import Figure

NUM_RECORDS = 10_000
TENSOR_BYTES = 256 << 20


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        formats = Path(folder, "formats")
        formats.mkdir()
        yield from verifying.figures(formats)
        yield _publishing(Path(folder))
        yield from _ten_thousand_records(Path(folder, "many"))


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
    began = time.perf_counter()
    state = Ledger(store, "e", "v1").state()
    yield Figure(f"fold of {NUM_RECORDS} records", time.perf_counter() - began, "s", 1.0)
    policy = RetentionPolicy(keep_last=3, keep_every_steps=1000, keep_best=KeepBest())
    began = time.perf_counter()
    plan_retention(state, policy, datetime.now(UTC))
    yield Figure(f"retention plan of {len(state.checkpoints)} checkpoints", time.perf_counter() - began, "s", 2.0)
