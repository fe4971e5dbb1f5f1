"""Which threads run batches."""

from __future__ import annotations

import dataclasses
from typing import Literal

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
