"""What is freed goes back to the kernel, in a process of its own: the settings are for good."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are those of glibc")

# Blocks of 8 MiB with small ones between, by threads, in an order in which freed ones leave holes; prints MiB that remain.
PROGRAM = """
import json, os, sys, threading
from service.memory import settle_allocator
done = settle_allocator() if sys.argv[1] == "ours" else []
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def work(kept):
    bytearray(b"x") * (24 << 20)  # freed at once: from here on glibc would keep what is smaller
    blocks = []
    for _ in range(8):
        blocks.append(bytearray(b"x") * (8 << 20))
        kept.append(bytes(100_000))
before, kept = resident(), []
for _ in range(4):
    thread = threading.Thread(target=work, args=(kept,))
    thread.start()
    thread.join()
print(json.dumps([done, (resident() - before) >> 20]))
"""


def run(whose: str, **environment: str) -> tuple[list[str], int]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PROGRAM, whose]
    done = subprocess.run(command, cwd=ROOT, env=plain | environment, capture_output=True, text=True, check=True)
    settings, remains = json.loads(done.stdout)
    return settings, remains


def test_large_blocks_go_back_when_they_are_freed() -> None:
    settings, remains = run("ours")
    assert settings == ["MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX"]
    assert remains < 16
    _, left_alone = run("glibc's")
    assert left_alone > 32, "glibc gives back by itself what it is told to: the settings are not needed any more"


def test_what_the_operator_has_set_stays() -> None:
    settings, _ = run("ours", MALLOC_ARENA_MAX="1")
    assert settings == ["MALLOC_MMAP_THRESHOLD_"]
