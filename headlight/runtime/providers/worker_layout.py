"""Which threads run batches, and how many CPUs the process may use."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Literal

CGROUP = Path("/sys/fs/cgroup")  # of a container, as it sees itself
# Microseconds that all its threads may run, and of each period: of cgroup v2 in one file, of v1 in two.
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
MOST_STREAMS = 8  # unless told otherwise: each holds what its largest batch needed
# Threads. With fewer, all of them are little faster than one of the streams', and a second copy of the weights is much for that.
COPY_FROM = {"cpu": 4, "openvino": 2}  # what OpenVINO needs besides is several times as much

# The threads of a batch that has no rival: those of one stream; all, in a session of its own, with a second copy of the weights; all,
# in the session that returns attention, which then has them for each of its batches. There nothing is selected, which costs some 3 %.
Wide = Literal["none", "copy", "attend"]


@dataclasses.dataclass(frozen=True, slots=True)
class Workers:
    """Which threads run batches.

    Attributes:
        streams: batches at once, of those who are waited for; bulk may run beside them.
        threads: for each of these.
        wide: which session gives all threads to a batch that has no rival; see `Wide`.
        spin: let idle threads spin for work: some 8 % faster for a lone caller, costly to everything else on the machine.
    """

    streams: int = 1
    threads: int = 1
    wide: Wide = "none"
    spin: bool = False

    @property
    def all(self) -> int:
        """Threads of all streams together."""
        return self.streams * self.threads

    @property
    def apart(self) -> bool:
        """Whether a batch on all threads has a session of its own: that of a lone stream has them all."""
        return self.wide == "copy" and self.streams > 1

    @property
    def lent(self) -> bool:
        """Whether it runs on the session that returns attention."""
        return self.wide == "attend" and self.streams > 1


def choose_wide(wanted: bool | None, threads: int, provider: str, *, attend: bool) -> Wide:
    """Where a batch that has no rival has all threads.

    Args:
        wanted: that it has, in a session of its own; None: where it is worth its memory.
        threads: of all streams together.
        provider: that is to run it.
        attend: whether there is a session that returns attention.
    """
    if provider == "cuda":  # threads compute nothing there
        return "none"
    if wanted or (wanted is None and threads >= COPY_FROM[provider]):
        return "copy"
    # One request at a time is all that OpenVINO's would take then, and attention would be returned half as fast.
    return "attend" if wanted is None and attend and provider == "cpu" and threads > 1 else "none"


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
