"""What a benchmark knows of other programs on its machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.measuring import Others, cpu_of_others

BUSY = "import time\nwhile time.process_time() < 1.0: pass\nprint(flush=True)\ninput()"


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the kernel's counters")
def test_what_another_session_uses_is_counted_and_what_ours_uses_is_not() -> None:
    def busy(*, apart: bool) -> subprocess.Popen[bytes]:
        command, pipe = [sys.executable, "-c", BUSY], subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=apart)

    before, others = cpu_of_others(), Others()
    ours, theirs = busy(apart=False), busy(apart=True)
    try:
        for each in (ours, theirs):
            assert each.stdout is not None
            assert each.stdout.readline() == b"\n"
        seen_by_us, seen_by_them = cpu_of_others(), cpu_of_others(session=theirs.pid)
        assert seen_by_us - before >= 0.9
        assert others.share() > 0
        # The same moment from the other side: less their own second, and more by ours and all that this session has used before.
        assert seen_by_them - seen_by_us >= cpu_seconds(ours.pid) - cpu_seconds(theirs.pid)
    finally:
        for each in (ours, theirs):
            each.communicate(timeout=30)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / 100
