"""Our own code with one thing wrong, to see that the simulation notices."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Edit:
    """`old` is `new` in the source of `target`, a function or a method by its full name."""

    target: str
    old: str
    new: str


def apply_edits(monkeypatch: pytest.MonkeyPatch, *edits: Edit) -> None:
    """Put the mutant in place wherever the original is known by name."""
    for edit in edits:
        module, _, name = edit.target.partition(":")
        _put(monkeypatch, module, name, edit)


def _put(monkeypatch: pytest.MonkeyPatch, module: str, name: str, edit: Edit) -> None:
    owner: Any = sys.modules[module]
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = getattr(owner, last)
    mutant = _mutated(original, edit)
    monkeypatch.setattr(owner, last, mutant)
    for other in list(sys.modules.values()):
        if not outer and getattr(other, "__name__", "").startswith(("components.", "tests.")):
            for known, value in list(vars(other).items()):
                if value is original:
                    monkeypatch.setattr(other, known, mutant)


def _mutated(original: Callable[..., Any], edit: Edit) -> Callable[..., Any]:
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(edit.old) == 1, f"{edit.target} has changed: {edit.old!r}"
    scope: dict[str, Any] = {}
    code = compile(source.replace(edit.old, edit.new), f"mutant of {edit.target}", "exec")
    exec(code, original.__globals__, scope)
    mutant: Callable[..., Any] = scope[original.__name__]
    return mutant
