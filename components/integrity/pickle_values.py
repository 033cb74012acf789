"""What reading a pickle without running it yields beside numbers, texts, lists and tuples, and how it fails."""

from collections.abc import Callable
from typing import Any


class BadPickle(ValueError):
    """It is not a pickle, or one that nobody honest writes. `offset` counts from its first byte."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.offset = problem, offset


class RunsCode(BadPickle):
    """Loading it would run a program."""


class TooLarge(Exception):
    """It may be in order, but looking into it would take more memory than a verifier may use."""


class Symbol:
    """The name of a class or function; what it stands for is not known here."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Made:
    """The result of a call that was not made. `state` and `items` are what was set on it afterwards."""

    __slots__ = ("args", "items", "maker", "state")

    def __init__(self, maker: Any, args: Any) -> None:
        self.maker, self.args = maker, args
        self.state: Any = None
        self.items: list[Any] | None = None


class Persistent:
    """A reference to something outside the pickle, such as a tensor's storage."""

    __slots__ = ("id",)

    def __init__(self, id: Any) -> None:
        self.id = id


class Pairs(list[Any]):
    """A dictionary as key, value, key, value, ...: hashing keys from a stranger could take for ever."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


Call = Callable[[Symbol, tuple[Any, ...]], Any]


def make(func: Symbol, args: tuple[Any, ...]) -> Any:
    """The default for `call`: an OrderedDict is a dictionary, everything else a `Made`."""
    if func.module == "collections" and func.name == "OrderedDict" and not args:
        return Pairs()
    return Made(func, args)
