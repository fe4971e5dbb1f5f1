"""How the process asks the kernel for memory, and gives it back."""

from __future__ import annotations

import ctypes
import os
import threading
import time

VARIABLE = "MALLOC_ARENA_MAX"
ARENA_MAX = -8  # of glibc's malloc.h
# glibc gives threads heaps of their own, up to eight a core, and each keeps what some thread once needed. Two are enough: to have
# fewer costs no time that could be measured.
ARENAS = 2
# Results of megabytes leave holes in the heaps, which glibc keeps. To map large blocks one by one gives them back at once, but made
# a long text's attention twice as slow: hence now and then.
TRIM_SECONDS = 10.0


def settle_allocator() -> None:
    """Make threads share heaps, and give the holes in them back regularly. To be called before there are other threads.

    What the environment sets stays. Where the C library is not glibc nothing is done.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return
    if VARIABLE not in os.environ:
        library.mallopt(ARENA_MAX, ARENAS)

    def trim_regularly() -> None:
        while True:
            time.sleep(TRIM_SECONDS)
            trim()

    threading.Thread(target=trim_regularly, name="trim", daemon=True).start()


def trim() -> None:
    """Give the holes in the heaps back now, where the C library can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
