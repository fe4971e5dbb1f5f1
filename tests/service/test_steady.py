"""The steady clock for tests: a pause of the machine must not count as a caller's."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.service.batching import Clock
from tests.service.steady import MOST, steadied


def test_the_steady_clock_skips_pauses_of_the_machine() -> None:
    clock = Clock()
    now = steadied(clock)
    begun = now()
    for _ in range(100):
        clock.now += 0.04
        now()
    assert now() - begun == pytest.approx(4)
    clock.now += 60
    assert now() - begun == pytest.approx(4 + MOST)
    clock.now += 0.04
    assert now() - begun == pytest.approx(4.04 + MOST)


@pytest.mark.usefixtures("steady")
async def test_the_event_loop_uses_the_steady_clock() -> None:
    begun = asyncio.get_running_loop().time()
    time.sleep(2 * MOST)  # a pause of everything
    assert asyncio.get_running_loop().time() - begun < 2 * MOST
