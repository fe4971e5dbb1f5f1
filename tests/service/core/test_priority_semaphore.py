"""Who is next, and who leaves while waiting."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.wire.priority import PRIORITIES, Priority
from headlight_service.core.priority_semaphore import Turns
from headlight_service.core.scheduler.batch_policy import BULK_TURN

SOON, BULK = PRIORITIES


class Visit:
    """One who takes a turn, and has it until told."""

    def __init__(self, turns: Turns, priority: Priority) -> None:
        self.priority, self.inside, self._end = priority, False, asyncio.Event()
        self._turns = turns
        self.task = asyncio.create_task(self._visit())

    async def _visit(self) -> None:
        async with self._turns.take(self.priority):
            self.inside = True
            try:
                await self._end.wait()
            finally:
                self.inside = False

    def end(self) -> None:
        self._end.set()


async def settle() -> None:
    for _ in range(6):  # from one who leaves to one who waits, through asyncio.wait
        await asyncio.sleep(0)


@pytest.mark.parametrize(("count", "of_bulk"), [(1, 1), (2, 1), (4, 3)])
async def test_one_place_of_several_is_never_bulks(count: int, of_bulk: int) -> None:
    turns = Turns(count)
    visits = [Visit(turns, BULK) for _ in range(8)]
    await settle()
    assert sum(each.inside for each in visits) == of_bulk
    waited_for = Visit(turns, SOON)
    await settle()
    assert waited_for.inside == (count > 1)
    for each in visits[:of_bulk]:
        each.end()
    await settle()
    assert waited_for.inside
    for each in (*visits, waited_for):
        each.end()
    await asyncio.gather(waited_for.task, *(each.task for each in visits))


async def test_of_one_place_interactive_goes_before_bulk_that_waits_longer_but_not_for_ever() -> None:
    turns = Turns(1)
    current, bulk = Visit(turns, SOON), Visit(turns, BULK)
    waiting = [Visit(turns, SOON) for _ in range(2 * BULK_TURN)]
    order: list[Visit] = []
    everyone = [current, bulk, *waiting]
    while len(order) < len(everyone):
        await settle()
        [inside] = [each for each in everyone if each.inside]
        order.append(inside)
        inside.end()
    await settle()
    assert order.index(bulk) == BULK_TURN
    assert [each for each in order if each is not bulk] == [current, *waiting]


async def test_who_is_cancelled_as_his_turn_comes_gives_it_to_the_next() -> None:
    turns = Turns(1)
    first, leaves, next_one = Visit(turns, SOON), Visit(turns, BULK), Visit(turns, BULK)
    await settle()
    first.end()
    await first.task  # its place has been given to the second, who does not know yet
    leaves.task.cancel()
    await settle()
    assert leaves.task.cancelled()
    assert next_one.inside
    next_one.end()
    await next_one.task
    assert (turns._free, turns._free_to_bulk) == (1, 1)


@given(st.integers(1, 4), st.data())
def test_whoever_comes_leaves_or_is_cancelled_no_place_is_lost_or_given_twice(count: int, data: st.DataObject) -> None:
    async def live() -> None:
        turns, visits = Turns(count), list[Visit]()

        def act() -> None:
            what = data.draw(st.sampled_from(["soon", "bulk", "end", "cancel"] if visits else ["soon", "bulk"]))
            if what in ("soon", "bulk"):
                visits.append(Visit(turns, SOON if what == "soon" else BULK))
            elif what == "end":
                data.draw(st.sampled_from(visits)).end()
            else:
                data.draw(st.sampled_from(visits)).task.cancel()

        for _ in range(data.draw(st.integers(0, 30))):
            act()
            if data.draw(st.booleans()):
                await asyncio.sleep(0)
            inside = [each.priority for each in visits if each.inside]
            assert len(inside) <= count
            assert inside.count(BULK) <= max(1, count - 1)
        for _ in visits:  # each may be done as soon as it has its turn, and then it is the next one's
            await settle()
        inside = [each.priority for each in visits if each.inside]
        waiting = [each.priority for each in visits if not each.inside and not each.task.done()]
        assert len(inside) == count or SOON not in waiting, "nobody waits for a place that is free"
        assert inside.count(BULK) == max(1, count - 1) or len(inside) == count or BULK not in waiting
        for each in visits:
            each.end()
        await asyncio.gather(*(each.task for each in visits), return_exceptions=True)
        assert (turns._free, turns._free_to_bulk) == (count, max(1, count - 1))

    asyncio.run(live())
