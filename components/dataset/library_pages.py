"""Gives back the pages of shared libraries that were touched only to load them.

To bind a library's symbols is to walk through it, and every fault brings in its neighbours. Of pyarrow's and what was
loaded before it 44 MB stay in memory, of which the work needs 16; a page that is needed after all is found in the
page cache again. Only on Linux; elsewhere nothing happens.
"""

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (r-[x-]p) \S+ \S+ [1-9]\d* +.*\.so\b")
_DONTNEED = 4


def give_back_library_pages() -> None:
    """Let go of all that is as it is in its file and cannot be written."""
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not _MAPPINGS.exists():
        return
    for start, end in _unchanged():
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


def _unchanged() -> Iterator[tuple[int, int]]:
    """Where libraries are mapped that hold no page of this process's own, such as one with relocated addresses."""
    start, end = 0, 0
    for line in _MAPPINGS.read_text(errors="replace").splitlines():
        if line.startswith("Anonymous:"):
            if end and line.split()[1] == "0":
                yield start, end
        elif not line[0].isupper():
            found = _MAPPING.match(line)
            start, end = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
