"""Detection of other programs that use the machine during a benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.frame.machine import Others, cpu_of_others

BUSY = "import time\nwhile time.process_time() < 1.0: pass\nprint(flush=True)\ninput()"


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the kernel's counters")
def test_only_cpu_time_of_other_programs_is_counted() -> None:
    """Also if the same shell has started them."""
    command, pipe = [sys.executable, "-c", BUSY], subprocess.PIPE
    others = Others()
    one, another = (subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(2))
    try:
        for each in (one, another):
            assert each.stdout is not None
            assert each.stdout.readline() == b"\n"
        seen_by_both, seen_by_one = cpu_of_others(os.getpid()), cpu_of_others(one.pid)
        assert others.share() >= 0
        # The same moment seen by one process alone: the time of the other counts as foreign then,
        # and so does the time of this process.
        assert seen_by_one - seen_by_both >= cpu_seconds(another.pid) + time.process_time() - 0.2
    finally:
        for each in (one, another):
            each.communicate(timeout=30)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / 100
