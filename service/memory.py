"""How the process asks the kernel for memory."""

from __future__ import annotations

import ctypes
import os

VARIABLE = "MALLOC_ARENA_MAX"
ARENA_MAX = -8  # of glibc's malloc.h
# glibc gives threads heaps of their own, up to eight a core, and each keeps what some thread once needed. Two are enough: to have
# fewer costs no time that could be measured. (Mapping every large block, which gives back more, made a long text's attention a
# fifth slower.)
ARENAS = 2


def settle_allocator() -> bool:
    """Make threads share heaps; what the environment sets stays. To be called before there are threads.

    Returns:
        Whether it is done now; False where the environment has decided or the C library is not glibc.
    """
    library = ctypes.CDLL(None)
    if VARIABLE in os.environ or not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(ARENA_MAX, ARENAS))
