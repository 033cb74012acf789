"""Validation errors in people's words: where it stands, what was seen there, what to do about it."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from components.errors import Problem
from pipelines.yaml_source import Path, Source, show_path

_HINTS = {
    "experiment": "lowercase letters, digits and hyphens, starting with a letter, at most 40 characters",
    "model_version": "lowercase letters, digits, `.`, `_` and `-`, first and last a letter or digit",
    "min_driver": 'digits and dots in quotes, for example "550.54"',
}


def explain(error: ValidationError, source: Source, model: type[BaseModel]) -> list[Problem]:
    """Every fault of `error`, in the order of the file."""
    problems = []
    for item in error.errors():
        if item["type"] == "conflict":
            for field, seen, fix in item["ctx"]["conflicts"]:
                problems.append(Problem(_where(source, tuple(field.split("."))), seen, fix))
            continue
        path = tuple(part for part in item["loc"] if part != "[key]")
        seen, fix = _seen_and_fix(item, path, source, model)
        problems.append(Problem(_where(source, path), seen, fix))
    return problems


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Faults of the file by line, those of `--set` after them."""

    def line(problem: Problem) -> float:
        number = problem.where.partition(" ")[0].rpartition(":")[2]
        return int(number) if number.isdigit() else float("inf")

    return sorted(problems, key=line)


def _where(source: Source, path: Path) -> str:
    place, shown = source.place_of(path), show_path(path)
    return place if place.endswith(f" {shown}") else f"{place} {shown}".strip()


def _seen_and_fix(item: Any, path: Path, source: Source, model: type[BaseModel]) -> tuple[str, str]:
    kind, context, value = item["type"], item.get("ctx", {}), item["input"]
    name = path[-1] if path else ""
    if kind == "missing":
        meaning = _meaning(model, path)
        return "required, but missing", f"add {name}: {meaning}" if meaning else _how_to_add(str(name), model, path)
    if kind == "extra_forbidden":
        known = list(_fields_at(model, path[:-1]))
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        return "unknown key", f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    if kind == "value_error":
        seen, _, fix = str(context["error"]).partition("; ")
        return seen, fix
    if kind == "literal_error":
        return f"is {_show(value)}", f"write {context['expected'].replace(chr(39), '')}"
    if kind in ("string_pattern_mismatch", "string_too_long", "string_too_short"):
        length = f" ({len(value)} characters)" if kind == "string_too_long" else ""
        return f"is {_show(value)}{length}", f"write {_HINTS.get(str(name), _rule(item))}"
    if kind in ("string_type", "string_sub_type"):
        written = source.written.get(path)
        return f"is {_show(value)}, not a string", f'put it in quotes: "{written}"' if written else "write a string"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"is {_show(value)}, not a section", f"write its fields below it: {', '.join(_fields_at(model, path))}"
    if kind == "tuple_type":
        return f"is {_show(value)}, not a list", "write a list, for example [python, train.py]"
    return f"is {_show(value)}", _rule(item)


def _how_to_add(name: str, model: type[BaseModel], path: Path) -> str:
    return f"add the section {name}, with {', '.join(_fields_at(model, path))}" if path else f"add {name}"


def _rule(item: Any) -> str:
    """The library's own sentence, as an instruction."""
    context = item.get("ctx", {})
    match item["type"]:
        case "greater_than_equal":
            return f"set {context['ge']} or more"
        case "greater_than":
            return f"set more than {context['gt']}"
        case "less_than_equal":
            return f"set at most {context['le']}"
        case "less_than":
            return f"set less than {context['lt']}"
        case "int_type" | "int_from_float" | "int_parsing":
            return "write a whole number"
        case "float_type" | "float_parsing" | "finite_number":
            return "write a number"
        case "bool_type":
            return "write true or false"
        case "too_short" | "string_too_short":
            return "write at least one" if item["type"] == "too_short" else "at least one character"
    message: str = item["msg"]
    return message[:1].lower() + message[1:]


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if value is None:
        return "empty"
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The section in `Section`, `Section | None`, `Annotated[Section, ...]`; None for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return next((found for part in get_args(annotation) if (found := model_of(part))), None)
    return None


def _fields_at(model: type[BaseModel], path: Path) -> Iterable[str]:
    """Names of the fields of the section at `path`, as written."""
    current: type[BaseModel] | None = model
    for part in path:
        fields = {info.alias or name: info for name, info in current.model_fields.items()} if current else {}
        current = model_of(fields[str(part)].annotation) if str(part) in fields else None
    return [info.alias or name for name, info in current.model_fields.items()] if current else []


def _meaning(model: type[BaseModel], path: Path) -> str:
    from pipelines.describe import meaning_at

    return meaning_at(model, path).split(". ")[0].rstrip(".")
