"""What a simulated world begins with: a number of checkpoints that were saved and verified in peace."""

import functools
import hashlib
import io
import random

from components.contracts.checkpoint import CheckpointReceipt
from components.contracts.clock import utc_text
from components.contracts.dataset import StoredFile
from components.contracts.layout import checkpoint_folder, checkpoint_receipt_key
from components.ledger import ledger as protocol
from components.ledger import publish
from components.ledger.ledger import Ledger
from components.runtime.log import Log
from components.verify import run as verify
from tests.components.ledger.building import DATA_VERSION, NOW, an_owner, safetensors_bytes
from tests.components.ledger.invariants import CheckedStore

RUN = "gpt-aaaaa"
GOOD, POISONED = safetensors_bytes(), safetensors_bytes({"weight": [1.0, float("nan")]})
SILENT = Log({}, io.StringIO())


def save(
    ledger: Ledger, term: int, step: int, data: bytes, *, run: str = RUN, data_version: str = DATA_VERSION
) -> None:  # fmt: skip
    """What agents do with a READY step: files, receipt, manifest, COMMIT."""
    folder = checkpoint_folder(ledger.experiment, ledger.model_version, data_version, step=step, term=term)
    ledger.store.create(f"{folder}/model.safetensors", data)
    file = StoredFile(path="model.safetensors", size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    receipt = CheckpointReceipt(term=term, step=step, node_rank=0, files=(file,))
    ledger.store.create(checkpoint_receipt_key(folder, node_rank=0), receipt.to_bytes())
    manifest, sha256 = publish.write_manifest(
        ledger.store, receipts=[receipt], experiment=ledger.experiment,
        model_version=ledger.model_version, data_version=data_version, run=run, term=term, step=step, world_size=1,
        parent=None, metrics={},
    )  # fmt: skip
    protocol.commit(ledger, manifest=manifest, manifest_sha256=sha256)


@functools.cache
def before(num_verified: int) -> CheckedStore:
    """A calm past: generation 0 has begun and has so many verified checkpoints."""
    store = CheckedStore(random.Random(0))
    ledger = Ledger(store, "gpt", "v1", clock=lambda: utc_text(NOW), num_readers=1)
    protocol.claim(ledger, run=RUN, owner=an_owner(), is_gone=lambda owner: False)
    if num_verified:
        term = protocol.begin(
            ledger, run=RUN, generation=0, attempt=0, reason="start", charged=False, source=None
        )  # fmt: skip
    for step in range(10, 10 * num_verified + 10, 10):
        save(ledger, term, step, GOOD)
        verify.verify_entry(ledger, ledger.state().newest_first()[0], "tensors", SILENT)
    return store
