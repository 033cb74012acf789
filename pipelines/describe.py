"""The meaning of each field, read from the docstring below it: for the JSON Schema, `init` and error messages.

Parsing source takes milliseconds that `validate` does not have to spare, so it happens only when somebody asks.
"""

import ast
import functools
import inspect
import textwrap
import typing
from typing import Any

from pydantic import BaseModel

from pipelines.faults import model_of
from pipelines.yaml_source import Path


@functools.cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Docstring of each field by its written name; a field without one has its parent's."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                    found[name] = " ".join(docstring.split())
    return {info.alias or name: found.get(name, "") for name, info in model.model_fields.items()}


def meaning_at(model: type[BaseModel], path: Path) -> str:
    """Meaning of the field at `path`; empty when there is no such field."""
    current: type[BaseModel] | None = model
    meaning = ""
    for part in path:
        if current is None:
            return ""
        meaning = meanings(current).get(str(part), "")
        fields = {info.alias or name: info for name, info in current.model_fields.items()}
        current = model_of(fields[str(part)].annotation) if str(part) in fields else None
    return meaning


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `model` for editors: every field with its meaning, unknown keys refused."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    classes = {cls.__name__: cls for cls in _models_in(model)}
    for name, body in [(model.__name__, schema), *schema.get("$defs", {}).items()]:
        for field, text in meanings(classes[name]).items():
            if text:
                body["properties"][field]["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _models_in(model: type[BaseModel]) -> list[type[BaseModel]]:
    inner = [found for info in model.model_fields.values() for found in _named_in(info.annotation)]
    return [model, *(found for cls in inner for found in _models_in(cls))]


def _named_in(annotation: Any) -> list[type[BaseModel]]:
    """Models in `annotation`, those in lists and mappings too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in typing.get_args(annotation) for found in _named_in(part)]
