"""Reads a pickle without running it: no import, no call, bounded memory, time linear in its length.

A pickle is a program for a stack machine. This one executes what builds numbers, texts and containers; a global becomes
a `Symbol`, a call becomes a `Made`, and nothing in it is ever looked up. The reader of a format may turn the calls it
knows into values of its own (`call`).
"""

from collections.abc import Callable
from typing import Any

from components.integrity.pickle_machine import Machine, Operation
from components.integrity.pickle_values import Call, Pairs, Persistent, Symbol, make


def read_pickle(data: bytes, *, call: Call = make, admit: Callable[[Symbol], None] = lambda symbol: None) -> Any:
    """The value that `data` builds. `admit` sees every global once and may raise BadPickle.

    Raises BadPickle and TooLarge, and nothing else whatever `data` is.
    """
    return Machine(data, call, admit, _OPERATIONS).run()


def read_pickles(data: bytes, *, count: int, call: Call = make, admit: Callable[[Symbol], None]) -> list[Any]:
    """The first `count` of several pickles, one behind the other. Raises like `read_pickle`."""
    machine = Machine(data, call, admit, _OPERATIONS)
    return [machine.run() for _ in range(count)]


_OPERATIONS: dict[int, Operation] = {
    0x80: Machine.protocol,
    0x95: Machine.frame,
    ord("("): Machine.mark,
    ord("0"): Machine.pop,
    ord("1"): Machine.drop_marked,
    ord("2"): lambda m: m.push(m.stack[-1], 8),
    ord("N"): lambda m: m.push(None, 8),
    0x88: lambda m: m.push(True, 8),
    0x89: lambda m: m.push(False, 8),
    ord("I"): Machine.line_number,
    ord("L"): Machine.line_number,
    ord("J"): lambda m: m.push(m.number(4, signed=True)),
    ord("K"): lambda m: m.push(m.number(1), 8),
    ord("M"): lambda m: m.push(m.number(2)),
    0x8A: lambda m: m.long(1),
    0x8B: lambda m: m.long(4),
    ord("F"): Machine.line_float,
    ord("G"): Machine.binary_float,
    ord("S"): lambda m: m.push(m.line().strip("'\""), 200),
    ord("V"): lambda m: m.push(m.line("raw-unicode-escape"), 200),
    ord("X"): lambda m: m.text(4),
    0x8C: lambda m: m.text(1),
    0x8D: lambda m: m.text(8),
    ord("T"): lambda m: m.raw(4),
    ord("U"): lambda m: m.text(1),
    ord("B"): lambda m: m.raw(4),
    ord("C"): lambda m: m.raw(1),
    0x8E: lambda m: m.raw(8),
    0x96: lambda m: m.raw(8),
    ord("]"): lambda m: m.push([], 72),
    ord("}"): lambda m: m.push(Pairs(), 72),
    0x8F: lambda m: m.push([], 72),
    ord(")"): lambda m: m.push((), 8),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("t"): lambda m: m.marked(tuple),
    ord("l"): lambda m: m.marked(list),
    ord("d"): Machine.dict_of,
    0x91: lambda m: m.marked(list),
    ord("a"): lambda m: m.extend([m.stack.pop()]),
    ord("e"): lambda m: m.extend(m.pop_mark()),
    0x90: lambda m: m.extend(m.pop_mark()),
    ord("s"): lambda m: m.set_items(m.pop_two()),
    ord("u"): lambda m: m.set_items(m.pop_mark()),
    ord("g"): lambda m: m.recall(m.line_index()),
    ord("h"): lambda m: m.recall(m.number(1)),
    ord("j"): lambda m: m.recall(m.number(4)),
    ord("p"): lambda m: m.memoize(m.line_index()),
    ord("q"): lambda m: m.memoize(m.number(1)),
    ord("r"): lambda m: m.memoize(m.number(4)),
    0x94: lambda m: m.memoize(len(m.memo)),
    ord("c"): lambda m: m.push(m.symbol(m.line(), m.line())),
    0x93: Machine.stack_global,
    ord("R"): Machine.reduce,
    0x81: Machine.reduce,
    0x92: Machine.new_extended,
    ord("b"): Machine.build,
    ord("i"): Machine.old_instance,
    ord("o"): Machine.old_object,
    ord("P"): lambda m: m.push(Persistent(m.line()), 100),
    ord("Q"): lambda m: m.push(Persistent(m.stack.pop()), 100),
}
