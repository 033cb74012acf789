"""pyarrow, made small. Imported in place of it.

It takes memory from a pool of its own, which gives back at once what it is given back: pages of some MB in the heap
that everything else lives in leave holes. Inside its readers the pool that counts is the one named in the environment
when it is loaded.
"""

import functools
import os
import sys

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc" if sys.platform == "linux" else "system")

from components.dataset.library_pages import give_back_library_pages

give_back_library_pages()  # of what was loaded before, so that the two do not add up

import pyarrow  # noqa: E402
import pyarrow.parquet  # noqa: E402

__all__ = ["give_back_first_touches", "pyarrow"]

if "jemalloc" in pyarrow.supported_memory_backends():
    pyarrow.set_memory_pool(pyarrow.jemalloc_memory_pool())
    pyarrow.jemalloc_set_decay_ms(0)
else:
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
give_back_library_pages()


@functools.cache
def give_back_first_touches() -> None:
    """Let go of what only the first use of pyarrow touched of its libraries. Does so once in a process."""
    give_back_library_pages()
