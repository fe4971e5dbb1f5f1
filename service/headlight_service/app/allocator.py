"""Memory allocator settings of the process, and the return of free memory to the kernel."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time

VARIABLE = "MALLOC_ARENA_MAX"
ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h
# glibc gives threads heaps of their own, up to eight a core, and each keeps the most that a thread
# once needed. Two heaps are enough: no cost in time could be measured.
ARENAS = 2
# Results of megabytes leave holes in the heaps, which glibc keeps. Separate maps for large blocks
# would free them at once, but made a long text's attention twice as slow. So holes are trimmed
# regularly.
TRIM_SECONDS = 10.0


def configure_allocator() -> None:
    """Make threads share heaps, and trim these regularly. Call it before other threads start.

    A setting in the environment takes precedence. A C library other than glibc is left alone.
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
    """Return the holes in the heaps to the kernel now, if the C library can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def collect() -> None:
    """Free what is not used any more, and let later collections leave out what stays.

    Call it after a model was loaded or has gone. A collection of all objects stops all threads for
    20 ms: without the freeze, that would happen now and then.
    """
    gc.unfreeze()  # else the objects of the first models would stay for ever
    gc.collect()
    gc.freeze()
    trim()
