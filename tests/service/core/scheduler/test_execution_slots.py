from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import ExecutionSlots, TakenSlot


def begin(
    slots: ExecutionSlots, priority: Priority, interactive: int = 0, wide: bool = True
) -> TakenSlot:
    return slots.begin(priority, interactive, wide)


def test_interactive_may_use_all_slots_and_bulk_the_remaining_ones() -> None:
    slots = ExecutionSlots(2)
    bulk = [begin(slots, "bulk"), begin(slots, "bulk")]
    assert (slots.idle("interactive"), slots.idle("bulk")) == (2, 0)
    interactive = begin(slots, "interactive")
    assert (slots.idle("interactive"), slots.idle("bulk")) == (1, 0)
    slots.end(bulk.pop())
    assert slots.idle("bulk") == 0
    slots.end(bulk.pop())
    assert slots.idle("bulk") == 1
    slots.end(interactive)
    assert (slots.idle("interactive"), slots.idle("bulk")) == (2, 2)


def test_an_exclusive_interactive_batch_holds_back_bulk() -> None:
    slots = ExecutionSlots(3)
    assert not begin(slots, "bulk").wide, (
        "nobody waits for it, and it would have them when somebody else comes"
    )
    first, held = begin(slots, "interactive"), [slots.hold_bulk]
    assert first.wide
    second = begin(slots, "interactive")
    assert not second.wide
    for done in (first, second):
        slots.end(done)
        held.append(slots.hold_bulk)
    assert held == [True, False, False]


def test_a_batch_with_others_waiting_uses_only_the_threads_of_its_slot() -> None:
    assert not begin(ExecutionSlots(2), "interactive", interactive=1).wide


def test_bulk_is_not_held_back_without_an_exclusive_session() -> None:
    slots = ExecutionSlots(2)
    begin(slots, "bulk")
    assert not begin(slots, "interactive", wide=False).wide
    assert not slots.hold_bulk


priorities = st.sampled_from(["interactive", "bulk"])


@given(
    st.integers(1, 4),
    st.lists(st.tuples(priorities, st.booleans(), st.integers(0, 9), st.booleans()), max_size=60),
)
def test_released_slots_admit_bulk_again(
    count: int, steps: list[tuple[Priority, bool, int, bool]]
) -> None:
    slots, running = ExecutionSlots(count), list[TakenSlot]()
    for priority, begins, place, wide in steps:
        if begins and slots.idle(priority):
            running.append(begin(slots, priority, place // 5, wide))
        elif running:
            slots.end(running.pop(place % len(running)))
        own = [started.priority for started in running]
        assert own.count("interactive") <= count
        assert own.count("bulk") <= count
        assert slots.hold_bulk == any(started.wide for started in running)
        assert sum(started.wide for started in running) <= 1
    for started in running:
        slots.end(started)
    assert (slots.idle("interactive"), slots.idle("bulk"), slots.hold_bulk) == (count, count, False)
