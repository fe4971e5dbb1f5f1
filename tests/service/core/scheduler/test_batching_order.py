"""The scheduler's choice of batches, and their times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.engine.batches import Rounding
from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import LEAST_SPLIT_TOKENS
from tests.service.batching import Setup, lengths, running
from tests.service.fakes import item


async def test_interactive_is_served_before_waiting_bulk() -> None:
    async with running() as setup:
        setup.engine.gate.clear()
        order = list[Priority]()

        async def ask(priority: Priority) -> None:
            await setup.submit(item(4), priority=priority)
            order.append(priority)

        first = asyncio.create_task(ask("interactive"))
        await setup.started()
        rest = [asyncio.create_task(ask(priority)) for priority in ("bulk", "bulk", "interactive")]
        await asyncio.sleep(0)
        setup.engine.gate.set()
        await asyncio.gather(first, *rest)
    assert order == ["interactive", "interactive", "bulk", "bulk"]
    assert [report.priority for report in setup.reports] == ["interactive", "interactive", "bulk"]


async def beside_each_other(setup: Setup, items: list[EncodeItem]) -> None:
    """Compute a request in two concurrent batches."""
    request = await setup.hold(*items)
    await setup.started()
    setup.engine.gate.set()
    await request


async def test_a_busy_slot_is_not_idle_until_its_batch_ends() -> None:
    request = [item(LEAST_SPLIT_TOKENS // 8) for _ in range(32)]
    async with running(slots=2, tokens=10**6) as setup:
        first = await setup.hold(item(1))
        second = asyncio.create_task(setup.submit(*request))
        await setup.started()
        setup.engine.gate.set()
        await asyncio.gather(first, second)
        await beside_each_other(setup, request)
    assert [len(batch) for batch in setup.engine.batches] == [1, 32, 16, 16]


async def test_the_items_of_a_request_are_batched_in_order_of_length() -> None:
    """Starting from the oldest, of any length, would leave
    both ends for a batch that is half padding.
    """
    async with running(tokens=40) as setup:
        await setup.submit(*[item(length) for length in (9, 20, 10, 2, 18, 8, 1)])
    assert lengths(setup.engine) == [[20, 18], [10, 9, 8, 2], [1]]


async def test_batches_are_counted_with_padding() -> None:
    async with running(tokens=32, rounding=Rounding(8, 20)) as setup:
        await setup.submit(item(18), item(3), item(9), item(12))
    assert [(report.items, report.tokens, report.padded_tokens) for report in setup.reports] == [
        (1, 18, 20),  # up to the model's length
        (2, 21, 32),
        (1, 3, 8),
    ]


async def test_bulk_slowed_by_other_processes_is_not_split_into_single_texts() -> None:
    async with running(tokens=10**6, bulk_seconds=0.1) as setup:

        def on_a_busy_machine(tokens: int) -> None:
            work = 0.001 + tokens * 0.001
            setup.worked.now += work
            # A smaller batch does not get a processor any sooner.
            setup.clock.now += 0.2 + work

        setup.engine.takes = on_a_busy_machine
        await setup.submit(*[item(4) for _ in range(200)], priority="bulk")
    sizes = [len(batch) for batch in setup.engine.batches]
    assert sizes[0] == 1
    assert 20 <= min(sizes[1:-1]) <= max(sizes) <= 26, "some 0.1 s of work"
    assert all(report.seconds > 0.2 for report in setup.reports), "what is reported is what it took"


async def test_concurrent_batches_share_the_measured_cpu_time() -> None:
    async with running(slots=2, tokens=10**6, bulk_seconds=1.0) as setup:
        tasks = [await setup.hold(*[item(4) for _ in range(40)], priority="bulk")]
        await setup.started()  # one item each, as nothing is known yet
        setup.worked.now += 0.19
        setup.clock.now += 10
        setup.engine.gate.set()
        await asyncio.gather(*tasks)
    counts = [len(batch) for batch in setup.engine.batches[:3]]
    # 4 tokens were half of the work, or all of it for a batch that started or ended alone.
    assert counts in ([1, 1, 10], [1, 1, 7], [1, 1, 5])


WIDE: dict[str, Any] = {"tokens": 4, "wide_roles": frozenset({"embed"})}


async def test_a_single_interactive_batch_uses_all_threads() -> None:
    async with running(slots=2, **WIDE) as setup:
        await setup.submit(item(3))
        await setup.started()
        tasks = [await setup.hold(item(3))]
        tasks.append(asyncio.create_task(setup.submit(item(4))))  # beside the first
        await setup.started()
        setup.engine.gate.set()
        await asyncio.gather(*tasks)
        await setup.submit(item(4), priority="bulk")
        assert setup.engine.wide == [True, True, False, False]
    async with running(slots=2) as setup:
        await setup.submit(item(3))
        assert setup.engine.wide == [False], "there is no session for that"


async def test_an_interactive_batch_does_not_wait_for_bulk() -> None:
    async with running(slots=2, **WIDE) as setup:
        tasks = [await setup.hold(*[item(4) for _ in range(4)], priority="bulk")]
        await setup.started()
        tasks.append(asyncio.create_task(setup.submit(item(3))))
        await setup.started()
        assert lengths(setup.engine) == [[4], [4], [3]], "begun while both slots had bulk"
        assert setup.engine.wide == [False, False, True]
        setup.engine.gate.set()
        await asyncio.gather(*tasks)
    assert lengths(setup.engine)[3:] == [[4], [4]]


@pytest.mark.parametrize("held", [True, False])
async def test_no_bulk_starts_beside_an_exclusive_interactive_batch(held: bool) -> None:
    options = WIDE if held else {"tokens": 4}
    async with running(slots=2, **options) as setup:
        tasks = [await setup.hold(item(3))]
        tasks.append(asyncio.create_task(setup.submit(item(4), priority="bulk")))
        if held:
            await asyncio.sleep(0)  # it is submitted
            assert setup.scheduler._queue.waiting["bulk"] == 1, "though a slot is idle"
        else:
            await setup.started()
        setup.engine.gate.set()
        await asyncio.gather(*tasks)
    assert lengths(setup.engine) == [[3], [4]]
