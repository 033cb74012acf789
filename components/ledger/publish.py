"""Puts one step's files into the store: each agent its own with a receipt, then agent 0 the manifest, last.

Nothing here makes a checkpoint count; only `ledger.commit` does. Everything may be repeated by the same term and step.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from components.contracts.checkpoint import CheckpointManifest, CheckpointReceipt, Lineage
from components.contracts.dataset import StoredFile
from components.contracts.layout import checkpoint_folder, checkpoint_manifest_key, checkpoint_receipt_key
from components.contracts.names import checkpoint_id
from components.errors import BadInput, Problem
from components.integrity.safe_path import fault_of_path
from components.storage.base import AlreadyExists, ObjectNotFound, ObjectStore

_CHUNK_BYTES = 1 << 20
_NUM_UPLOADS = 4
_READY_MARK = re.compile(r"^READY(\.\d+)?$")


class PublishRefused(BadInput):
    """What the program wrote cannot become a checkpoint: a name, a link, a file that differs between nodes."""


def publish_files(
    store: ObjectStore, *, folder: str, source: Path, node_rank: int, term: int, step: int
) -> CheckpointReceipt:
    """Copy every file below `source` (the READY marks excepted) to `folder`, then leave this node's receipt.

    `folder` is `layout.checkpoint_folder(...)` of this term and step. SHA-256 is taken from the bytes as they are
    copied: one file after another to a folder, which one stream fills, and a few at a time to a bucket, so never on
    more than a few of the cores that the ranks compute on. Raises PublishRefused with every unusable name listed, and
    when a file changes meanwhile or differs from one of the same name that is there already.
    """
    found, publishing = _files_below(source), _Publishing(store, folder)
    if store.local_path(folder) is not None or len(found) == 1:
        files = [publishing.copy(*item) for item in found]
    else:
        with ThreadPoolExecutor(_NUM_UPLOADS, "publish") as pool:
            waiting = [pool.submit(publishing.copy, *item) for item in found]
            try:
                files = [future.result() for future in waiting]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    receipt = CheckpointReceipt(term=term, step=step, node_rank=node_rank, files=tuple(files))
    _create_same(store, checkpoint_receipt_key(folder, node_rank=node_rank), receipt.to_bytes())
    return receipt


class _Publishing:
    """One node's files on their way to one folder."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder
        self._is_repeat = False
        """An earlier try has left something, so others may be there too."""

    def copy(self, path: str, local: Path) -> StoredFile:
        before = local.stat()
        sha256, was_there = _copy(
            self._store, f"{self._folder}/{path}", local, size_bytes=before.st_size, look_first=self._is_repeat
        )
        self._is_repeat |= was_there
        after = local.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise PublishRefused(
                "CheckpointChanged", f"{local} changed while it was being copied",
                "write every file of a step before its READY mark, and none after",
            )  # fmt: skip
        return StoredFile(path=path, size_bytes=before.st_size, sha256=sha256)


def receipts_present(store: ObjectStore, *, folder: str, node_ranks: Iterable[int]) -> tuple[CheckpointReceipt, ...]:
    """The receipts that these nodes have left so far, in the order of `node_ranks`."""
    receipts = []
    for node_rank in node_ranks:
        key = checkpoint_receipt_key(folder, node_rank=node_rank)
        try:
            receipts.append(CheckpointReceipt.from_bytes(store.read(key), where=store.uri_of(key)))
        except ObjectNotFound:
            continue
    return tuple(receipts)


def write_manifest(
    store: ObjectStore, *, receipts: Iterable[CheckpointReceipt], experiment: str, model_version: str,
    data_version: str, run: str, term: int, step: int, world_size: int, parent: str | None,
    metrics: Mapping[str, float], lineage: Lineage | None = None,
) -> tuple[CheckpointManifest, str]:  # fmt: skip
    """Write the manifest over all receipts; returns it with its hex SHA-256, both for `ledger.commit`.

    A metric that is not finite is left out: JSON has no spelling for it. Raises PublishRefused when there is no file,
    a receipt belongs to another term or step, or two nodes wrote different files of one name.
    """
    files: dict[str, StoredFile] = {}
    for receipt in receipts:
        if (receipt.term, receipt.step) != (term, step):
            raise PublishRefused(
                "ForeignReceipt", f"node {receipt.node_rank}'s receipt is of term {receipt.term}, step {receipt.step}",
                f"term {term}, step {step} is being committed",
            )  # fmt: skip
        for file in receipt.files:
            if files.setdefault(file.path, file) != file:
                raise _differs(file.path)
    if not files:
        raise PublishRefused("EmptyCheckpoint", f"step {step} has no files", "write files before the READY mark")
    manifest = CheckpointManifest(
        checkpoint=checkpoint_id(step=step, term=term), experiment=experiment, model_version=model_version,
        data_version=data_version, run=run, term=term, step=step, world_size=world_size, parent=parent,
        metrics={name: float(value) for name, value in metrics.items() if math.isfinite(value)},
        lineage=lineage, files=tuple(files[path] for path in sorted(files)),
    )  # fmt: skip
    folder = checkpoint_folder(experiment, model_version, data_version, step=step, term=term)
    data = manifest.to_bytes()
    _create_same(store, checkpoint_manifest_key(folder), data)
    return manifest, hashlib.sha256(data).hexdigest()


def _files_below(source: Path) -> list[tuple[str, Path]]:
    found, problems = [], []
    for parent, folders, names in os.walk(source, onerror=_raise, followlinks=False):
        linked = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in sorted([*names, *linked]):
            local = Path(parent, name)
            path = local.relative_to(source).as_posix()
            if parent == str(source) and _READY_MARK.match(name):
                continue
            fault = fault_of_path(path)
            if local.is_symlink() or not local.is_file():
                fault = "is not a regular file"
            if fault:
                problems.append(Problem(_shown(local), fault))
            found.append((path, local))
    if problems:
        raise PublishRefused(
            "UnusableFiles", f"{_shown(source)} contains files that cannot be published",
            "checkpoints are plain files with printable names", problems=problems,
        )  # fmt: skip
    return sorted(found)


def _copy(store: ObjectStore, key: str, local: Path, *, size_bytes: int, look_first: bool) -> tuple[str, bool]:
    """The hex SHA-256, and whether the object was there already.

    Almost always it is not, so nobody asks first; once one was, an earlier try may have left others, which need not be
    copied again only to be refused.
    """
    present = store.find(key) if look_first else None
    if present is None:
        try:
            return store.create_from(key, local), False
        except AlreadyExists:
            present = store.find(key)
    with local.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    same = present is not None and present.size_bytes == size_bytes and _digest_of(store, key) == sha256
    if not same:
        raise _differs(key)
    return sha256, True


def _digest_of(store: ObjectStore, key: str) -> str:
    digest = hashlib.sha256()
    with store.open(key) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _create_same(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        store.create(key, data)
    except AlreadyExists:
        if store.read(key) != data:
            raise _differs(key) from None


def _differs(path: str) -> PublishRefused:
    return PublishRefused(
        "FilesDiffer", f"{path} was published already with other content",
        "let every node write files of its own names, for example with its rank in them",
    )  # fmt: skip


def _shown(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()


def _raise(error: OSError) -> None:
    raise error
