"""YAML as data plus the place of every value, so that an error can name file, line and field."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from components.errors import Problem

Path = tuple[str | int, ...]

# libyaml's parser is ten times as fast; the pure one reads the same.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PREFIX = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_MAX_VALUES, _MAX_DEPTH = 20_000, 32
_FORBIDDEN = re.compile("[\ud800-\udfff]")


@dataclass
class Source:
    """Plain data, where each value stands, how each scalar was written, and what is wrong with the text itself."""

    data: Any = None
    places: dict[Path, str] = field(default_factory=dict)
    """Where a value stands, for people: `run.yaml:12` or `--set launch.num_nodes`."""
    written: dict[Path, str] = field(default_factory=dict)
    """A scalar as it was written, before YAML made a number or a boolean of it."""
    problems: list[Problem] = field(default_factory=list)

    def place_of(self, path: Path) -> str:
        """Where `path` stands, or the closest section around it that is written down."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return ""

    def override(self, path: tuple[str, ...], other: "Source", place: str) -> None:
        """Replace the value at `path` by `other`, as `--set` does; sections on the way are made when missing."""
        holder = self.data
        for index, name in enumerate(path[:-1]):
            if name not in holder:
                self.places[path[: index + 1]] = place  # a section nobody wrote is this override's doing
            inner = holder.setdefault(name, {})
            if not isinstance(inner, dict):
                outer = ".".join(path[: index + 1])
                self.problems.append(
                    Problem(place, f"{outer} is {inner!r}, not a section", f"set {outer} as a whole first")
                )
                return
            holder = inner
        holder[path[-1]] = other.data
        for table in (self.places, self.written):
            for known in [known for known in table if known[: len(path)] == path]:
                del table[known]
        self.places[path] = place
        self.written.update({path + inner: text for inner, text in other.written.items()})
        self.problems.extend(other.problems)


def read_yaml(text: str, *, name: str, has_lines: bool = True) -> Source:
    """Parse one YAML document. Faults of the text (syntax, duplicate keys, odd tags) are collected, never raised.

    Places are `<name>:<line>`, or just `<name>` when lines say nothing (a value on the command line).
    """

    def place(mark: Any) -> str:
        return f"{name}:{mark.line + 1}" if has_lines else name

    source = Source()
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = place(mark) if mark else name
        what = ", ".join(part for part in (error.context, error.problem) if part)
        source.problems.append(Problem(where, f"not valid YAML: {what}", _syntax_hint(text, mark)))
        return source
    except (yaml.YAMLError, UnicodeError) as error:
        source.problems.append(Problem(name, f"not valid YAML: {str(error).splitlines()[0]}"))
        return source
    if node is not None:
        source.data = _Builder(source, place).build(node, ())
    elif has_lines:
        source.places[()] = f"{name}:1"  # an empty file lacks everything on its first line
    return source


class _Builder:
    def __init__(self, source: Source, place: Callable[[Any], str]) -> None:
        self.source, self.place = source, place
        self.open_nodes: set[int] = set()
        self.num_values = 0

    def build(self, node: yaml.Node, path: Path) -> Any:
        place = self.place(node.start_mark)
        self.source.places.setdefault(path, place)  # a key's line, when there is one, is the better answer
        self.num_values += 1
        if self.num_values > _MAX_VALUES:
            if self.num_values == _MAX_VALUES + 1:
                self.refuse(place, path, f"more than {_MAX_VALUES} values", "write fewer; aliases count each time")
            return None
        if id(node) in self.open_nodes or len(path) > _MAX_DEPTH:
            self.refuse(place, path[:3], "an alias that contains itself, or very deep nesting", "write it out flat")
            return None
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
            return self.scalar(node, path, place)
        finally:
            self.open_nodes.discard(id(node))

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            place = self.place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.refuse(place, path, "a key that is not plain text", "write `name: value`")
                continue
            name = key.value  # as written: YAML 1.1 would turn `on` into True
            if name in lines:
                self.refuse(place, (*path, name), f"duplicate key, first on line {lines[name]}", "keep one")
                continue
            lines[name] = key.start_mark.line + 1
            self.source.places[(*path, name)] = place
            data[name] = self.build(value, (*path, name))
        return data

    def scalar(self, node: yaml.Node, path: Path, place: str) -> Any:
        text, kind = node.value, node.tag.removeprefix(_PREFIX)
        self.source.written[path] = text
        if _FORBIDDEN.search(text):
            self.refuse(place, path, "half a surrogate pair", "write the character itself")
            return ""
        if kind in ("str", "timestamp", "value"):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("yes", "true", "on")
        if kind == "int":
            # 010, 0x10 and 1:30 are numbers in YAML 1.1 and traps to everybody else: they stay text.
            return int(text.replace("_", "")) if _INTEGER.fullmatch(text) else text
        if kind == "float":
            try:
                return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                return text
        self.refuse(place, path, f"the YAML tag {node.tag}", "write plain text, a number, a list or a section")
        return None

    def refuse(self, place: str, path: Path, seen: str, fix: str) -> None:
        self.source.problems.append(Problem(f"{place} {show_path(path)}".rstrip(), seen, fix))


def show_path(path: Path) -> str:
    """('launch', 'command', 2) -> `launch.command[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _syntax_hint(text: str, mark: Any) -> str:
    lines = text.splitlines()
    near: Iterator[int] = iter((mark.line, mark.line - 1)) if mark else iter(())
    for number in near:
        if 0 <= number < len(lines) and "\t" in lines[number][: len(lines[number]) - len(lines[number].lstrip())]:
            return "indent with spaces, not tabs"
    if mark and mark.line < len(lines):
        return f"look at: {lines[mark.line].strip()[:80]}"
    return "look at the end of the file: something is not closed"
