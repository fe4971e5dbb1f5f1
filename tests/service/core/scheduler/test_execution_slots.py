from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headlight.wire.priority import Priority
from headlight_service.core.scheduler.execution_slots import Started, Streams


def begin(streams: Streams, priority: Priority, interactive: int = 0, wide: bool = True) -> Started:
    return streams.begin(priority, interactive, wide)


def test_what_is_interactive_has_all_streams_and_bulk_those_that_it_leaves() -> None:
    streams = Streams(2)
    bulk = [begin(streams, "bulk"), begin(streams, "bulk")]
    assert (streams.idle("interactive"), streams.idle("bulk")) == (2, 0)
    interactive = begin(streams, "interactive")
    assert (streams.idle("interactive"), streams.idle("bulk")) == (1, 0)
    streams.end(bulk.pop())
    assert streams.idle("bulk") == 0
    streams.end(bulk.pop())
    assert streams.idle("bulk") == 1
    streams.end(interactive)
    assert (streams.idle("interactive"), streams.idle("bulk")) == (2, 2)


def test_the_only_interactive_batch_has_all_threads_and_holds_back_bulk_until_it_is_done() -> None:
    streams = Streams(3)
    assert not begin(streams, "bulk").wide, "nobody waits for it, and it would have them when somebody else comes"
    first, held = begin(streams, "interactive"), [streams.hold_bulk]
    assert first.wide
    second = begin(streams, "interactive")
    assert not second.wide
    for done in (first, second):
        streams.end(done)
        held.append(streams.hold_bulk)
    assert held == [True, False, False]


def test_a_batch_behind_which_others_of_its_kind_wait_has_the_threads_of_its_stream() -> None:
    assert not begin(Streams(2), "interactive", interactive=1).wide


def test_where_no_session_has_all_threads_bulk_is_not_held_back() -> None:
    streams = Streams(2)
    begin(streams, "bulk")
    assert not begin(streams, "interactive", wide=False).wide
    assert not streams.hold_bulk


priorities = st.sampled_from(["interactive", "bulk"])


@given(st.integers(1, 4), st.lists(st.tuples(priorities, st.booleans(), st.integers(0, 9), st.booleans()), max_size=60))
def test_streams_come_back_and_bulk_is_let_go(count: int, steps: list[tuple[Priority, bool, int, bool]]) -> None:
    streams, running = Streams(count), list[Started]()
    for priority, begins, place, wide in steps:
        if begins and streams.idle(priority):
            running.append(begin(streams, priority, place // 5, wide))
        elif running:
            streams.end(running.pop(place % len(running)))
        own = [started.priority for started in running]
        assert own.count("interactive") <= count
        assert own.count("bulk") <= count
        assert streams.hold_bulk == any(started.wide for started in running)
        assert sum(started.wide for started in running) <= 1
    for started in running:
        streams.end(started)
    assert (streams.idle("interactive"), streams.idle("bulk"), streams.hold_bulk) == (count, count, False)
