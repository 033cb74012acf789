"""Deletes the objects of retired checkpoints, and of attempts that can never commit any more. Nothing else, ever.

A key is written once, so what the listing showed is what is deleted: no condition on the object itself is needed.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from components.contracts.layout import checkpoint_folder, checkpoint_manifest_key, ledger_folder
from components.errors import Transient
from components.ledger.ledger import Ledger
from components.ledger.state import LedgerState
from components.storage.base import ObjectInfo, ObjectStore

_ATTEMPT = re.compile(r"^(?P<data_version>[^/]+)/step-(?P<step>\d{12})/term-(?P<term>\d{6,})/")
_BURST, _BURST_SECONDS = 100, 0.1
"""Deletions leave room for the writer: 1000 objects a second at most."""
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Doomed:
    """Objects that may go, in the order in which they go."""

    keys: tuple[str, ...]
    size_bytes: int
    orphans: tuple[str, ...]
    """Folders among them of attempts that never committed and whose term is over."""


def needs_sweep(state: LedgerState) -> bool:
    """Whether attempts may lie about that nobody has looked for: the newest term has at most one commit so far.

    Attempts become orphans when a term begins. Looking for them after its first commit, and after training, suffices;
    what a zombie leaves later than that waits for the next time.
    """
    return sum(entry.term == state.term for entry in state.checkpoints.values()) <= 1


def doomed_objects(ledger: Ledger, *, sweeps: bool = True) -> Doomed:
    """What may be deleted now: with `sweeps` by listing everything, otherwise retired checkpoints only, each by name.

    The state is folded after the listing, so that nothing listed can become committed later: an older term is fenced
    for ever, and the newest term's folders are left alone whether or not its gang still lives.
    """
    listed = list(_attempts(ledger) if sweeps else _retired(ledger))
    state = ledger.state()
    retired = {entry.folder for entry in state.checkpoints.values() if entry.status == "retired"}
    committed = {entry.folder for entry in state.checkpoints.values()}
    keys, orphans, size_bytes = [], set(), 0
    for key, size, folder, term in listed:
        is_orphan = folder not in committed and term < state.term
        if folder in retired or is_orphan:
            keys.append((folder, key != checkpoint_manifest_key(folder), key))
            size_bytes += size
            orphans |= {folder} if is_orphan else set()
    # The manifest first: whoever looks past the ledger must not take the rest for a whole checkpoint.
    return Doomed(tuple(key for _, _, key in sorted(keys)), size_bytes, tuple(sorted(orphans)))


def delete_objects(ledger: Ledger, doomed: Doomed, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Delete them, not too fast; a store that is busy is given time. May be repeated, and by several at once."""
    for number, key in enumerate(doomed.keys, start=1):
        _delete(ledger, key, pause)
        if number % _BURST == 0:
            pause(_BURST_SECONDS)


def _delete(ledger: Ledger, key: str, pause: Callable[[float], None]) -> None:
    for seconds in _PAUSES_SECONDS:
        try:
            return ledger.store.delete(key)
        except Transient:
            pause(seconds)
    return ledger.store.delete(key)


def _retired(ledger: Ledger) -> Iterator[tuple[str, int, str, int]]:
    """As `_attempts`, of those whose deletion was decided and not yet reported."""
    for entry in ledger.state().checkpoints.values():
        if entry.status == "retired" and not entry.is_deleted:
            for item in ledger.store.list(entry.folder):
                yield item.key, item.size_bytes, entry.folder, entry.term


def _attempts(ledger: Ledger) -> Iterator[tuple[str, int, str, int]]:
    """(key, bytes, folder, term) of every object in a checkpoint folder of this experiment and model version."""
    log_folder = ledger_folder(ledger.experiment, ledger.model_version)
    root = log_folder.rpartition("/")[0]
    for item in _outside(ledger.store, root, log_folder):
        match = _ATTEMPT.match(item.key[len(root) + 1 :])
        if match is None:
            continue
        folder = checkpoint_folder(
            ledger.experiment, ledger.model_version, match["data_version"], step=int(match["step"]),
            term=int(match["term"]),
        )  # fmt: skip
        if item.key.startswith(f"{folder}/"):
            yield item.key, item.size_bytes, folder, int(match["term"])


def _outside(store: ObjectStore, root: str, left_out: str) -> Iterator[ObjectInfo]:
    """What lies below `root` but not below `left_out`, which may hold far more than all the rest: never listed."""
    for item in store.list(root):
        if item.key.startswith(f"{left_out}/"):
            break
        yield item
    else:
        return
    # "0" is the character after "/": the first key that cannot lie in that folder.
    yield from (item for item in store.list(root, after=f"{left_out}0") if not item.key.startswith(f"{left_out}/"))
