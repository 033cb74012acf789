"""What a shard is made from: inputs with everything needed to read them again, and the id that names the result.

One shard is one line of the plan: `{"entry":"<32 hex>","inputs":[[kind,path,size,tag,start,end,extra],…]}`, defaults at
the end left out. The id is a digest of the line's inputs and of all that decides what comes out of them, so equal
entries of different plans are the same shard.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from components.contracts.canonical import canonical_bytes
from components.contracts.dataset import DataOptions, ReadOptions

PACKING_RULES = 4
"""See `ShardPlan.packing`."""


class Input(NamedTuple):
    """A file, an object, or a range of one."""

    kind: str
    """How it is read: file, grouped, labelled, lines, jsonl, parquet, tar or row (of a manifest)."""
    path: str
    """Relative to the plan's root; for a row of a manifest an absolute path or uri."""
    size: int
    """Bytes of the whole file when the plan was made."""
    tag: int | str
    """Notices a change: the modification time in ns of a file, for file:// the times of its content and of its inode,
    else what the store calls the version of an object.
    """
    start: int = 0
    end: int = -1
    """Bytes (Parquet: rows) [start, end) belong to this shard; -1: up to the end."""
    extra: dict[str, Any] | None = None
    """labelled: {"label": place of the folder}; row: {"key": …, "fields": {…}}, both optional."""

    @property
    def stop(self) -> int:
        """Where it ends, -1 resolved. Not for Parquet, whose rows are not its bytes."""
        return self.size if self.end < 0 else self.end


class Entry(NamedTuple):
    """One shard to be made."""

    id: str
    inputs: list[Input]


class EntryWriter:
    """Writes the lines of one plan."""

    def __init__(self, *, root: str, read: ReadOptions, options: DataOptions) -> None:
        decides = {"packing": PACKING_RULES, "root": root, "read": read.as_json(), "options": options.as_json()}
        self._base = hashlib.sha256(canonical_bytes(decides) + b"\n")

    def line(self, inputs: Sequence[Input]) -> bytes:
        """The line of the shard made from `inputs`, newline included."""
        text = json.dumps([_short(item) for item in inputs], separators=(",", ":"), sort_keys=True).encode()
        digest = self._base.copy()
        digest.update(text)
        return b'{"entry":"%s","inputs":%s}\n' % (digest.hexdigest()[:32].encode(), text)


def read_line(line: bytes) -> Entry:
    """The entry of one line of a plan whose digest was checked."""
    value = json.loads(line)
    return Entry(value["entry"], [Input(*item) for item in value["inputs"]])


def _short(item: Input) -> tuple[Any, ...]:
    if item.extra is not None:
        return item
    return item[:6] if item.end != -1 else item[:5] if item.start else item[:4]
