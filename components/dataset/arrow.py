"""pyarrow, told to take memory from the system's own pool. Imported in place of it.

Its own pools keep tens of MB of what they are given back, and inside its readers the pool that counts is the one named
in the environment when it is loaded.
"""

import os

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyarrow
import pyarrow.parquet

__all__ = ["pyarrow"]

pyarrow.set_memory_pool(pyarrow.system_memory_pool())
