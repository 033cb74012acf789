"""Turns what a rank writes, whatever bytes they are, into log lines; keeps its last words."""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

MAX_LINE_BYTES = 16 << 10
"""A longer line is cut into several: nothing is dropped, and nothing waits for an end that never comes."""

_NUM_LAST_LINES = 20
_LAST_LINE_CHARS = 500
_LEVELS = ("debug", "info", "warning", "error")

# C0 and C1 controls but tab, line and paragraph separators, marks that reorder text: they would act on a terminal.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe_text(raw: bytes) -> str:
    r"""`raw` as text that can be shown anywhere: what is not UTF-8 and what a terminal obeys is spelled out, `\x1b`."""
    return _spelled(raw.decode("utf-8", "backslashreplace"))


class LineCutter:
    r"""Cuts bytes into lines at \n, \r\n and \r, across pieces."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """What has come of a line that is not over."""
        return self._rest

    def feed(self, data: bytes) -> list[bytes]:
        lines = (self._rest + data).splitlines(keepends=True)
        # A \r at the very end may be the first half of \r\n.
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        pieces = [piece for line in lines for piece in _pieces(line.rstrip(b"\r\n"))]
        if len(self._rest) > MAX_LINE_BYTES:
            *whole, self._rest = _pieces(self._rest)
            pieces += whole
        return pieces

    def end(self) -> list[bytes]:
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return [rest] if rest else []


class RankOutput:
    """Everything one rank writes in one attempt."""

    def __init__(self, *, fields: Mapping[str, Any], write: Callable[[bytes], None]) -> None:
        """`fields` go into every line; `write` takes whole lines, each a JSON object."""
        self._cutters = {"stdout": LineCutter(), "stderr": LineCutter()}
        self._fields = dict(fields)
        self._tails = {name: _members({"stream": name, **fields}) for name in self._cutters}
        self._write = write
        self._last: deque[bytes] = deque(maxlen=_NUM_LAST_LINES)
        self.num_bytes = 0

    def feed(self, stream: str, data: bytes, *, at: str) -> None:
        self.num_bytes += len(data)
        self._log(stream, self._cutters[stream].feed(data), at)

    def end(self, *, at: str) -> None:
        """Nothing more will come."""
        for stream, cutter in self._cutters.items():
            self._log(stream, cutter.end(), at)

    def last_lines(self) -> tuple[str, ...]:
        """At most 20 lines of 500 characters, an unfinished one included."""
        rests = [cutter.rest for cutter in self._cutters.values() if cutter.rest]
        lines = [*self._last, *rests][-_NUM_LAST_LINES:]
        return tuple(safe_text(line[: 4 * _LAST_LINE_CHARS])[:_LAST_LINE_CHARS] for line in lines)

    def _log(self, stream: str, lines: list[bytes], at: str) -> None:
        if not lines:
            return
        self._last.extend(line for line in lines[-_NUM_LAST_LINES:])
        head, tail = f'{{"at":"{at}","level":"info","message":', self._tails[stream]
        texts = []
        for line in lines:
            structured = self._structured(line, stream, at) if line.startswith(b'{"') else None
            texts.append(structured or head + json.dumps(safe_text(line), ensure_ascii=False) + tail)
        self._write("".join(texts).encode())

    def _structured(self, line: bytes, stream: str, at: str) -> str | None:
        """A line that is a log line already keeps its level, time and fields; who wrote it is ours to say."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or not isinstance(value.get("message"), str):
            return None
        level = value.get("level")
        own = {_spelled(key): _plain(item) for key, item in value.items() if key not in ("message", "level", "at")}
        fields = {
            "at": _spelled(value["at"]) if isinstance(value.get("at"), str) else at,
            "level": level if level in _LEVELS else "info", "message": _spelled(value["message"]),
            **own, "stream": stream, **self._fields,
        }  # fmt: skip
        return json.dumps(fields, ensure_ascii=False) + "\n"


def _spelled(text: str) -> str:
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda found: _spell(ord(found[0])), text)


def _spell(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _plain(value: object) -> object:
    """A field's value without anything a terminal would obey, and without NaN and infinity, which are not JSON."""
    if isinstance(value, str):
        return _spelled(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _spelled(json.dumps(value))


def _pieces(line: bytes) -> list[bytes]:
    if len(line) <= MAX_LINE_BYTES:
        return [line]
    pieces, begin = [], 0
    while len(line) - begin > MAX_LINE_BYTES:
        end = begin + MAX_LINE_BYTES
        while end > begin + MAX_LINE_BYTES - 4 and line[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        pieces.append(line[begin:end])
        begin = end
    return [*pieces, line[begin:]]


def _members(fields: Mapping[str, Any]) -> str:
    """The end of a line that has begun: more members, and the brace."""
    return f",{json.dumps(fields, ensure_ascii=False)[1:]}\n"
