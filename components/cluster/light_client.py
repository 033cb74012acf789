"""Loads the `kubernetes` package without its seven hundred models and typed APIs, of which nothing here is used.

They take four fifths of its time to load, which a person at a terminal would wait for at every command. What is used,
its configuration and its HTTP pools, is loaded as it is.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_UNUSED = ("kubernetes.client.api", "kubernetes.client.models")


class _Unused(MetaPathFinder, Loader):
    """Modules in which every name is an empty class."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_UNUSED):
            return None
        return spec_from_loader(fullname, self, is_package=fullname in _UNUSED)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = _empty_class


def _empty_class(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def load_kubernetes() -> None:
    """Before anything of the package is imported. Does nothing when somebody else has loaded it already."""
    if "kubernetes" in sys.modules:
        return
    finder = _Unused()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("kubernetes.client")
        importlib.import_module("kubernetes.config")
    finally:
        sys.meta_path.remove(finder)
