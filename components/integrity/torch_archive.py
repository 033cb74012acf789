"""One archive written by torch.save, which may lie inside a larger file: its regions, and what is wrong with its table.

<name>/data.pkl   what the program saved, with a reference to a storage for each tensor
<name>/data/<key> the bytes of one storage
<name>/byteorder  little or big, and a few more entries of some bytes
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.integrity.dtypes import size_of
from components.integrity.fault import Fault
from components.integrity.inspector import ONE_TABLE_AT_A_TIME, TensorType
from components.integrity.pickle_values import BadPickle, TooLarge
from components.integrity.regions import MAX_FAULTS, Region, Scan
from components.integrity.torch_pickle import TensorView, TorchPickle, read_torch_pickle, shown
from components.integrity.window import Window
from components.integrity.zip_directory import BadZip, Entry, ZipTooLarge, read_directory

MAX_PICKLE_BYTES = 8 << 20
"""About 50 000 tensors; a larger table would not fit into the memory a verifier may use."""
_MAX_NOTES = 20


@dataclass
class Findings:
    """What was found in one file so far."""

    path: str
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tensors: list[TensorType] = field(default_factory=list)

    def report(self, fault: Fault) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)

    def fault(
        self, problem: str, offset: int | None, *, tensor: str | None = None, expected: str = "", actual: str = ""
    ) -> None:
        self.report(Fault(self.path, problem, offset, tensor, expected, actual))

    def note(self, text: str) -> None:
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a table elsewhere says the archive holds."""

    name: str
    dtype: str | None
    """None: an object, not a tensor."""
    shape: tuple[int, ...] = ()


def archive_regions(
    window: Window, begin: int, end: int, found: Findings, *, expected: Expected | None = None
) -> Iterator[Region]:
    """The regions of the archive at [begin, end), in order. Lies in its tables are reported to `found` first."""
    name = expected.name if expected is not None else None
    try:
        entries = read_directory(window, begin, end)
    except BadZip as error:
        found.fault(error.problem, error.offset, tensor=name, expected=error.expected, actual=error.actual)
        return
    except ZipTooLarge:
        found.note("digest only, its directory is too large to look into")
        return
    by_name = {entry.name: entry for entry in entries}
    pickles = [entry for entry in entries if entry.name.split("/", 1)[-1] == "data.pkl"]
    content = _content(window, pickles[0], found, name) if len(pickles) == 1 else None
    if not pickles:
        found.note("CRC only, it is a zip that torch.save did not write")
    elif len(pickles) > 1:
        found.fault("has several data.pkl", pickles[1].header, tensor=name)
    scans: Mapping[str, tuple[Scan, ...]] = {}
    owners: dict[str, str] = {}
    if content is not None:
        root = pickles[0].name.removesuffix("data.pkl")
        _compare(content, root, by_name, found, expected, pickles[0].begin)
        scans = _scans(content, root, by_name, found, name)
        for tensor in content.tensors:
            owners.setdefault(f"{root}data/{tensor.storage}", name or tensor.name)
        order = by_name.get(f"{root}byteorder")
        if order is not None and window.read(order.begin, min(order.size_bytes, 16)) == b"big":
            found.note("NaN and Inf not looked for, its byte order is big-endian")
            scans = {}
    for entry in entries:
        inside = entry.name.split("/", 1)[-1]
        yield Region(
            entry.begin, entry.begin + entry.size_bytes, scans.get(entry.name, ()), entry.crc32,
            owners.get(entry.name, name), inside,
        )  # fmt: skip


def _content(window: Window, entry: Entry, found: Findings, name: str | None) -> TorchPickle | None:
    if entry.size_bytes > MAX_PICKLE_BYTES:
        found.note(f"CRC only, its data.pkl of {entry.size_bytes} bytes is too large to look into")
        return None
    try:
        with ONE_TABLE_AT_A_TIME:
            content = read_torch_pickle(window.read(entry.begin, entry.size_bytes))
            content.value = None
    except BadPickle as error:
        found.fault(f"its data.pkl {error.problem}", entry.begin + error.offset, tensor=name)
        return None
    except TooLarge:
        found.note("CRC only, its data.pkl is too large to look into")
        return None
    if content.foreign:
        found.note(f"loads only with classes of other packages: {', '.join(content.foreign[:5])}")
    return content


def _compare(
    content: TorchPickle, root: str, entries: Mapping[str, Entry], found: Findings, expected: Expected | None, at: int
) -> None:
    """Every storage there once, of its size; every tensor inside its storage; what another table says."""
    users: dict[str, str] = {}
    for tensor in content.tensors:
        users.setdefault(tensor.storage, expected.name if expected is not None else tensor.name)
    for key, size_bytes in content.storages.items():
        entry = entries.get(f"{root}data/{key}")
        user = users.get(key)
        if entry is None:
            found.fault(f"lacks the data of storage {shown(key)}", at, tensor=user, expected=f"{size_bytes} bytes")
        elif entry.size_bytes != size_bytes:
            found.fault(
                f"has another size of storage {shown(key)} than its data.pkl says", entry.begin, tensor=user,
                expected=f"{size_bytes} bytes", actual=f"{entry.size_bytes} bytes",
            )  # fmt: skip
    folder = f"{root}data/"
    for entry in entries.values():
        if entry.name.startswith(folder) and entry.name.removeprefix(folder) not in content.storages:
            found.fault(f"has data that no tensor uses, {entry.name.removeprefix(root)}", entry.begin)
    for tensor in content.tensors:
        room = content.storages[tensor.storage]
        needed = (tensor.offset + tensor.extent) * size_of(tensor.dtype)
        if needed > room and tensor.extent:
            found.fault("reaches beyond its storage", at, tensor=tensor.name, expected=f"at most {room} bytes",
                        actual=f"{needed} bytes")  # fmt: skip
    if expected is None:
        found.tensors += [TensorType(tensor.name, tensor.dtype, tensor.shape) for tensor in content.tensors]
    elif expected.dtype is not None:
        _compare_one(content.tensors, found, expected, at)


def _compare_one(tensors: list[TensorView], found: Findings, expected: Expected, at: int) -> None:
    said = TensorType(expected.name, expected.dtype or "", expected.shape).spelled
    have = [TensorType(tensor.name, tensor.dtype, tensor.shape).spelled for tensor in tensors]
    if have != [said]:
        actual = have[0] if len(have) == 1 else f"{len(have)} tensors"
        found.fault("is not what .metadata says", at, tensor=expected.name, expected=said, actual=actual)


def _scans(
    content: TorchPickle, root: str, entries: Mapping[str, Entry], found: Findings, name: str | None
) -> dict[str, tuple[Scan, ...]]:
    """Which bytes of each entry are tensors' values: never what lies in a storage beside them."""
    by_entry: dict[str, list[Scan]] = {}
    num_strided = 0
    for tensor in content.tensors:
        entry = entries.get(f"{root}data/{tensor.storage}")
        size = size_of(tensor.dtype)
        if entry is None or (tensor.offset + tensor.extent) * size > entry.size_bytes or not tensor.extent:
            continue
        if tensor.extent != tensor.num_values and not tensor.is_overlapping:
            num_strided += 1
            continue
        begin = entry.begin + tensor.offset * size
        scan = Scan(begin, begin + tensor.extent * size, tensor.dtype, name or tensor.name)
        by_entry.setdefault(entry.name, []).append(scan)
    if num_strided:
        found.note(f"NaN and Inf not looked for in {num_strided} tensors that are slices of larger ones")
    return {entry: tuple(_apart(sorted(scans, key=lambda scan: scan.begin))) for entry, scans in by_entry.items()}


def _apart(scans: list[Scan]) -> Iterator[Scan]:
    """The same bytes once: tied weights share a storage."""
    position = 0
    for scan in scans:
        begin = scan.begin
        if begin < position:
            size = size_of(scan.dtype)
            begin += -(-(position - begin) // size) * size
        if begin < scan.end:
            yield Scan(begin, scan.end, scan.dtype, scan.tensor)
            position = scan.end
