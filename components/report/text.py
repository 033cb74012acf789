"""Makes text that a program wrote harmless for a terminal: no escape sequences, no control characters."""

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links
    r"|\x1b[ -/]*[0-~]?"
)
# C0 but newline and tab, DEL, C1, and the characters that reorder what is shown.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    r"""`text` without escape sequences and control characters; lines and tabs stay. A `\r` ends a line, as it looks."""
    if not _CONTROLS.search(text):
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def plain_line(text: str) -> str:
    """`plain`, on one line."""
    return " ".join(plain(text).split())
