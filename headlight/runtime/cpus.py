"""How many CPUs the process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container, as it sees itself
MOST_STREAMS = 8  # unless told otherwise: each holds what its largest batch needed


def usable_cpus(quota: Path = QUOTA) -> int:
    """Those it may run on, and no more than its container has time for: more threads than that are stopped in turns, mid-batch."""
    allowed = len(os.sched_getaffinity(0))
    try:
        time, period = quota.read_text(encoding="ascii").split()
        return min(allowed, max(1, math.ceil(int(time) / int(period))))
    except (OSError, ValueError):  # no such group, or "max": without a limit
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
