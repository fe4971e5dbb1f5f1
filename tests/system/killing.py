"""Command lines that are killed while they write a folder of parts."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from headlight.cli.files import PARTIAL
from tests.system.processes import ROOT


def embed(*options: str) -> list[str]:
    return [sys.executable, "-m", "headlight", "embed", *options]


def started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ}, stderr=subprocess.PIPE, text=True
    )


def finish(command: Sequence[str], seconds: float = 300) -> str:
    """Run a command that leaves rows out to its end, and return what it reports."""
    done = subprocess.run(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=seconds, check=False
    )
    assert done.returncode == PARTIAL, done.stderr
    return done.stderr


def parts_in(folder: Path) -> int:
    return len(list(folder.glob("part-*.parquet")))


def kill_midway(command: Sequence[str], folder: Path, draw: random.Random) -> int:
    """Kill a job a random moment after its next part, and return the number of its parts."""
    before, job = parts_in(folder), started(command)
    try:
        while parts_in(folder) == before:
            assert job.poll() is None, job.communicate()[1]
        until = time.monotonic() + draw.uniform(0.0, 0.3)
        while time.monotonic() < until and job.poll() is None:
            pass
    finally:
        job.kill()
        job.communicate()
    return parts_in(folder)
