"""Findings of mutated traffic: how it ended, and all that must not show."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Collection, Iterable

from tests.chaos.flat import MIB, Sample, flatness
from tests.system.processes import Service

SECRET = "zebra"  # in texts, paths and metadata; no answer and no log line may quote it
# Of an exception or of a file; no answer may hold one.
LEAKS = (
    b"Traceback",
    b"Error(",
    b"Exception",
    b".py",
    b"site-packages",
    b"onnx",
    b"google.protobuf",
)
MOST_BROKEN = 20  # that are listed one by one


@dataclasses.dataclass(slots=True)
class Findings:
    """Findings of a run.

    Attributes:
        ends: how much ended how, as "OK", "HTTP 200" or "hung up".
        broken: violations seen meanwhile.
        memory: of the service, after each part of the run.
    """

    ends: Counter[str] = dataclasses.field(default_factory=Counter)
    broken: list[str] = dataclasses.field(default_factory=list)
    memory: list[Sample] = dataclasses.field(default_factory=list)

    def search(
        self, sent: object, answer: Iterable[bytes], leaks: Collection[bytes] = LEAKS
    ) -> None:
        """Look for leaks in what came back."""
        self.broken += [
            f"{text!r:.300} came back of {sent!r:.300}"
            for text in answer
            if any(leak in text for leak in leaks)
        ]

    def sample(self, service: Service) -> None:
        """Take a sample of the service's memory."""
        self.memory.append(Sample(time.monotonic(), service.resident_bytes()))

    def read_log(self, service: Service, expected: tuple[str, str] | None = None) -> None:
        """Look at the log of an ended service.

        Args:
            service: that has ended: earlier, the last lines may be missing.
            expected: logger and kind of errors that it may have.
        """
        self.broken += [
            f"the log has {entry}"[:500]
            for entry in service.failures()
            if (entry["logger"], entry.get("kind")) != expected
        ]
        if SECRET in str(service.log):
            self.broken.append("the log quotes what a caller sent")

    def unexpected(self, allowed: Collection[str]) -> list[str]:
        """Return violations: ends that are not allowed."""
        return [f"{count} ended as {end}" for end, count in self.ends.items() if end not in allowed]

    def unreached(self, share: float, *ends: Collection[str]) -> list[str]:
        """Return violations: of all ends, each of these groups should have such a share."""
        sent = self.ends.total()
        counts = [(group, sum(self.ends[end] for end in group)) for group in ends]
        return [
            f"{count} of {sent} ended as {' or '.join(group)}: too coarse or too fine"
            for group, count in counts
            if count <= share * sent
        ]

    def problems(self) -> list[str]:
        """Return the violations seen so far, and those of memory."""
        more = len(self.broken) - MOST_BROKEN
        found = self.broken[:MOST_BROKEN] + [f"and {more} more like these"] * (more > 0)
        return found + flatness(self.memory).problems()

    def __str__(self) -> str:
        ends = ", ".join(f"{end} {count:,}" for end, count in self.ends.most_common())
        flat = flatness(self.memory)
        return (
            f"{ends}; memory {flat.begin / MIB:.0f} -> {flat.end / MIB:.0f} MiB, "
            f"at most {flat.peak / MIB:.0f}"
        )
