"""How the process asks the kernel for memory, and gives it back."""

from __future__ import annotations

import ctypes
import os

MMAP_THRESHOLD = -3  # of glibc's malloc.h
ARENA_MAX = -8
SETTINGS = {
    # Whatever is larger is mapped, and unmapped when it is freed. Left alone, the threshold rises to 32 MiB with the first large
    # block that is freed: results then lie in the heaps of the threads that computed them, which have holes and do not shrink.
    "MALLOC_MMAP_THRESHOLD_": (MMAP_THRESHOLD, 256 << 10),
    # A heap for all but the busiest moments: each of eight a core would keep what some thread once needed.
    "MALLOC_ARENA_MAX": (ARENA_MAX, 2),
}


def settle_allocator() -> list[str]:
    """Make malloc give back what is freed; what the environment sets stays. To be called before there are threads.

    Returns:
        The variables that now have our value; none where the C library is not glibc.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # others map large blocks anyway, and have no such knobs
        return []
    return [
        name
        for name, (parameter, value) in SETTINGS.items()
        if name not in os.environ and library.mallopt(parameter, value) == 1
    ]
