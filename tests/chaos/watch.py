"""Observations of the service's process, by the kernel and by its own metrics."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from headlight_service.frontends.grpc.transport.call_threads import KEPT_THREADS
from tests.chaos.flat import MIB, Sample
from tests.system.processes import Service

# After the last call of the clients has ended; dead clients are noticed by their sockets.
QUIET_SECONDS = 30.0
LOOK_SECONDS = 0.1
# gRPC's own pool takes on and lets go as it likes; of the threads of calls some stay when nothing
# is to be done.
THREADS_ALLOWED = 4 + KEPT_THREADS
CALLS = {"grpc_server_started_total": 1, "grpc_server_handled_total": -1}
HELD = ("headlight_queue_tokens", "headlight_held_request_bytes", "headlight_held_output_bytes")


@dataclasses.dataclass(frozen=True, slots=True)
class Quiet:
    """State of the process while no client calls.

    Attributes:
        held: what it says it holds all the same, by metric; and the calls it has started and not
            handled.
    """

    seconds: float
    resident: int
    descriptors: int
    threads: int
    held: dict[str, float]

    def __str__(self) -> str:
        return (
            f"{self.resident / MIB:.0f} MiB, {self.descriptors} file descriptors, "
            f"{self.threads} threads"
        )


class Watch:
    """Observer of a service from its start."""

    def __init__(self, service: Service) -> None:
        self.samples: list[Sample] = []
        self.quiet: list[Quiet] = []
        self._service = service
        self._proc = Path(f"/proc/{service.process.pid}")
        self._started = time.monotonic()

    async def run(self, every_seconds: float) -> None:
        """Take samples until cancelled."""
        while True:
            self.samples.append(Sample(self._seconds(), self._service.resident_bytes()))
            await asyncio.sleep(every_seconds)

    async def when_quiet(self) -> Quiet:
        """Sample once nothing is held and no socket is left,
        or after the time limit.
        """
        give_up = time.monotonic() + QUIET_SECONDS
        while True:
            found = await asyncio.to_thread(self._look)
            first = self.quiet[0] if self.quiet else found
            settled = not any(found.held.values()) and found.descriptors <= first.descriptors
            # Idle threads end after a while.
            settled = settled and found.threads <= first.threads + THREADS_ALLOWED
            if settled or time.monotonic() > give_up:
                self.quiet.append(found)
                return found
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> Quiet:
        with urllib.request.urlopen(f"http://{self._service.http}/metrics", timeout=10) as response:
            held = held_of(response.read().decode())
        descriptors, threads = (len(os.listdir(self._proc / name)) for name in ("fd", "task"))
        return Quiet(self._seconds(), self._service.resident_bytes(), descriptors, threads, held)

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def held_of(exposition: str) -> dict[str, float]:
    """Return what /metrics reports as held, and the calls that were started and not handled."""
    values = dict.fromkeys((*HELD, "calls"), 0.0)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name in HELD:
                values[sample.name] += sample.value
            elif sample.name in CALLS and sample.labels["grpc_service"].startswith("headlight."):
                values["calls"] += CALLS[sample.name] * sample.value
    return values


def problems(quiet: list[Quiet]) -> list[str]:
    """Return what was not released while no client called; empty: none."""
    found = []
    for look in quiet:
        left = {name: value for name, value in look.held.items() if value}
        if left:
            found.append(f"after {look.seconds:.0f} s, with nobody calling, there are left: {left}")
    first, last = quiet[0], quiet[-1]
    if last.descriptors > first.descriptors:
        found.append(f"file descriptors grew from {first.descriptors} to {last.descriptors}")
    if last.threads > first.threads + THREADS_ALLOWED:
        found.append(f"threads grew from {first.threads} to {last.threads}")
    return found
