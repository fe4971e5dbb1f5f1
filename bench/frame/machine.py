"""The machine of a run: its processor, versions and commit, and what else it computed."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from headlight.runtime import Manifest


def flops(manifest: Manifest, tokens: Sequence[int]) -> list[float]:
    """Return the encoder's FLOPs for each text at its length: weights and attention.

    Feed-forward layers are four times as wide.
    """
    layers, dim = manifest.architecture.layers, manifest.architecture.dim
    weights = layers * (4 * dim * dim + 2 * dim * 4 * dim)
    return [2.0 * weights * n + 4.0 * layers * dim * n * n for n in tokens]


def machine(packages: Iterable[str]) -> str:
    """Return cores, processor and versions, as a clause."""
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {processor()}; {versions}, Python {platform.python_version()}"


def processor() -> str:
    """Return the kernel's name of this machine's CPU."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def revision(checkout: Path) -> str:
    """Return the commit of a checkout; marked if its files differ from it."""
    command = ["git", "describe", "--always", "--exclude", "*", "--dirty"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Others:
    """CPU share of all but this program and its children, to show if the machine was idle."""

    def __init__(self) -> None:
        """Begin to measure."""
        self._last = time.monotonic(), cpu_of_others(os.getpid())

    def share(self) -> float:
        """Return their share of all CPUs since the last call."""
        (begun, before), self._last = self._last, (time.monotonic(), cpu_of_others(os.getpid()))
        return max(0.0, (self._last[1] - before) / (self._last[0] - begun) / (os.cpu_count() or 1))


def cpu_of_others(root: int) -> float:
    """Return CPU seconds since the machine's start, without a process's family.

    The family is the living process, those below it, and their ended children.
    """
    counters = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    whole, below, used = (
        sum(map(int, counters[1:4])),
        defaultdict[int, list[int]](list),
        dict[int, int](),
    )
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            number = int(stat.parent.name)
            below[int(fields[1])].append(number)
            # user and system time, then those of ended children
            used[number] = sum(map(int, fields[11:15]))
    family_ticks, family = 0, [root]
    while family:
        member = family.pop()
        family_ticks += used.get(member, 0)
        family += below[member]
    return (whole - family_ticks) / os.sysconf("SC_CLK_TCK")
