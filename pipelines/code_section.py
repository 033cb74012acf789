"""The folder of code that travels with a run, as a section of the run description."""

import posixpath
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from pipelines.field_types import Bytes, Section, Text

ALWAYS_EXCLUDED = (
    ".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".venv/", "venv/", ".mypy_cache/", ".ruff_cache/",
    ".pytest_cache/", ".ipynb_checkpoints/", ".DS_Store",
)  # fmt: skip
"""Before the description's own patterns, which can take one back: `!venv/`."""


def _pattern(text: str) -> str:
    if not text.strip() or text.startswith("#") or not text.isprintable():
        raise ValueError(f"is {text!r}; write a pattern as in a .gitignore: data/, *.ckpt, /notes, !keep.me")
    return text


class CodeSection(Section):
    """A folder that travels with the run: packed at submit, kept in the storage under its digest, and unpacked on every
    node for its ranks, which start in it. Links, sockets and devices in it are refused, not followed.
    """

    folder: Annotated[Text, StringConstraints(min_length=1)]
    """The folder; relative to the folder of this file."""
    exclude: tuple[Annotated[str, AfterValidator(_pattern)], ...] = ()
    """What stays behind, as a .gitignore says it: [data/, "*.ckpt", "!small.ckpt"]. Repositories, caches of Python and
    virtual environments always do. No other file is read for patterns."""
    max_size: Annotated[Bytes, Field(ge=1, le=2**30)] = 64 * 2**20
    """Refuse to ship more than this, at most 1GiB. Data belong into the storage."""


def is_inside(folder: str) -> bool:
    """Whether a relative folder stays inside what it is relative to."""
    return not folder.startswith("/") and not posixpath.normpath(folder).startswith("..")
