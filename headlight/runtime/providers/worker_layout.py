"""Layout of the threads that run batches, and the number of CPUs that the process may use."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")  # the container's own cgroup, as seen from inside
# CPU time of all its threads in a period, and the period, in µs: one file in cgroup v2, two in v1.
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
MOST_STREAMS = 8  # by default: each worker keeps the memory of its largest batch
# Least number of threads for which a second copy of the weights is worth any size. With fewer, all
# threads are little faster than those of one worker.
COPY_FROM = {"cpu": 4, "openvino": 2}  # OpenVINO's other memory is several times as large
# Bytes of weights that are copied for fewer threads, too: 12 layers of 384 have 81 MiB.
SMALL_COPY = 96 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Workers:
    """The threads that run batches.

    Attributes:
        streams: number of workers: interactive batches at once; bulk may run beside them.
        threads: threads of each worker.
        copy: a batch that runs alone gets all threads, in a session of its own with a second copy
            of the weights.
        copy_attend: the same for the graph that returns attention.
        lent: batches of the graph that returns attention take turns, on all threads, and a batch of
            the other graph that runs alone gets them there, too; the empty selectors take it 0.1 ms
            a layer.
        in_turn: batches take turns, whatever their priority.
    """

    streams: int = 1
    threads: int = 1
    copy: bool = False
    copy_attend: bool = False
    lent: bool = False
    in_turn: bool = False

    @property
    def all(self) -> int:
        """Threads of all workers together."""
        return self.streams * self.threads


def choose_workers(
    streams: int,
    threads: int,
    *,
    wide: bool | None,
    provider: str,
    attend: bool,
    weights: int,
) -> Workers:
    """Return the workers, and how a batch that runs alone gets the threads of all.

    Args:
        streams, threads: of `share`.
        wide: True for a session of its own; False for none; None: choose by its cost in memory.
        provider: the provider that runs it.
        attend: True if there is a session that returns attention.
        weights: bytes of the weights that each session holds a copy of.
    """
    plain = Workers(streams, threads)
    # On a GPU, threads compute nothing. A lone worker has all threads.
    if provider == "cuda" or streams == 1 or wide is False:
        return plain
    few = plain.all < COPY_FROM[provider]
    copy = wide or not few or weights <= SMALL_COPY
    # On many threads, batches in turn would be slower. OpenVINO's session would take one request at
    # a time, and return attention half as fast.
    shared = attend and few and provider == "cpu"
    return dataclasses.replace(
        plain, copy=copy, copy_attend=shared and copy, lent=shared and not copy
    )


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
