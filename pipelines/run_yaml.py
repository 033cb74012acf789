"""A run description as commented YAML: every field with its meaning; fields at rest are commented out."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from pipelines.config import TrainConfig
from pipelines.describe import meanings
from pipelines.faults import model_of
from pipelines.sections import StageLimits

WIDTH = 110


def run_yaml(config: TrainConfig, *, title: str) -> str:
    """`config` as a run.yaml that reads back as the same description."""
    head = [*_comment(title), "# Check it: python pipelines/train.py validate -c FILE", ""]
    return "\n".join([*head, *_section(TrainConfig, config.as_json(), "")]) + "\n"


def _section(model: type[BaseModel], data: dict[str, Any], indent: str) -> Iterator[str]:
    # What every stage has comes after what only this one has.
    for name, info in sorted(model.model_fields.items(), key=lambda item: item[0] in StageLimits.model_fields):
        key = info.alias or name
        inner, value = model_of(info.annotation), data.get(key)
        if not indent and inner is not None:
            yield ""
        yield from _comment(meanings(model)[key] or _doc_of(inner), indent)
        if inner is not None and isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _section(inner, value, indent + "  ")
        elif value is None:
            yield f"{indent}# {key}:"
        else:
            yield f"{indent}{key}: {_value(value)}"


def _doc_of(model: type[BaseModel] | None) -> str:
    return " ".join((model.__doc__ or "").split()) if model else ""


def _comment(text: str, indent: str = "") -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent))]


def _value(value: Any) -> str:
    """One line: words as they are where YAML reads them back, everything else in quotes."""
    if isinstance(value, str):
        return value if _reads_back(value) else _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_value(key)}: {_value(item)}' for key, item in value.items())}}}"
    return json.dumps(value)


class _Quoting(yaml.SafeDumper):
    """Strings in the style that is asked for: Hera changes how every other dumper of the process writes them."""


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text))


def _quoted(text: str) -> str:
    # Not JSON's quotes: it writes characters beyond the first plane as surrogate pairs, which YAML refuses.
    quoted: str = yaml.dump(text, Dumper=_Quoting, default_style='"', allow_unicode=True, width=2**31 - 1)
    return quoted.rstrip("\n")


def _reads_back(text: str) -> bool:
    from pipelines.yaml_source import read_yaml

    # Inside a list, commas and brackets count as well.
    in_list, alone = read_yaml(f"[{text}]", name="").data, read_yaml(f"a: {text}", name="").data
    return bool(in_list == [text] and alone == {"a": text})
