"""Copies a file to disk past the page cache: what is written once and is large should not cost memory twice.

A new page costs more to get than to fill, and pushes out what somebody is reading. Where the file system has no direct
writes, and for the end that fills no block, the copy is an ordinary one.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

LEAST_BYTES = 4 << 20
"""Smaller files stay in memory: they are read again soon, and cost little."""
_CHUNK_BYTES = 2 << 20
_BLOCK_BYTES = 4096
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def copy(source: Path, target: BinaryIO, digest: Callable[[memoryview], object]) -> None:
    """Append all of `source` to `target`, an empty file without a buffer; `digest` sees every byte. Raises OSError.

    The file may be in memory or on its way to disk afterwards: it is durable after fsync, as always.
    """
    buffer = mmap.mmap(-1, _CHUNK_BYTES)  # begins on a page, which direct writes ask for
    with source.open("rb", buffering=0) as stream:
        is_direct = os.fstat(stream.fileno()).st_size >= LEAST_BYTES and _set_direct(target, True)
        while chunk := _filled(stream.readinto, memoryview(buffer)):
            digest(chunk)
            while chunk:
                whole = len(chunk) // _BLOCK_BYTES * _BLOCK_BYTES
                if is_direct and not whole:
                    is_direct = _set_direct(target, False)
                try:
                    written = target.write(chunk[:whole] if is_direct else chunk)
                except OSError as error:
                    if error.errno != errno.EINVAL or not is_direct:
                        raise
                    is_direct, written = _set_direct(target, False), 0  # its blocks are larger than ours
                chunk = chunk[written:]


def _filled(read: Callable[[memoryview], int | None], view: memoryview) -> memoryview:
    """As much of `view` as there is to read."""
    size = 0
    while size < len(view) and (more := read(view[size:])):
        size += more
    return view[:size]


def _set_direct(file: BinaryIO, wanted: bool) -> bool:
    """Whether the file is written directly from now on."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL) & ~_DIRECT
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, flags | (_DIRECT if wanted else 0))
    except OSError:  # a file system without it
        return False
    return wanted and bool(_DIRECT)
