"""Layout of the threads that run batches, and the number of CPUs that the process may use."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Literal

CGROUP = Path("/sys/fs/cgroup")  # the container's own cgroup, as seen from inside
# CPU time of all its threads in a period, and the period, in µs: one file in cgroup v2, two in v1.
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
MOST_STREAMS = 8  # by default: each worker keeps the memory of its largest batch
# Least number of threads for a session of its own. With fewer, all threads are little faster than
# those of one worker, and not worth a second copy of the weights.
COPY_FROM = {"cpu": 4, "openvino": 2}  # OpenVINO's other memory is several times as large

# The threads of a batch that runs alone. "none": those of one worker. "copy": all, in a session of
# its own with a second copy of the weights. "attend": all, in the session that returns attention,
# whose batches all get them; its empty selectors cost some 3 %.
Exclusive = Literal["none", "copy", "attend"]


@dataclasses.dataclass(frozen=True, slots=True)
class Workers:
    """The threads that run batches.

    Attributes:
        streams: number of workers: interactive batches at once; bulk may run beside them.
        threads: threads of each worker.
        wide: the session that gives all threads to a batch that runs alone; see `Exclusive`.
        spin: whether idle threads spin for work: some 8 % faster for a lone caller, costly to
            everything else on the machine.
    """

    streams: int = 1
    threads: int = 1
    wide: Exclusive = "none"
    spin: bool = False

    @property
    def all(self) -> int:
        """Threads of all workers together."""
        return self.streams * self.threads

    @property
    def apart(self) -> bool:
        """True if a batch on all threads has its own session; a lone worker needs none."""
        return self.wide == "copy" and self.streams > 1

    @property
    def lent(self) -> bool:
        """True if a batch on all threads runs on the session that returns attention."""
        return self.wide == "attend" and self.streams > 1


def choose_exclusive(
    wanted: bool | None, threads: int, provider: str, *, attend: bool
) -> Exclusive:
    """Return the session that gives all threads to a batch that runs alone.

    Args:
        wanted: True for a session of its own; False for none; None: choose by its cost in memory.
        threads: threads of all workers together.
        provider: the provider that runs it.
        attend: True if there is a session that returns attention.
    """
    if provider == "cuda":  # threads compute nothing there
        return "none"
    if wanted or (wanted is None and threads >= COPY_FROM[provider]):
        return "copy"
    # OpenVINO's "attend" session would take one request at a time, and return attention half as
    # fast.
    return "attend" if wanted is None and attend and provider == "cpu" and threads > 1 else "none"


def usable_cpus(group: Path = CGROUP) -> int:
    """Return the CPUs that the process may use, limited by its container's CPU quota.

    Threads beyond the quota are stopped in turns, mid-batch.
    """
    allowed = len(os.sched_getaffinity(0))
    for files in QUOTAS:
        try:
            time, period = " ".join(
                (group / file).read_text(encoding="ascii") for file in files
            ).split()
            quota = math.ceil(int(time) / int(period))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        if quota > 0:  # in v1, -1 is no limit
            return min(allowed, quota)
    return allowed


def share(streams: int | None, threads: int | None, cpus: int) -> tuple[int, int]:
    """Return the number of workers, and of threads of each, for an operator's settings.

    Small matrix products gain little from a second thread, so many workers of one thread each have
    the highest throughput.

    Args:
        streams: batches at once; None: as many as the CPUs allow, at most MOST_STREAMS.
        threads: threads of each worker; None: the CPUs divided by the workers.
        cpus: number of CPUs to share.
    """
    if streams is None:
        streams = max(1, min(cpus // (threads or 1), MOST_STREAMS))
    return streams, threads or max(1, cpus // streams)
