"""The stack machine that a pickle is a program for, with everything taken out of it that could run something.

Every value it holds is paid for from one budget, every length is bounded before it is used.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from components.integrity.pickle_values import BadPickle, Call, Made, Pairs, Symbol, TooLarge

_MAX_LINE_BYTES = 1024
_MAX_NUMBER_BYTES = 1024
_KEPT_BYTES = 64
"""Longer byte strings are replaced by nothing: no format here needs them."""
_BUDGET_BYTES = 64 << 20
"""Memory that the values of one pickle may take, by estimate."""
_STOP = ord(".")


class Machine:
    """One run over `data`; `operations` says what each byte does."""

    def __init__(
        self, data: bytes, call: Call, admit: Callable[[Symbol], None], operations: "Mapping[int, Operation]"
    ) -> None:
        self._operations = operations
        self._data, self._call, self._admit = data, call, admit
        self._at = self._op_at = 0
        self.stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self._symbols: dict[tuple[str, str], Symbol] = {}
        self._left = _BUDGET_BYTES

    def run(self) -> Any:
        data, size = self._data, len(self._data)
        while True:
            self._op_at = at = self._at
            if at >= size:
                raise self._bad("ends before its STOP")
            self._at = at + 1
            code = data[at]
            if code == _STOP:
                if len(self.stack) != 1 or self._marks:
                    raise self._bad("stops with an untidy stack")
                self.memo = {}
                return self.stack.pop()
            operation = self._operations.get(code)
            if operation is None:
                raise self._bad(f"contains the byte {code:#04x}, which is no operation that is read here")
            try:
                operation(self)
            except (IndexError, KeyError):
                raise self._bad("takes a value that is not there") from None
            except (UnicodeDecodeError, OverflowError):
                raise self._bad("contains a text or number that cannot be read") from None

    # what operations are made of

    def _bad(self, problem: str) -> BadPickle:
        return BadPickle(problem, self._op_at)

    def _spend(self, num_bytes: int) -> None:
        self._left -= num_bytes
        if self._left < 0:
            raise TooLarge

    def push(self, value: Any, cost: int = 40) -> None:
        self._left -= cost
        if self._left < 0:
            raise TooLarge
        self.stack.append(value)

    def take(self, num_bytes: int) -> bytes:
        begin, self._at = self._at, self._at + num_bytes
        if num_bytes < 0 or self._at > len(self._data):
            raise self._bad("ends inside a value")
        return self._data[begin : self._at]

    def number(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(width), "little", signed=signed)

    def line(self, encoding: str = "utf-8") -> str:
        end = self._data.find(b"\n", self._at, self._at + _MAX_LINE_BYTES)
        if end < 0 and len(self._data) - self._at <= _MAX_LINE_BYTES:
            raise self._bad("ends inside a name or number")
        if end < 0:
            raise self._bad(f"contains a line that does not end within {_MAX_LINE_BYTES} bytes")
        text = self._data[self._at : end].decode(encoding)
        self._at = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._marks.pop()
        return items

    def symbol(self, module: Any, name: Any) -> Symbol:
        if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > _MAX_LINE_BYTES:
            raise self._bad("names a global that is not a name")
        symbol = self._symbols.get((module, name))
        if symbol is None:
            symbol = self._symbols[module, name] = Symbol(module, name)
            self._spend(400)
            self._asking(lambda: self._admit(symbol))
        return symbol

    def _made(self, maker: Any, args: Any) -> Any:
        if isinstance(maker, Symbol) and isinstance(args, tuple):
            return self._asking(lambda: self._call(maker, args))
        return Made(maker, args)

    def _asking(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except BadPickle as error:
            raise type(error)(error.problem, self._op_at) from None

    # operations

    def mark(self) -> None:
        self._spend(120)
        self._marks.append(self.stack)
        self.stack = []

    def text(self, width: int) -> None:
        raw = self.take(self.number(width))
        # One wide letter widens them all, to four bytes each.
        self.push(raw.decode("utf-8", "surrogatepass"), 60 + len(raw) * (1 if raw.isascii() else 4))

    def raw(self, width: int) -> None:
        raw = self.take(self.number(width))
        self.push(raw if len(raw) <= _KEPT_BYTES else b"", 120)

    def long(self, width: int) -> None:
        size = self.number(width)
        if size > _MAX_NUMBER_BYTES:
            raise self._bad(f"contains an integer of {size} bytes")
        self.push(self.number(size, signed=True), 40 + size)

    def line_number(self) -> None:
        text = self.line().rstrip("L")
        try:
            self.push({"00": False, "01": True}[text] if text in ("00", "01") else int(text), 40 + len(text))
        except ValueError:
            raise self._bad("contains an integer that is none") from None

    def line_float(self) -> None:
        try:
            self.push(float(self.line()))
        except ValueError:
            raise self._bad("contains a float that is none") from None

    def binary_float(self) -> None:
        self.push(struct.unpack(">d", self.take(8))[0])

    def tuple_of(self, count: int) -> None:
        if count > len(self.stack):
            raise self._bad("takes a value that is not there")
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        self.push(items, 56 + 8 * count)

    def marked(self, make_it: Callable[[list[Any]], Any]) -> None:
        items = self.pop_mark()
        self.push(make_it(items), 80 + 16 * len(items))

    def dict_of(self) -> None:
        items = self.pop_mark()
        self.push(Pairs(), 80)
        self.set_items(items)

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        self._spend(16 * len(items) + 16)
        if isinstance(target, Made):
            if target.items is None:
                target.items = []
                self._spend(100)
            target.items += items
        elif isinstance(target, list):
            target += items
        else:
            raise self._bad("adds entries to what is no container")

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2 or not isinstance(self.stack[-1], Pairs | Made):
            raise self._bad("sets entries of what is no dictionary")
        self.extend(items)

    def pop_two(self) -> list[Any]:
        value = self.stack.pop()
        return [self.stack.pop(), value]

    def memoize(self, index: int) -> None:
        self._spend(80)
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        self.push(self.memo[index], 8)

    def line_index(self) -> int:
        try:
            return int(self.line())
        except ValueError:
            raise self._bad("contains a memo index that is none") from None

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def stack_global(self) -> None:
        module, name = self.pop_two()
        self.push(self.symbol(module, name))

    def reduce(self) -> None:
        func, args = self.pop_two()
        made = self._made(func, args)
        self.push(made, 88 if isinstance(made, Made) else 8)

    def new_extended(self) -> None:
        keywords = self.stack.pop()
        maker, args = self.pop_two()
        made = Made(maker, args)
        made.state = keywords
        self.push(made, 120)

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Made):
            if target.state is not None:
                state = (target.state, state)
                self._spend(72)
            target.state = state

    def old_object(self) -> None:
        items = self.pop_mark()
        self.push(self._made(items[0], tuple(items[1:])), 120 + 8 * len(items))

    def old_instance(self) -> None:
        symbol = self.symbol(self.line(), self.line())
        self.marked(lambda items: self._made(symbol, tuple(items)))

    def drop_marked(self) -> None:
        self.pop_mark()

    def protocol(self) -> None:
        if self.number(1) > 5:
            raise self._bad("is of a protocol that does not exist")

    def frame(self) -> None:
        if self.number(8) > len(self._data) - self._at:
            raise self._bad("is cut inside a frame")


Operation = Callable[[Machine], None]
