"""Finds the tensors in the pickle of a torch file: name, dtype, shape, and where in which storage. Nothing is run."""

from dataclasses import dataclass, field
from typing import Any

from components.integrity.dtypes import of_torch_dtype, of_torch_storage, size_of
from components.integrity.pickle_policy import fault_of_call, fault_of_symbol, is_foreign
from components.integrity.pickle_reader import read_pickle, read_pickles
from components.integrity.pickle_values import BadPickle, Made, Pairs, Persistent, RunsCode, Symbol, TooLarge, make

_MAX_RANK = 64
_MAX_NAME_LENGTH = 200
_MAX_TENSORS = 200_000
_MAX_FOREIGN = 20


@dataclass(slots=True, eq=False)
class TensorView:
    """A tensor as the pickle describes it; offsets and strides count values of `dtype`."""

    storage: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    name: str = ""

    @property
    def num_values(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def extent(self) -> int:
        """Values from the first to the last one, both included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def is_overlapping(self) -> bool:
        """Whether several places share one value, as `expand` makes them: then no byte between is another's."""
        return self.extent < self.num_values


@dataclass(slots=True)
class TorchPickle:
    """What one data.pkl speaks of."""

    storages: dict[str, int] = field(default_factory=dict)
    """Size in bytes that each storage must have."""
    tensors: list[TensorView] = field(default_factory=list)
    value: Any = None
    foreign: tuple[str, ...] = ()
    """Classes of other packages that a full unpickling would import."""


def read_torch_pickle(data: bytes) -> TorchPickle:
    """The tensors in `data`, each named by its path. Raises BadPickle (also for one that would run code), TooLarge."""
    reader = _Reader()
    value = read_pickle(data, call=reader.call, admit=reader.admit)
    reader.collect(value)
    return TorchPickle(reader.storages, reader.named, value, tuple(sorted(reader.foreign)))


def code_in_pickles(data: bytes, *, count: int) -> RunsCode | None:
    """Whether one of `count` pickles, one behind the other, would run code; anything else about them is not judged."""
    reader = _Reader()
    try:
        read_pickles(data, count=count, call=reader.call_loosely, admit=reader.admit)
    except RunsCode as error:
        return error
    except (BadPickle, TooLarge):
        pass
    return None


class _Reader:
    def __init__(self) -> None:
        self.storages: dict[str, int] = {}
        self.foreign: set[str] = set()
        self.named: list[TensorView] = []
        self._found: list[TensorView] = []

    def admit(self, symbol: Symbol) -> None:
        fault = fault_of_symbol(symbol)
        if fault:
            raise RunsCode(fault, 0)
        if is_foreign(symbol) and len(self.foreign) < _MAX_FOREIGN:
            self.foreign.add(shown(str(symbol)))

    def call(self, func: Symbol, args: tuple[Any, ...]) -> Any:
        if func.module == "torch._tensor" and func.name == "_rebuild_from_type_v2" and len(args) >= 3:
            inner, inner_args = args[0], args[2]
            if isinstance(inner, Symbol) and inner.module == "torch._utils" and isinstance(inner_args, tuple):
                return self.call(inner, inner_args)
        if func.module == "torch._utils":
            if func.name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
                return self._tensor(args, is_untyped=func.name == "_rebuild_tensor_v3")
            if func.name.startswith("_rebuild_parameter") and args and isinstance(args[0], TensorView):
                return args[0]
        return self.call_loosely(func, args)

    def call_loosely(self, func: Symbol, args: tuple[Any, ...]) -> Any:
        fault = fault_of_call(func, args)
        if fault:
            raise RunsCode(fault, 0)
        return make(func, args)

    def _tensor(self, args: tuple[Any, ...], *, is_untyped: bool) -> Any:
        if len(args) < 4 or not isinstance(args[0], Persistent):
            raise BadPickle("builds a tensor from what is no storage", 0)
        key, dtype = self._storage(args[0])
        if is_untyped:
            named = args[6] if len(args) > 6 and isinstance(args[6], Symbol) else None
            found = of_torch_dtype(named.name) if named is not None else None
            if found is None:
                raise BadPickle("builds a tensor of an unknown dtype", 0)
            dtype = found
        offset, shape, strides = args[1], size_of_tensor(args[2]), size_of_tensor(args[3])
        if type(offset) is not int or not 0 <= offset < 1 << 62 or shape is None or strides is None:
            raise BadPickle("builds a tensor of an impossible shape", 0)
        if len(shape) != len(strides):
            raise BadPickle("builds a tensor whose shape and strides differ in length", 0)
        if len(self._found) >= _MAX_TENSORS:
            raise TooLarge
        tensor = TensorView(key, dtype, offset, shape, strides)
        self._found.append(tensor)
        return tensor

    def _storage(self, reference: Persistent) -> tuple[str, str]:
        """(key, dtype); notes how many bytes the storage must have."""
        id = reference.id
        if not (isinstance(id, tuple) and len(id) >= 5 and id[0] == "storage" and isinstance(id[1], Symbol)):
            raise BadPickle("refers to something that is no storage", 0)
        dtype, key, count = of_torch_storage(id[1].name), id[2], id[4]
        if dtype is None or not isinstance(key, str) or type(count) is not int or not 0 <= count < 1 << 62:
            raise BadPickle("refers to a storage of unknown kind", 0)
        size_bytes = count * size_of(dtype)
        if self.storages.setdefault(key, size_bytes) != size_bytes:
            raise BadPickle(f"gives storage {shown(key)} two sizes", 0)
        return key, dtype

    def collect(self, root: Any) -> None:
        """Walk the value without recursion, each object once, and name each tensor by the first path to it."""
        seen: set[int] = set()
        pending: list[tuple[Any, Any]] = [(root, None)]
        while pending:
            value, path = pending.pop()
            if isinstance(value, TensorView):
                if not value.name:
                    value.name = _spelled(path)
                    self.named.append(value)
                continue
            if isinstance(value, str | int | float | bytes | Symbol | None) or id(value) in seen:
                continue
            if len(seen) > 1_000_000 or len(pending) > 1_000_000:
                raise TooLarge
            seen.add(id(value))
            if isinstance(value, Persistent):
                self._storage(value)
                continue
            pending += [(child, (path, key) if key is not None else path) for key, child in reversed(_children(value))]
        for tensor in self._found:
            if not tensor.name:  # built, and thrown away again: its storage is in the file all the same
                tensor.name = f"storage {shown(tensor.storage)}"
                self.named.append(tensor)


def _children(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Pairs):
        return list(zip(value[::2], value[1::2], strict=True))
    if isinstance(value, Made):
        items = value.items or []
        return [(None, value.args), (None, value.state), *((None, item) for item in items)]
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    return []


def size_of_tensor(value: Any) -> tuple[int, ...] | None:
    """A shape: a tuple of counts, or a torch.Size of one; None when `value` is something else."""
    if isinstance(value, Made) and isinstance(value.args, tuple) and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, tuple) or len(value) > _MAX_RANK:
        return None
    return value if all(type(item) is int and 0 <= item < 1 << 62 for item in value) else None


def _spelled(path: Any) -> str:
    parts: list[str] = []
    length = 0
    while path is not None and length < _MAX_NAME_LENGTH:
        path, key = path
        parts.append(shown(str(key)) if isinstance(key, str | int | float | bool) else "?")
        length += len(parts[-1]) + 1
    return ".".join(reversed(parts))[-_MAX_NAME_LENGTH:] or "tensor"


def shown(text: str) -> str:
    """`text` as it may stand in a message."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_NAME_LENGTH])


def walk(value: Any, *keys: str) -> Any:
    """`value[key][key]...` through dictionaries; None when a key is missing."""
    for key in keys:
        if not isinstance(value, Pairs):
            return None
        value = next((value[i + 1] for i in range(0, len(value), 2) if value[i] == key), None)
    return value
