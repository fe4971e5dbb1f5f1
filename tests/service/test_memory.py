"""Threads share heaps, in a process of its own: the setting is for good."""

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
from service.memory import settle_allocator
if sys.argv[1] == "ours":
    print(settle_allocator())
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


def run(whose: str, **environment: str) -> tuple[str, int]:
    """What `settle_allocator` said, and how many heaps there are then."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PROGRAM, whose]
    done = subprocess.run(command, cwd=ROOT, env=plain | environment, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr.count("Arena ")


def test_threads_share_two_heaps() -> None:
    assert run("ours") == ("True", 2)
    assert run("glibc's")[1] > 2, "glibc does by itself what it is told to: the setting is not needed any more"


def test_what_the_operator_has_set_stays() -> None:
    assert run("ours", MALLOC_ARENA_MAX="4") == ("False", 4)
