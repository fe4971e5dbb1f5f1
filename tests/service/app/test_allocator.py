"""Allocator settings, in a process of its own because they are permanent.

Threads share heaps, and free heap memory is returned.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")

# Eight threads that allocate at once; glibc lists its heaps on standard error.
PROGRAM = """
import ctypes, sys, threading
from headlight_service.app.allocator import configure_allocator
if sys.argv[1] == "ours":
    configure_allocator()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)
def work():
    library.malloc(1000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
library.malloc_stats()
"""


# Blocks of 8 MiB with small ones between, freed: holes in the heap. Ends once they are released, or
# never.
HOLES = """
import os
from headlight_service.app import allocator
allocator.TRIM_SECONDS = 0.01
allocator.configure_allocator()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
bytearray(b"x") * (24 << 20)  # freed at once: from here on glibc keeps what is smaller
before, kept = resident(), []
for _ in range(8):
    block = bytearray(b"x") * (8 << 20)
    kept.append(bytes(100_000))
    kept.append(block)
del kept[1::2], block
while resident() > before + (16 << 20): pass
"""


def run(whose: str, **environment: str) -> int:
    """Return the number of heaps."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PROGRAM, whose]
    done = subprocess.run(
        command, cwd=ROOT, env=plain | environment, capture_output=True, text=True, check=True
    )
    return done.stderr.count("Arena ")


def test_threads_share_two_heaps() -> None:
    assert run("ours") <= 2
    assert run("glibc's") > 2, (
        "glibc does by itself what it is told to: the setting is not needed any more"
    )


def test_settings_of_the_operator_are_kept() -> None:
    assert run("ours", MALLOC_ARENA_MAX="4") == 4


def test_free_heap_memory_is_returned_to_the_system() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    subprocess.run([sys.executable, "-c", HOLES], cwd=ROOT, env=plain, check=True, timeout=60)
