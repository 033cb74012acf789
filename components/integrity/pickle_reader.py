"""Reads a pickle without running it: no import, no call, bounded memory, time linear in its length.

A pickle is a program for a stack machine. This one executes what builds numbers, texts and containers; a global becomes
a `Symbol`, a call becomes a `Made`, and nothing in it is ever looked up. The reader of a format may turn the calls it
knows into values of its own (`call`).
"""

import struct
from collections.abc import Callable
from typing import Any

from components.integrity.pickle_values import BadPickle, Call, Made, Pairs, Persistent, Symbol, TooLarge, make

_MAX_LINE_BYTES = 1024
_MAX_NUMBER_BYTES = 1024
_KEPT_BYTES = 64
"""Longer byte strings are replaced by nothing: no format here needs them."""
_BUDGET_BYTES = 48 << 20
"""Memory that the values of one pickle may take, by estimate."""


def read_pickle(data: bytes, *, call: Call = make, admit: Callable[[Symbol], None] = lambda symbol: None) -> Any:
    """The value that `data` builds. `admit` sees every global once and may raise BadPickle.

    Raises BadPickle and TooLarge, and nothing else whatever `data` is.
    """
    return _Machine(data, call, admit).run()


def read_pickles(data: bytes, *, count: int, call: Call = make, admit: Callable[[Symbol], None]) -> list[Any]:
    """The first `count` of several pickles, one behind the other. Raises like `read_pickle`."""
    machine = _Machine(data, call, admit)
    return [machine.run() for _ in range(count)]


class _Machine:
    def __init__(self, data: bytes, call: Call, admit: Callable[[Symbol], None]) -> None:
        self._data, self._call, self._admit = data, call, admit
        self._at = self._op_at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
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
                if len(self._stack) != 1 or self._marks:
                    raise self._bad("stops with an untidy stack")
                self._memo = {}
                return self._stack.pop()
            operation = _OPERATIONS.get(code)
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

    def _push(self, value: Any, cost: int = 40) -> None:
        self._left -= cost
        if self._left < 0:
            raise TooLarge
        self._stack.append(value)

    def _take(self, num_bytes: int) -> bytes:
        begin, self._at = self._at, self._at + num_bytes
        if num_bytes < 0 or self._at > len(self._data):
            raise self._bad("ends inside a value")
        return self._data[begin : self._at]

    def _number(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(width), "little", signed=signed)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at, self._at + _MAX_LINE_BYTES)
        if end < 0:
            raise self._bad(f"contains a line that does not end within {_MAX_LINE_BYTES} bytes")
        text = self._data[self._at : end].decode("utf-8")
        self._at = end + 1
        return text

    def _pop_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marks.pop()
        return items

    def _symbol(self, module: Any, name: Any) -> Symbol:
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
        self._marks.append(self._stack)
        self._stack = []

    def text(self, width: int) -> None:
        raw = self._take(self._number(width))
        self._push(raw.decode("utf-8", "surrogatepass"), 60 + 2 * len(raw))

    def raw(self, width: int) -> None:
        raw = self._take(self._number(width))
        self._push(raw if len(raw) <= _KEPT_BYTES else b"", 120)

    def long(self, width: int) -> None:
        size = self._number(width)
        if size > _MAX_NUMBER_BYTES:
            raise self._bad(f"contains an integer of {size} bytes")
        self._push(self._number(size, signed=True), 40 + size)

    def line_number(self) -> None:
        text = self._line().rstrip("L")
        try:
            self._push({"00": False, "01": True}[text] if text in ("00", "01") else int(text), 40 + len(text))
        except ValueError:
            raise self._bad("contains an integer that is none") from None

    def line_float(self) -> None:
        try:
            self._push(float(self._line()))
        except ValueError:
            raise self._bad("contains a float that is none") from None

    def binary_float(self) -> None:
        self._push(struct.unpack(">d", self._take(8))[0])

    def tuple_of(self, count: int) -> None:
        if count > len(self._stack):
            raise self._bad("takes a value that is not there")
        items = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        self._push(items, 56 + 8 * count)

    def marked(self, make_it: Callable[[list[Any]], Any]) -> None:
        items = self._pop_mark()
        self._push(make_it(items), 80 + 16 * len(items))

    def dict_of(self) -> None:
        items = self._pop_mark()
        self._push(Pairs(), 80)
        self.set_items(items)

    def extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
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
        if len(items) % 2 or not isinstance(self._stack[-1], Pairs | Made):
            raise self._bad("sets entries of what is no dictionary")
        self.extend(items)

    def pop_two(self) -> list[Any]:
        value = self._stack.pop()
        return [self._stack.pop(), value]

    def memoize(self, index: int) -> None:
        self._spend(100)
        self._memo[index] = self._stack[-1]

    def recall(self, index: int) -> None:
        self._push(self._memo[index], 8)

    def line_index(self) -> int:
        try:
            return int(self._line())
        except ValueError:
            raise self._bad("contains a memo index that is none") from None

    def pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def stack_global(self) -> None:
        module, name = self.pop_two()
        self._push(self._symbol(module, name))

    def reduce(self) -> None:
        func, args = self.pop_two()
        self._push(self._made(func, args), 120)

    def new_extended(self) -> None:
        keywords = self._stack.pop()
        maker, args = self.pop_two()
        made = Made(maker, args)
        made.state = keywords
        self._push(made, 120)

    def build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if isinstance(target, Made):
            target.state = state if target.state is None else (target.state, state)
            self._spend(64)

    def old_object(self) -> None:
        items = self._pop_mark()
        self._push(self._made(items[0], tuple(items[1:])), 120 + 8 * len(items))

    def old_instance(self) -> None:
        symbol = self._symbol(self._line(), self._line())
        self.marked(lambda items: self._made(symbol, tuple(items)))

    def pop_mark(self) -> None:
        self._pop_mark()

    def protocol(self) -> None:
        if self._number(1) > 5:
            raise self._bad("is of a protocol that does not exist")

    def frame(self) -> None:
        if self._number(8) > len(self._data) - self._at:
            raise self._bad("is cut inside a frame")


_STOP = ord(".")
_Operation = Callable[[_Machine], None]
_OPERATIONS: dict[int, _Operation] = {
    0x80: _Machine.protocol,
    0x95: _Machine.frame,
    ord("("): _Machine.mark,
    ord("0"): _Machine.pop,
    ord("1"): _Machine.pop_mark,
    ord("2"): lambda m: m._push(m._stack[-1], 8),
    ord("N"): lambda m: m._push(None, 8),
    0x88: lambda m: m._push(True, 8),
    0x89: lambda m: m._push(False, 8),
    ord("I"): _Machine.line_number,
    ord("L"): _Machine.line_number,
    ord("J"): lambda m: m._push(m._number(4, signed=True)),
    ord("K"): lambda m: m._push(m._number(1), 8),
    ord("M"): lambda m: m._push(m._number(2)),
    0x8A: lambda m: m.long(1),
    0x8B: lambda m: m.long(4),
    ord("F"): _Machine.line_float,
    ord("G"): _Machine.binary_float,
    ord("S"): lambda m: m._push(m._line().strip("'\""), 200),
    ord("V"): lambda m: m._push(m._line(), 200),
    ord("X"): lambda m: m.text(4),
    0x8C: lambda m: m.text(1),
    0x8D: lambda m: m.text(8),
    ord("T"): lambda m: m.raw(4),
    ord("U"): lambda m: m.text(1),
    ord("B"): lambda m: m.raw(4),
    ord("C"): lambda m: m.raw(1),
    0x8E: lambda m: m.raw(8),
    0x96: lambda m: m.raw(8),
    ord("]"): lambda m: m._push([], 72),
    ord("}"): lambda m: m._push(Pairs(), 72),
    0x8F: lambda m: m._push([], 72),
    ord(")"): lambda m: m._push((), 8),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("t"): lambda m: m.marked(tuple),
    ord("l"): lambda m: m.marked(list),
    ord("d"): _Machine.dict_of,
    0x91: lambda m: m.marked(list),
    ord("a"): lambda m: m.extend([m._stack.pop()]),
    ord("e"): lambda m: m.extend(m._pop_mark()),
    0x90: lambda m: m.extend(m._pop_mark()),
    ord("s"): lambda m: m.set_items(m.pop_two()),
    ord("u"): lambda m: m.set_items(m._pop_mark()),
    ord("g"): lambda m: m.recall(m.line_index()),
    ord("h"): lambda m: m.recall(m._number(1)),
    ord("j"): lambda m: m.recall(m._number(4)),
    ord("p"): lambda m: m.memoize(m.line_index()),
    ord("q"): lambda m: m.memoize(m._number(1)),
    ord("r"): lambda m: m.memoize(m._number(4)),
    0x94: lambda m: m.memoize(len(m._memo)),
    ord("c"): lambda m: m._push(m._symbol(m._line(), m._line())),
    0x93: _Machine.stack_global,
    ord("R"): _Machine.reduce,
    0x81: _Machine.reduce,
    0x92: _Machine.new_extended,
    ord("b"): _Machine.build,
    ord("i"): _Machine.old_instance,
    ord("o"): _Machine.old_object,
    ord("P"): lambda m: m._push(Persistent(m._line()), 100),
    ord("Q"): lambda m: m._push(Persistent(m._stack.pop()), 100),
}
