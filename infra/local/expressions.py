"""The two expression languages of a manifest: `depends` of a DAG task and `retryStrategy.expression`.

Both are read completely before anything runs, so a mistake is found at the start and not after hours of training.
What Argo would accept and Argosy never writes (sprig, arithmetic, `and`/`or` as words) is refused with its column.

    depends      shard-merge && (preflight.Succeeded || preflight.Skipped)
    expression   asInt(lastRetry.exitCode) in [75, 80] || lastRetry.status == "Error"
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

TASK_RESULTS = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed")
"""What `depends` may ask of a task."""

LAST_RETRY = ("exitCode", "status", "duration", "message")
"""What a retry expression may ask of the attempt that just failed. All four are strings, as in Argo."""

Value = bool | int | float | str | tuple["Value", ...]
Kind = Literal["bool", "number", "string", "numbers", "strings"]
Leaf = TypeVar("Leaf")


class ExpressionError(ValueError):
    """The expression cannot be read, or mixes types, or a string given to asInt is no number."""


@dataclass(frozen=True)
class Depends:
    """A read `depends`. `tasks` are the tasks it names, in order of appearance."""

    text: str
    tasks: tuple[str, ...]
    _holds: Callable[[Mapping[str, frozenset[str]]], bool]

    def holds(self, results: Mapping[str, frozenset[str]]) -> bool:
        """Whether the task is to run. `results` maps every task in `tasks` to the TASK_RESULTS that hold for it."""
        return self._holds(results)


@dataclass(frozen=True)
class RetryExpression:
    """A read `retryStrategy.expression`."""

    text: str
    _allows: Callable[[Mapping[str, str]], Value]

    def allows(self, last_retry: Mapping[str, str]) -> bool:
        """Whether the attempt described by `last_retry` (keys LAST_RETRY) is to be repeated. Raises ExpressionError."""
        return bool(self._allows(last_retry))


def parse_depends(text: str) -> Depends:
    """Read a `depends`. A bare task means Succeeded, Skipped or Daemoned. Raises ExpressionError."""
    reader = _Reader(text, _DEPENDS_TOKENS)
    named: list[str] = []

    def leaf() -> Callable[[Mapping[str, frozenset[str]]], bool]:
        token = reader.take("task", "a task")
        task, _, result = token.partition(".")
        if result and result not in TASK_RESULTS:
            raise reader.error(f"{result!r} is no task result; one of {', '.join(TASK_RESULTS)}")
        if task not in named:
            named.append(task)
        wanted = frozenset([result]) if result else frozenset(["Succeeded", "Skipped", "Daemoned"])
        return lambda results: bool(results[task] & wanted)

    tree = _Logic(reader, leaf).whole()
    return Depends(text, tuple(named), tree)


def parse_retry(text: str) -> RetryExpression:
    """Read a retry expression. Raises ExpressionError, also when types do not fit: `lastRetry.exitCode == 75`."""
    reader = _Reader(text, _RETRY_TOKENS)
    return RetryExpression(text, _Logic(reader, _Comparisons(reader).comparison).whole())


_DEPENDS_TOKENS = re.compile(r"\s*(?:(?P<task>[A-Za-z0-9][-A-Za-z0-9]*(?:\.[A-Za-z]+)?)|(?P<operator>&&|\|\||[!()]))")
_RETRY_TOKENS = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<operator>&&|\|\||==|!=|<=|>=|[!<>()\[\],-]))""",
    re.VERBOSE,
)


class _Reader:
    """Tokens of one expression, read left to right."""

    def __init__(self, text: str, grammar: re.Pattern[str]) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = grammar.match(text, position)
            if match is None or match.lastgroup is None:
                column = position + len(text[position:]) - len(text[position:].lstrip())
                raise ExpressionError(f"cannot read {text[column : column + 12]!r} at column {column + 1} of {text!r}")
            self._tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            position = match.end()
        self._next = 0

    def skip(self, token: str) -> bool:
        """Step over `token` when it is next."""
        if self._next < len(self._tokens) and self._tokens[self._next][1] == token:
            if self._tokens[self._next][0] == "string":
                return False
            self._next += 1
            return True
        return False

    def kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def take(self, kind: str, wanted: str) -> str:
        if self.kind() != kind:
            raise self.error(f"{wanted} is missing")
        self._next += 1
        return self._tokens[self._next - 1][1]

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.error(f"{token!r} is missing")

    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def error(self, reason: str) -> ExpressionError:
        column = self._tokens[self._next][2] + 1 if self._next < len(self._tokens) else len(self._text) + 1
        return ExpressionError(f"{reason} at column {column} of {self._text!r}")


class _Logic(Generic[Leaf]):
    """`||` binds weaker than `&&`, that weaker than `!`; parentheses group."""

    def __init__(self, reader: _Reader, leaf: Callable[[], Callable[[Leaf], bool]]) -> None:
        self._reader, self._leaf = reader, leaf

    def whole(self) -> Callable[[Leaf], bool]:
        tree = self._any()
        if not self._reader.at_end():
            raise self._reader.error("nothing more is expected")
        return tree

    def _any(self) -> Callable[[Leaf], bool]:
        parts = [self._all()]
        while self._reader.skip("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda scope: any(part(scope) for part in parts)

    def _all(self) -> Callable[[Leaf], bool]:
        parts = [self._single()]
        while self._reader.skip("&&"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else lambda scope: all(part(scope) for part in parts)

    def _single(self) -> Callable[[Leaf], bool]:
        if self._reader.skip("!"):
            negated = self._single()
            return lambda scope: not negated(scope)
        if self._reader.skip("("):
            inner = self._any()
            self._reader.expect(")")
            return inner
        return self._leaf()


@dataclass(frozen=True)
class _Operand:
    kind: Kind
    of: Callable[[Mapping[str, str]], Value]


class _Comparisons:
    """The leaves of a retry expression: comparisons, typed when they are read."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    def comparison(self) -> Callable[[Mapping[str, str]], bool]:
        left = self._operand()
        for symbol, compare in _COMPARE.items():
            if self._reader.skip(symbol):
                right = self._operand()
                self._check(symbol, left.kind, right.kind)
                return lambda scope: compare(left.of(scope), right.of(scope))
        if left.kind != "bool":
            raise self._reader.error("a comparison is missing")
        return lambda scope: bool(left.of(scope))

    def _check(self, symbol: str, left: Kind, right: Kind) -> None:
        if symbol == "in":
            fits = (left, right) in (("number", "numbers"), ("string", "strings"))
        elif symbol == "contains":
            fits = left == right == "string"
        elif symbol in ("==", "!="):
            fits = left == right and left in ("number", "string", "bool")
        else:
            fits = left == right and left in ("number", "string")
        if not fits:
            hint = "; write asInt(…) around the string" if {left, right} <= {"string", "number", "numbers"} else ""
            raise self._reader.error(f"cannot compare {left} {symbol} {right}{hint}, before the end of that comparison")

    def _operand(self) -> _Operand:
        kind = self._reader.kind()
        if kind == "number" or self._reader.skip("-"):
            number = self._reader.take("number", "a number")
            sign = 1 if kind == "number" else -1
            value = sign * (float(number) if "." in number else int(number))
            return _Operand("number", lambda scope: value)
        if kind == "string":
            text = _unquote(self._reader.take("string", "a string"))
            return _Operand("string", lambda scope: text)
        if self._reader.skip("["):
            return self._list()
        word = self._reader.take("word", "a value")
        if word in ("true", "false"):
            return _Operand("bool", lambda scope: word == "true")
        if word == "asInt":
            return self._as_int()
        scope_name, _, field = word.partition(".")
        if scope_name == "lastRetry" and field in LAST_RETRY:
            return _Operand("string", lambda scope: scope[field])
        raise self._reader.error(f"{word!r} is not known (lastRetry.{{{','.join(LAST_RETRY)}}}, asInt), before that")

    def _list(self) -> _Operand:
        items = [self._operand()]
        while self._reader.skip(","):
            items.append(self._operand())
        self._reader.expect("]")
        if {item.kind for item in items} == {"number"}:
            return _Operand("numbers", lambda scope: tuple(item.of(scope) for item in items))
        if {item.kind for item in items} == {"string"}:
            return _Operand("strings", lambda scope: tuple(item.of(scope) for item in items))
        raise self._reader.error("a list holds numbers only or strings only")

    def _as_int(self) -> _Operand:
        self._reader.expect("(")
        inner = self._operand()
        self._reader.expect(")")
        if inner.kind not in ("string", "number"):
            raise self._reader.error(f"asInt takes a string, not {inner.kind}")
        return _Operand("number", lambda scope: _int(inner.of(scope)))


def _compare_in(left: Value, right: Value) -> bool:
    return isinstance(right, tuple) and left in right


def _compare_less(left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left < right
    raise ExpressionError(f"cannot order {left!r} and {right!r}")


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<=": lambda left, right: not _compare_less(right, left),
    ">=": lambda left, right: not _compare_less(left, right),
    "<": _compare_less,
    ">": lambda left, right: _compare_less(right, left),
    "in": _compare_in,
    "contains": lambda left, right: isinstance(left, str) and isinstance(right, str) and right in left,
}


def _int(value: Value) -> int:
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?\d+", value):
            return int(value)
        raise ExpressionError(f"asInt({value!r}): not a whole number")
    return int(value) if isinstance(value, (int, float)) else 0


def _unquote(literal: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), literal[1:-1])
