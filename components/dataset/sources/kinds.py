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
from components.dataset.sources.packed import EXPANDS, LOOKED_AT_BYTES, PACKED, UNPACKED, is_packed, packed_with
from components.dataset.tokenizer import BYTES

_BY_SUFFIX = {"jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet", "tar": "tar"}
_PACKABLE = ("jsonl", "tar")
_NEEDS_LOOK = ("parquet", "tar")
_PACKED_SUFFIXES = tuple(f".{suffix}" for suffix in PACKED)


def _instead(within: str) -> str:
    return ", or pack it with gzip or zstd" if within in _PACKABLE else ""


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
        if suffix == "tgz" or (suffix in UNPACKED and within in _PACKABLE):
            return within or "tar"
        if suffix in PACKED and within:
            raise Unreadable(path, f"is compressed: unpack it, .{suffix} cannot be read{_instead(within)}")
        return _BY_SUFFIX.get(suffix, self._otherwise)

    def needs_look(self, found: Found) -> bool:
        """Whether `units` reads from the input."""
        return bool(
            self._forced in _NEEDS_LOOK
            or found.path.endswith((".parquet", ".tar"))
            or ((self._is_tokens or self._forced) and found.path.lower().endswith(_PACKED_SUFFIXES))
        )

    def units(self, found: Found) -> list[Unit]:
        """What the planner puts into shards. Raises Unreadable for an input that cannot be read at all."""
        kind = self.kind_of(found.path)
        item = Input(kind, found.path, found.size, found.tag)
        if kind in ("lines", "jsonl", "tar") or self._is_tokens:
            self._refuse_packed(item)
        if kind in ("file", "grouped", "labelled"):
            return list(self._file_units(item))
        if kind in ("lines", "jsonl", "tar") and is_packed(found.path):
            return [Unit(item, item.size * EXPANDS)]
        if kind in ("lines", "jsonl"):
            return list(even_units(item, target=self._target))
        return list(self._looked_into(item))

    def _refuse_packed(self, item: Input) -> None:
        """What is compressed and not unpacked while it is read would be taken for text."""
        is_unpacked = item.kind in ("lines", "jsonl", "tar") and is_packed(item.path)
        if is_unpacked or not item.path.lower().endswith(_PACKED_SUFFIXES):
            return
        try:
            name = packed_with(item.path, self._blobs.read(item, 0, min(item.size, LOOKED_AT_BYTES)))
        except Changed as changed:
            raise Unreadable(item.path, changed.problem.seen) from changed
        if name:
            instead = ", or read it as lines or jsonl" if is_packed(item.path) else _instead("jsonl")
            raise Unreadable(item.path, f"is packed with {name}, not text: unpack it{instead}")

    def _file_units(self, item: Input) -> Iterator[Unit]:
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

            names = [field.name for field in self._read.fields]
            text_field = (self._read.text_field or "text") if self._is_tokens else None
            for start, end, weight in parquet.cuts(
                item, self._blobs, target=self._target, names=names, text_field=text_field
            ):
                yield Unit(item._replace(start=start, end=end), weight)
            return
        from components.dataset.sources import tar

        if not item.size:
            raise Unreadable(item.path, "is empty, not even the end of a tar")
        whole = ((0, item.size),) if item.size <= self._target else tar.cuts(item, self._blobs, target=self._target)
        for start, end in whole:
            yield Unit(item._replace(start=start, end=-1 if end == item.size else end), end - start)
