"""Load beyond capacity, and deadlines too short to meet."""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from tests.chaos.record import Outcome
from tests.chaos.traffic.background import percentile, said
from tests.chaos.traffic.load import (
    LARGE_TOKENS,
    TOKENS,
    Ended,
    Load,
    counts,
    p99_ms,
    statuses_but,
    wrong_answers,
)
from tests.system.conftest import bundle_of
from tests.system.processes import Service

MULTIPLES = (0.8, 1.0, 2.0, 5.0, 10.0)
STEP_SECONDS = 10.0
LARGE_DEADLINE = 2.0
# Of the peak: callers and service share the cores here.
GOODPUT_SHARE, GOODPUT_SHARE_AT_TEN = 0.85, 0.75
# That a status may come after its deadline: callers and service share the cores here.
LATE_SECONDS = 0.25
STATUSES = {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}


async def overload() -> Outcome:
    """Run open-loop load of 0.8 to 10 times the capacity."""
    with Service(bundle_of("docs-rope")) as service:
        async with Load(service.target, tokens=LARGE_TOKENS) as load:
            capacity = counts(await load.closed(8, STEP_SECONDS, 30))["OK"] / STEP_SECONDS
            memory = service.resident_bytes()
            steps = {
                factor: await load.open(factor * capacity, STEP_SECONDS, LARGE_DEADLINE)
                for factor in MULTIPLES
            }
            grown = service.resident_bytes() / memory - 1
            after = await load.closed(2, 3, 10)
    goodput = {factor: counts(calls)["OK"] / STEP_SECONDS for factor, calls in steps.items()}
    peak = max(goodput.values())
    wrong, problems = wrong_answers(*steps.values(), after)
    problems += statuses_but(STATUSES, *steps.values(), after)
    for factor in MULTIPLES[2:]:
        least = GOODPUT_SHARE_AT_TEN if factor == 10 else GOODPUT_SHARE
        if goodput[factor] < least * peak:
            problems.append(f"{goodput[factor] / peak:.0%} of peak goodput at {factor:g} times")
    refused = [
        p99_ms(calls, "RESOURCE_EXHAUSTED") for factor, calls in steps.items() if factor >= 2
    ]
    if counts(after) != {"OK": len(after)} or grown > 0.25:
        problems.append(f"afterwards {said(counts(after))}, memory {grown:+.0%}")
    shares = ", ".join(f"{goodput[factor] / peak:.0%} at {factor:g}×" for factor in MULTIPLES)
    admitted = ", ".join(f"{p99_ms(steps[factor]):.0f}" for factor in MULTIPLES)
    loads = ", ".join(f"{factor:g}×" for factor in MULTIPLES[2:])
    return Outcome(
        (
            f"capacity {capacity:.0f} calls/s; goodput as a share of its peak: {shares}; p99 of "
            f"answers at the same loads: {admitted} ms; p99 of refusals at {loads}: "
            f"{', '.join(f'{each:.0f}' for each in refused)} ms; memory {grown:+.0%}; "
            f"afterwards {counts(after)['OK']} of {len(after)} calls OK; {wrong}"
        ),
        {
            "capacity": capacity,
            "goodput": goodput,
            "refusal_p99_ms": refused,
            "memory_share": grown,
        },
        problems,
    )


async def deadlines() -> Outcome:
    """Make calls with deadlines of 1 to 50 ms beside other load."""
    with Service(bundle_of("docs-rope")) as service:
        async with (
            Load(service.target) as load,
            Load(service.target, options=[("headlight.fault", 2)]) as short,
        ):
            others = asyncio.create_task(load.closed(4, 15, 30))
            found, begun = list[Ended](), time.monotonic()
            before = service.counted("headlight_tokens_total")
            while time.monotonic() - begun < 12:
                many = (short.call(random.uniform(0.001, 0.05)) for _ in range(4))
                found += await asyncio.gather(*many)
            beside = await others
            computed = (service.counted("headlight_tokens_total") - before) / TOKENS
    answered = counts(found)["OK"] + counts(beside)["OK"]
    wasted, late = computed - answered, sorted(call.late for call in found if call.status != "OK")
    tail = percentile(late, 0.99)
    wrong, problems = wrong_answers(found, beside)
    problems += statuses_but(STATUSES, found)
    problems += [f"statuses came {tail:.2f} s after the deadline"] if tail > LATE_SECONDS else []
    problems += (
        [f"{wasted:.0f} of {computed:.0f} computed without an answer"]
        if wasted > 0.1 * computed + 8
        else []
    )
    return Outcome(
        (
            f"{said(counts(found))}; time of the status relative to the deadline: median "
            f"{1e3 * statistics.median(late):+.0f} ms, p99 {1e3 * tail:+.0f} ms; "
            f"{max(0.0, wasted):.0f} of {computed:.0f} texts computed without an answer; {wrong}"
        ),
        {
            "outcomes": counts(found),
            "late_p99_seconds": tail,
            "wasted": wasted,
            "computed": computed,
        },
        problems,
    )
