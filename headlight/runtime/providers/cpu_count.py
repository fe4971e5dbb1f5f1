"""How many CPUs the process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")  # of a container, as it sees itself
# Microseconds that all its threads may run, and of each period: of cgroup v2 in one file, of v1 in two.
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
MOST_STREAMS = 8  # unless told otherwise: each holds what its largest batch needed


def usable_cpus(group: Path = CGROUP) -> int:
    """Those it may run on, and no more than its container has time for: more threads than that are stopped in turns, mid-batch."""
    allowed = len(os.sched_getaffinity(0))
    for files in QUOTAS:
        try:
            time, period = " ".join((group / file).read_text(encoding="ascii") for file in files).split()
            quota = math.ceil(int(time) / int(period))
        except (OSError, ValueError):  # no such group, or "max": without a limit
            continue
        if quota > 0:  # of v1, -1 is none
            return min(allowed, quota)
    return allowed


def share(streams: int | None, threads: int | None, cpus: int) -> tuple[int, int]:
    """Streams and threads of each, for what an operator has said of them.

    Small products lose most of what they gain by a second thread, so many streams of one thread each get most done.

    Args:
        streams: batches at once; None: as many as the CPUs allow, at most MOST_STREAMS.
        threads: for each; None: what the streams leave of the CPUs.
        cpus: to be shared.
    """
    if streams is None:
        streams = max(1, min(cpus // (threads or 1), MOST_STREAMS))
    return streams, threads or max(1, cpus // streams)
