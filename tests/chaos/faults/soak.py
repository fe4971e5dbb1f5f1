"""Soak: mixed load with faults of the clients, in stretches: F23.

In the pause after each stretch nothing may be held: no call, no token, no byte, no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

from tests.chaos import watch
from tests.chaos.flat import MIB, flatness
from tests.chaos.record import Outcome
from tests.chaos.traffic.background import said
from tests.chaos.traffic.ledger import Ledger
from tests.chaos.traffic.mix import OPTIONS, Mix
from tests.chaos.traffic.reference import reference
from tests.system.conftest import bundle_of
from tests.system.processes import Service

SECONDS = 120.0
CALLERS = 12  # calls at once
STRETCHES = 6  # the first two are warm-up
SAMPLES = 360


async def soak(times: float = 1.0, seed: int = 1) -> Outcome:
    """Run the load for so many times two minutes."""
    seconds, ledger = times * SECONDS, Ledger()
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    with Service(bundle_of("docs-rope"), *OPTIONS) as service:
        watched = watch.Watch(service)
        async with Mix(service.target, known, ledger, CALLERS, seed) as mix:
            sampling = asyncio.create_task(watched.run(max(0.1, seconds / SAMPLES)))
            for stretch in range(STRETCHES):
                await mix.run(seconds / STRETCHES)
                print(f"stretch {stretch + 1}: {await watched.when_quiet()}", flush=True)
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
    memory = flatness(watched.samples)
    problems = [*ledger.problems(), *watch.problems(watched.quiet), *memory.problems()]
    problems += [str(entry) for entry in service.failures()]
    calls: dict[str, Counter[str]] = {}
    for (kind, end), count in ledger.outcomes.items():
        calls.setdefault(kind, Counter())[end] = count
    return Outcome(
        f"{ledger.started:,} calls started, {ledger.ended:,} ended, each answer compared: "
        f"{said(sum(calls.values(), Counter()))}. Memory after the warm-up: median "
        f"{memory.begin / MIB:.0f} MiB in the first fifth and {memory.end / MIB:.0f} MiB in the "
        f"last, trend {memory.trend / MIB:+.1f} MiB; at most {memory.peak / MIB:.0f} MiB; "
        f"at the end, with nobody calling, {watched.quiet[-1]}",
        {"calls": calls, "quiet": [str(look) for look in watched.quiet]},
        problems,
    )
