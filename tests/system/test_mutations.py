"""Mutated traffic: the service goes on, answers as documented, leaks nothing and holds nothing.

Seeded and reproducible; `python -m tests.chaos --long --only F14 --seed N` is another, longer run.
"""

from __future__ import annotations

from tests.chaos.faults.frames import mutated_frames
from tests.chaos.faults.messages import mutated_messages
from tests.chaos.faults.requests import mutated_requests
from tests.chaos.record import Outcome


def kept(outcome: Outcome) -> None:
    print(outcome.seen)
    assert outcome.problems == []


async def test_mutated_messages() -> None:
    kept(await mutated_messages(times=0.4))


async def test_mutated_requests() -> None:
    kept(await mutated_requests())


async def test_mutated_frames() -> None:
    kept(await mutated_frames(times=0.4))
