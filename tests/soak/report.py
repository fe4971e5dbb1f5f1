"""The report of a run, and its verdict."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path

import grpc
import onnxruntime

from tests.faults.record import commit
from tests.soak import watch
from tests.soak.flat import MIB, Flatness, flatness
from tests.soak.frames import Framed
from tests.soak.ledger import Ledger
from tests.soak.path_bytes import Endured
from tests.system.door_fuzz import Doors
from tests.system.fuzz import Fuzzed


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Everything that a run has found."""

    command: str
    seconds: float
    ledger: Ledger
    watched: watch.Watch
    failures: list[str]  # of the service's log
    fuzzed: Fuzzed | None
    doors: Doors | None
    endured: Endured | None
    framed: Framed | None

    def problems(self) -> list[str]:
        """Return the reasons for failure; empty: none."""
        found = [*self.ledger.problems(), *watch.problems(self.watched.quiet), *self.failures]
        found += flatness(self.watched.samples).problems()
        if self.fuzzed is not None:
            found += [f"fuzzing: {problem}" for problem in self.fuzzed.problems()]
        if self.doors is not None:
            found += [f"doors: {problem}" for problem in self.doors.problems()]
        if self.endured is not None:
            found += [f"paths that are not UTF-8: {problem}" for problem in self.endured.problems]
        if self.framed is not None:
            found += [f"frames: {problem}" for problem in self.framed.problems()]
        return found

    def lines(self) -> list[str]:
        """Return the report as Markdown."""
        problems = self.problems()
        lines = [
            "# Soak",
            "",
            (
                f"`{self.command}` on {len(os.sched_getaffinity(0))} cores of {processor()}; "
                f"Python {platform.python_version()}, grpcio {grpc.__version__}, onnxruntime "
                f"{onnxruntime.__version__}; commit {commit()}. "
                f"{self.seconds / 60:.1f} minutes in all."
            ),
            "",
            f"**{'FAILED' if problems else 'Passed'}.**",
            *(f"- {problem}" for problem in problems),
            "",
            *self._calls(),
            "",
            *self._memory(flatness(self.watched.samples)),
        ]
        if self.fuzzed is not None:
            lines += [
                "",
                (
                    f"{self.fuzzed.codes.total()} mutated messages to a service of their own: "
                    f"{self.fuzzed}."
                ),
            ]
        if self.doors is not None:
            sent = self.doors.http.total() + self.doors.grpc.total()
            lines += [
                "",
                (
                    f"{sent} mutated requests over HTTP, the Open Inference Protocol and tei.v1, "
                    f"to a service of their own: {self.doors}."
                ),
            ]
        if self.endured is not None:
            lines += [
                "",
                (
                    f"{self.endured.requests} requests whose path is not UTF-8, one a second, to "
                    f"a service of their own on each port that speaks gRPC: {self.endured}."
                ),
            ]
        if self.framed is not None:
            lines += [
                "",
                (
                    f"{self.framed.outcomes.total()} connections with mutated HTTP/2 frames and "
                    f"HPACK, to a service of their own: {self.framed}."
                ),
            ]
        return lines

    def _calls(self) -> list[str]:
        outcomes = self.ledger.outcomes
        names = list(dict.fromkeys(name for name, _ in sorted(outcomes)))
        columns = sorted(
            {outcome for _, outcome in outcomes}, key=lambda outcome: (outcome != "OK", outcome)
        )
        cells = [[str(outcomes[name, outcome] or "") for outcome in columns] for name in names]
        answered = sum(count for (_, outcome), count in outcomes.items() if outcome == "OK")
        return [
            (
                f"{self.ledger.started} calls started, {self.ledger.ended} ended. {answered} were "
                "answered; every answer to `embed`, `attend`, `both`, `tokenize`, `cancelled`, "
                "`late`, `flooding` and `slow` was compared with the same text encoded alone."
            ),
            "",
            "| calls | " + " | ".join(columns) + " |",
            "|---" * (len(columns) + 1) + "|",
            *(
                f"| {name} | " + " | ".join(row) + " |"
                for name, row in zip(names, cells, strict=True)
            ),
        ]

    def _memory(self, memory: Flatness) -> list[str]:
        return [
            (
                f"Memory after the warm-up (the first third of {len(self.watched.samples)} "
                f"samples): median {memory.begin / MIB:.0f} MiB in the first fifth and "
                f"{memory.end / MIB:.0f} MiB in the last, trend {memory.trend / MIB:+.1f} MiB over "
                f"the run; at most {memory.peak / MIB:.0f} MiB, warm-up included. Allowed: "
                f"{memory.allowance / MIB:.0f} MiB more, and a trend of twice that "
                "(`tests/soak/flat.py`)."
            ),
            "",
            "With nobody calling, nothing held and no call unended:",
            "",
            *(f"- after {look.seconds:.0f} s: {look}" for look in self.watched.quiet),
        ]


def processor() -> str:
    """Return the kernel's name of this machine's CPU."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
