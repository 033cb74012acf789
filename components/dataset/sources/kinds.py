"""How each input is read: chosen by its name or by the description, cut into units for planning, read as samples or
documents.
"""

from collections.abc import Iterator, Sequence

from components.contracts.dataset import DataOptions, PackingOptions, ReadOptions
from components.dataset.blobs import Blobs, Changed, Unreadable
from components.dataset.corpus import Found
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES, Unit, byte_units, even_units
from components.dataset.sources.files import group_of, label_of
from components.dataset.sources.packed import EXPANDS, is_packed
from components.dataset.tokenizer import BYTES

_BY_SUFFIX = {"jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet", "tar": "tar"}
_PACKED = ("gz", "bz2", "xz", "zst", "zip", "lz4", "7z")
_PACKABLE = ("jsonl", "tar")
_NEEDS_LOOK = ("parquet", "tar")
_GZIP = b"\x1f\x8b"


class Kinds:
    """Decides for one plan."""

    def __init__(
        self, read: ReadOptions, options: DataOptions, blobs: Blobs, *, target: int, labels: Sequence[str] = ()
    ) -> None:
        self._read, self._options, self._blobs, self._target = read, options, blobs, target
        self._labels = {name: place for place, name in enumerate(labels)}
        self._is_tokens = isinstance(options, PackingOptions)
        self._otherwise = "file" if self._is_tokens else "grouped"
        self._is_bytes = isinstance(options, PackingOptions) and options.tokenizer == BYTES
        forced = {"auto": "", "grouped_files": "grouped", "labelled_folders": "labelled"}
        self._forced = forced.get(read.read_as, read.read_as)

    def kind_of(self, path: str) -> str:
        """How the input is read. Raises Unreadable for one that must be unpacked first."""
        if self._forced:
            return self._forced
        suffix = path.rpartition(".")[2].lower()
        within = _BY_SUFFIX.get(path.lower().split(".")[-2]) if "." in path else None
        if suffix == "tgz" or (suffix == "gz" and within in _PACKABLE):
            return within or "tar"
        if suffix in _PACKED and within:
            raise Unreadable(path, f"is compressed: unpack it, .{suffix} cannot be read")
        return _BY_SUFFIX.get(suffix, self._otherwise)

    def needs_look(self, found: Found) -> bool:
        """Whether `units` reads from the input."""
        return (
            self._forced in _NEEDS_LOOK
            or found.path.endswith((".parquet", ".tar"))
            or (self._is_tokens and is_packed(found.path))
        )

    def units(self, found: Found) -> list[Unit]:
        """What the planner puts into shards. Raises Unreadable for an input that cannot be read at all."""
        kind = self.kind_of(found.path)
        item = Input(kind, found.path, found.size, found.tag)
        if kind in ("file", "grouped", "labelled"):
            return list(self._file_units(item))
        if kind in ("lines", "jsonl", "tar") and is_packed(found.path):
            return [Unit(item, item.size * EXPANDS)]
        if kind in ("lines", "jsonl"):
            return list(even_units(item, target=self._target))
        return list(self._looked_into(item))

    def _file_units(self, item: Input) -> Iterator[Unit]:
        if self._is_tokens and item.kind == "file" and is_packed(item.path) and item.size >= len(_GZIP):
            try:
                begins = self._blobs.read(item, 0, len(_GZIP))
            except Changed as changed:
                raise Unreadable(item.path, changed.problem.seen) from changed
            if begins == _GZIP:
                raise Unreadable(item.path, "is packed with gzip, not text: unpack it, or read it as lines or jsonl")
        if isinstance(self._options, PackingOptions) and self._is_bytes:
            yield from byte_units(item, self._options, target=self._target)
            return
        if item.size > MAX_RECORD_BYTES:
            raise Unreadable(item.path, f"its {item.size} bytes are more than a record may have, {MAX_RECORD_BYTES}")
        if item.kind == "labelled":
            label = self._labels.get(label_of(item.path))
            if label is None:
                raise Unreadable(item.path, "lies in no folder that could be its label")
            item = item._replace(extra={"label": label})
        yield Unit(item, item.size, group_of(item.path) if item.kind == "grouped" else "")

    def _looked_into(self, item: Input) -> Iterator[Unit]:
        if item.kind == "parquet":
            from components.dataset.sources import parquet

            for start, end, weight in parquet.cuts(item, self._blobs, target=self._target):
                yield Unit(item._replace(start=start, end=end), weight)
            return
        from components.dataset.sources import tar

        if not item.size:
            raise Unreadable(item.path, "is empty, not even the end of a tar")
        whole = ((0, item.size),) if item.size <= self._target else tar.cuts(item, self._blobs, target=self._target)
        for start, end in whole:
            yield Unit(item._replace(start=start, end=-1 if end == item.size else end), end - start)
