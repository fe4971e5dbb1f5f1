"""A service stopped by SIGSTOP and continued: F9b."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

from tests.chaos.record import Outcome
from tests.chaos.traffic.background import Traffic, said
from tests.chaos.traffic.reference import reference
from tests.system.conftest import bundle_of
from tests.system.processes import Service

PAUSES = (0.5, 1.0, 4.0)  # seconds
TIMEOUT = 1.5
BACK_SECONDS = 5.0


async def stopped() -> Outcome:
    """Send SIGSTOP and SIGCONT under load.

    Calls end at their timeout, and right answers resume afterwards.
    """
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    back, problems = list[float](), list[str]()
    with Service(bundle_of("docs-rope")) as service:
        late = {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
        async with Traffic(
            service.target, known, callers=3, timeout=TIMEOUT, allowed=late
        ) as traffic:
            before = await traffic.run(3)
            for seconds in PAUSES:
                with paused(service.process.pid):
                    await traffic.run(seconds)
                on = time.monotonic()
                while not any(call.outcome == "OK" and call.begun > on for call in traffic.calls):
                    if time.monotonic() - on > BACK_SECONDS:
                        problems.append(
                            f"no answer {BACK_SECONDS:.0f} s after a pause of {seconds} s"
                        )
                        break
                    await asyncio.sleep(0.02)
                back.append(time.monotonic() - on)
                await traffic.run(3)
            after = await traffic.run(3)
        stuck = service.counted("headlight_stuck")
        left = service.counted("headlight_queue_tokens")
    problems += traffic.problems()
    problems += [
        f"{call.outcome} without a pause" for call in (*before, *after) if call.outcome != "OK"
    ]
    if stuck or left:
        problems.append(f"stuck {stuck:.0f}, tokens left in the queue {left:.0f}")
    outcomes = Counter(traffic.outcomes())
    return Outcome(
        (
            f"{said(outcomes)}, none wrong; calls with a timeout of {TIMEOUT} s ended at most "
            f"{max(0.0, traffic.latest_seconds()):.2f} s late; first right answer at most "
            f"{max(back):.2f} s after a pause; liveness kept, queue empty"
        ),
        {
            "outcomes": dict(outcomes),
            "late_seconds": traffic.latest_seconds(),
            "back_seconds": back,
        },
        problems,
    )


@contextlib.contextmanager
def paused(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)
