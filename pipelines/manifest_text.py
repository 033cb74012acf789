"""A manifest as text: the same bytes for the same manifest, and the same values for every YAML reader."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

# Text that no YAML version reads as anything but a string. Everything else is quoted: `1e3` is a string to PyYAML and a
# number to Argo's parser, `y` is a string to one and true to another.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    pass


def _string(dumper: Any, text: str) -> Any:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")


_Dumper.add_representer(str, _string)


def to_yaml(manifest: Mapping[str, Any]) -> str:
    """YAML in the manifest's own order, one line a value."""
    text: str = yaml.dump(
        manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=2**31 - 1, allow_unicode=False
    )
    return text


def to_json(manifest: Mapping[str, Any]) -> str:
    """JSON in the manifest's own order, indented."""
    return json.dumps(manifest, indent=2) + "\n"
