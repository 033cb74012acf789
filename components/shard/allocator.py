"""What glibc does with the memory a task gives back. Elsewhere nothing happens."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGE_BYTES = 16 << 20, 4 << 20


def keep_freed_memory() -> None:
    """Keep up to 16 MiB of it, where glibc begins with 128 KiB: a batch needs what the one before it gave back.

    To get pages from the kernel anew, each of them cleared, was a fifth of a task's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
