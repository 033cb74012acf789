"""Which columns of a Parquet file are read, as what type of field, and which cannot be."""

from collections.abc import Iterator, Sequence
from typing import Any

from components.contracts.dataset import FieldType
from components.contracts.lists import some_of
from components.dataset.arrow import pyarrow

_SHOWN = 5


def roots_of(schema: Any, wanted: Sequence[str]) -> list[str]:
    """The columns in which what is wanted lies, as `a` for `a.b`; all when nothing is."""
    return [name for name in schema.names if not wanted or any(_is_below(want, name) for want in wanted)]


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """Whether a column, `a.b` of a struct, is one of those wanted or lies in one."""
    return not wanted or any(_is_below(name, want) for want in wanted)


def type_of(kind: Any) -> FieldType:
    """The type of a field that holds values of an Arrow type."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return type_of(kind.value_type)
    if _is_bytes(kind):
        return "bytes"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_integer(kind):
        return "int"
    return "float" if types.is_floating(kind) else "json"


def fault_of(schema: Any, wanted: Sequence[str], text_field: str | None) -> str:
    """Why rows of that schema cannot be read at all; empty if they can. `text_field` must be there and hold text."""
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    names = [name for name, _ in leaves]
    if text_field is not None:
        kinds = [kind for name, kind in leaves if name == text_field]
        if not kinds:
            return f"has no column {text_field!r}, its columns are {some_of(names, most=_SHOWN)}"
        if type_of(kinds[0]) not in ("text", "bytes"):
            return f"has {kinds[0]}, not text, in its column {text_field!r}"
        wanted = (text_field,)
    if twice := [name for name in dict.fromkeys(names) if is_wanted(name, wanted) and names.count(name) > 1]:
        return f"has more than one column called {twice[0]!r}"
    unusable = [f"{name!r} ({kind})" for name, kind in leaves if is_wanted(name, wanted) and not _is_usable(kind)]
    if not unusable:
        return ""
    said = f"has values that no field can hold in {', '.join(unusable)}"
    return f"{said}: name the fields to keep without them, or store them as text or numbers"


def _leaves(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    if not pyarrow.types.is_struct(kind):
        yield name, kind
        return
    for field in kind:
        yield from _leaves(f"{name}.{field.name}", field.type)


def _is_usable(kind: Any, *, is_within: bool = False) -> bool:
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _is_usable(kind.value_type, is_within=is_within)
    if types.is_struct(kind):
        return all(_is_usable(field.type, is_within=True) for field in kind)
    if types.is_map(kind):
        return _is_usable(kind.key_type, is_within=True) and _is_usable(kind.item_type, is_within=True)
    if types.is_nested(kind):
        return all(_is_usable(kind.field(place).type, is_within=True) for place in range(kind.num_fields))
    if _is_bytes(kind):
        return not is_within  # JSON holds no bytes
    return type_of(kind) != "json" or types.is_boolean(kind) or types.is_null(kind)


def _is_bytes(kind: Any) -> bool:
    types = pyarrow.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _is_below(wanted: str, name: str) -> bool:
    return wanted == name or wanted.startswith(f"{name}.")
