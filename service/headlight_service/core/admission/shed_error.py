"""Error of load shedding: a valid request is refused because a resource is short.

Its words are in `headlight.reasons`.
"""

from __future__ import annotations

import enum

from headlight.errors import Code, DeviceFull, HeadlightError, HostFull, Overloaded, Reason
from headlight.refusals import Argument, Path


class Shortage(enum.StrEnum):
    """The resource that is short: a closed set, for metrics."""

    REQUEST_BYTES = "request_bytes"
    QUEUE_TOKENS = "queue_tokens"
    OUTPUT_BYTES = "output_bytes"
    DEADLINE = "wait_beyond_deadline"
    STALLED_READER = "stalled_reader"
    QUOTA = "quota"
    DEVICE_MEMORY = "device_memory"  # of a GPU; known only from a failed allocation
    MEMORY = "memory"  # of the process; known in the same way


class Shed(Overloaded):
    """A request refused because a resource is short.

    Attributes:
        shortage: the resource.
    """

    def __init__(
        self,
        problem: Reason | str,
        shortage: Shortage,
        retry_after_seconds: float | None = None,
        field: str | Path = "",
        /,
        **args: Argument,
    ) -> None:
        super().__init__(problem, retry_after_seconds, field, **args)
        self.shortage = shortage


def label_of(error: BaseException) -> str:
    """Return the kind of a failure: one of a closed set of names, for metrics and clients.

    `headlight.reasons.Reason` is finer: it says what is wrong.
    """
    if isinstance(error, Shed):
        return error.shortage.value
    if isinstance(error, MemoryError | HostFull):
        return Shortage.MEMORY.value
    if isinstance(error, DeviceFull):
        return Shortage.DEVICE_MEMORY.value
    return (error.code if isinstance(error, HeadlightError) else Code.INTERNAL).value
