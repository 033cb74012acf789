"""Which inspector looks at which file of a checkpoint, and what its files say about each other.

*.safetensors   header, coverage, NaN and Inf          *.index.json      against the files it names
*.pt *.pth      zip, CRC-32, tensors, NaN and Inf      *.distcp          by the .metadata of their folder
*.ckpt *.bin    the same, when it is torch's zip       *.json            is it JSON
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from components.integrity.dcp_file import DcpFileInspector
from components.integrity.dcp_metadata import MAX_METADATA_BYTES, METADATA_NAME, DcpTable, read_dcp_metadata
from components.integrity.fault import Fault
from components.integrity.index_json import MAX_INDEX_BYTES, SUFFIXES, index_faults
from components.integrity.inspector import Inspector, TensorType
from components.integrity.json_text import JsonInspector
from components.integrity.one_pass import Wanted
from components.integrity.pickle_values import BadPickle, TooLarge
from components.integrity.safetensors import SafetensorsInspector
from components.integrity.torch_file import TorchFileInspector
from components.integrity.window import Window
from components.storage.base import ObjectNotFound, ObjectStore

_TORCH = (".pt", ".pth", ".ckpt", ".bin")
_NUMBERED = re.compile(r"-\d{5}-of-\d{5}(?=\.)")
_MAX_SAFETENSORS_HEADER_BYTES = 6 << 20


class Formats:
    """The files of one checkpoint, seen as formats. Small tables (`.metadata`) are read when it is made."""

    def __init__(self, store: ObjectStore, folder: str, files: Sequence[Wanted]) -> None:
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.tensors: dict[str, list[TensorType]] = {}
        """By file, of those that could be looked into."""
        self._store, self._folder = store, folder
        self._sizes = {file.path: file.size_bytes for file in files}
        self._tables: dict[str, DcpTable | None] = {}
        for path in self._sizes:
            if posixpath.basename(path) == METADATA_NAME:
                self._tables[posixpath.dirname(path)] = self._table(path)

    def inspector(self, path: str) -> Inspector | None:
        """Who looks into the file; None when nobody knows its format."""
        size = self._sizes[path]
        if path.endswith(".safetensors"):
            return SafetensorsInspector(path, size)
        if path.endswith(".json"):
            return JsonInspector(path, size)
        if path.endswith(_TORCH):
            return TorchFileInspector(path, self._window(path))
        table = self._tables.get(posixpath.dirname(path))
        pieces = table.pieces.get(posixpath.basename(path)) if table is not None else None
        return DcpFileInspector(path, self._window(path), pieces) if pieces is not None else None

    def is_table(self, path: str) -> bool:
        """Whether the file was read, or refused with a reason, when this was made."""
        return posixpath.basename(path) == METADATA_NAME

    def types(self) -> dict[str, TensorType]:
        """Every tensor of the checkpoint by a key that stays the same from step to step."""
        found: dict[str, TensorType] = {}
        for folder, table in self._tables.items():
            for tensor in table.tensors if table is not None else ():
                found[posixpath.join(folder, tensor.name)] = tensor
        for path, tensors in self.tensors.items():
            place = _NUMBERED.sub("", path)
            for tensor in tensors:
                found[f"{place}:{tensor.name}"] = tensor
        return found

    def read_tables_only(self) -> None:
        """Fill `tensors` from headers, without a look at the data. What cannot be read is left out."""
        for path in self._sizes:
            if not path.endswith((*_TORCH, ".safetensors")):
                continue
            inspector = self.inspector(path)
            assert inspector is not None
            try:
                if isinstance(inspector, SafetensorsInspector):
                    with self._window(path) as window:
                        length = int.from_bytes(window.read(0, 8), "little")
                        inspector.feed(memoryview(window.read(0, 8 + min(length, _MAX_SAFETENSORS_HEADER_BYTES))))
                self.tensors[path] = inspector.tensors
            finally:
                inspector.close()

    def cross_faults(self, broken: frozenset[str]) -> Iterator[Fault]:
        """What no file shows alone. Call it after the pass; `broken` files are not blamed again."""
        files = frozenset(self._sizes)
        sound: Mapping[str, list[TensorType]] = {
            path: tensors for path, tensors in self.tensors.items() if path not in broken
        }
        for folder, table in self._tables.items():
            if table is None:
                continue
            for name in sorted(table.pieces):
                if posixpath.join(folder, name) not in files:
                    lost = table.pieces[name][0].name
                    yield Fault(posixpath.join(folder, METADATA_NAME), f"names {name}, which is missing", None, lost)
            for path in sorted(files):
                unnamed = posixpath.basename(path) not in table.pieces
                if path.endswith(".distcp") and posixpath.dirname(path) == folder and unnamed:
                    yield Fault(path, "is not named by .metadata: it is of another save")
        for path in sorted(files - broken):
            if path.endswith(SUFFIXES):
                yield from index_faults(path, self._read(path, MAX_INDEX_BYTES + 1), files=files, tensors=sound)

    def _table(self, path: str) -> DcpTable | None:
        if self._sizes[path] > MAX_METADATA_BYTES:
            self.notes.append(f"{path}: digest only, {self._sizes[path]} bytes are too large to look into")
            return None
        try:
            table = read_dcp_metadata(self._read(path, MAX_METADATA_BYTES), path=path)
        except BadPickle as error:
            self.faults.append(Fault(path, error.problem, error.offset))
            return None
        except TooLarge:
            self.notes.append(f"{path}: digest only, it is too large to look into")
            return None
        self.faults += table.faults
        return table

    def _read(self, path: str, most: int) -> bytes:
        try:
            with self._store.open(self._key(path)) as stream:
                return stream.read(most)
        except ObjectNotFound:
            return b""

    def _window(self, path: str) -> Window:
        return Window(self._store, self._key(path), self._sizes[path])

    def _key(self, path: str) -> str:
        return f"{self._folder}/{path}" if self._folder else path
