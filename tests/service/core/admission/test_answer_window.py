"""The answer window of a stream: its byte limit, and its order."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import CancelledError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_service.core.admission.answer_window import AnswerWindow
from tests.service.batching import at_once

LIMIT, FREE = 100, 10


class Visit:
    """Answer of so many bytes that enters the window, and its callbacks."""

    def __init__(self, window: AnswerWindow, size: int) -> None:
        self.size, self.times = size, 0
        self._window = window
        self._inside = window.enter(size, self.proceed)

    @property
    def inside(self) -> bool:
        return self._inside

    def proceed(self) -> None:
        assert not self._inside
        self._inside = True
        self.times += 1

    def leave(self) -> None:
        self._inside = False
        self._window.leave(self.size)

    def withdraw(self) -> bool:
        return self._window.withdraw(self.proceed)


def test_an_answer_that_keeps_a_part_makes_room_for_the_rest() -> None:
    window = AnswerWindow(LIMIT, FREE)
    _, second, third = Visit(window, 90), Visit(window, 50), Visit(window, 20)
    window.leave(90, 60)
    assert (second.inside, third.inside) == (False, False)
    window.leave(60, FREE)  # this part is not counted
    assert (second.inside, third.inside) == (True, True)
    window.leave(FREE)
    fourth = Visit(window, 31)
    assert not fourth.inside
    third.leave()
    assert fourth.inside


def test_an_answer_that_fits_enters_at_once_without_a_callback() -> None:
    window = AnswerWindow(LIMIT, FREE)
    visits = [Visit(window, 50), Visit(window, 50)]
    assert [each.inside for each in visits] == [True, True]
    third = Visit(window, 11)
    assert [each.inside for each in (*visits, third)] == [True, True, False]
    visits[0].leave()
    assert third.inside
    assert [each.times for each in (*visits, third)] == [0, 0, 1]


def test_a_withdrawn_answer_gets_no_callback_and_holds_nothing() -> None:
    window = AnswerWindow(LIMIT, FREE)
    first, gone, behind = Visit(window, LIMIT), Visit(window, LIMIT), Visit(window, LIMIT)
    assert gone.withdraw()
    assert not gone.withdraw()
    first.leave()
    assert (gone.inside, behind.inside) == (False, True)
    assert not behind.withdraw(), "it waits no longer"
    behind.leave()
    assert Visit(window, LIMIT).inside


def test_no_answer_overtakes_a_waiting_one() -> None:
    window = AnswerWindow(LIMIT, FREE)
    first, large, fits = Visit(window, 60), Visit(window, 80), Visit(window, 20)
    assert (large.inside, fits.inside) == (False, False)
    first.leave()
    assert (large.inside, fits.inside) == (True, True)


def test_withdrawing_admits_the_answers_behind_that_fit() -> None:
    window = AnswerWindow(LIMIT, FREE)
    first, large, fits, too_much = (
        Visit(window, 60),
        Visit(window, 80),
        Visit(window, 20),
        Visit(window, 21),
    )
    assert large.withdraw()
    assert (fits.inside, too_much.inside) == (True, False)
    first.leave()
    assert too_much.inside


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 250), st.integers(0, 99)), max_size=60))
def test_answers_enter_in_order_within_the_limit_except_a_single_large_one(
    steps: list[tuple[int, int, int]],
) -> None:
    window = AnswerWindow(LIMIT, FREE)
    inside, waiting = list[Visit](), list[Visit]()
    for what, size, place in steps:
        if what == 0:
            visit = Visit(window, size)
            assert not (visit.inside and waiting and size > FREE), "it overtakes"
            (inside if visit.inside else waiting).append(visit)
        elif what == 1 and inside:
            inside.pop(place % len(inside)).leave()
        elif what == 2 and waiting:
            assert waiting.pop(place % len(waiting)).withdraw()
        let_in = [each for each in waiting if each.inside]
        assert let_in == waiting[: len(let_in)], "first come, first served"
        del waiting[: len(let_in)]
        inside += let_in
        counted = [each.size for each in inside if each.size > FREE]
        assert sum(counted) <= LIMIT or len(counted) == 1
        assert all(each.size > FREE for each in waiting)
        if waiting:
            assert counted, "nothing waits for nothing"
            assert sum(counted) + waiting[0].size > LIMIT


def test_concurrent_enter_and_leave_lose_nothing() -> None:
    window, lock = AnswerWindow(LIMIT, FREE), threading.Lock()
    held, most = 0, 0

    def visit(_: int) -> None:
        nonlocal held, most
        for _ in range(500):
            may_go = threading.Event()
            if not window.enter(40, may_go.set):
                assert may_go.wait(30)
            with lock:
                held += 40
                most = max(most, held)
            with lock:
                held -= 40
            window.leave(40)

    at_once(visit)
    assert (held, most <= LIMIT) == (0, True)
    assert Visit(window, 10 * LIMIT).inside, "nothing is held"


def test_a_chain_of_admissions_does_not_recurse() -> None:
    """Each admitted answer leaves at once, as a refused answer does."""
    window, let_in = AnswerWindow(10, free_bytes=0), list[int]()

    def proceed(number: int) -> None:
        let_in.append(number)
        window.leave(10)

    assert window.enter(10, functools.partial(proceed, -1))
    waiting = [functools.partial(proceed, number) for number in range(5000)]
    assert not any(window.enter(10, each) for each in waiting)
    window.leave(10)
    assert let_in == list(range(5000))
    assert window.enter(10, functools.partial(proceed, -1)), "nothing is held any more"


def test_nothing_enters_once_the_stream_ends() -> None:
    window = AnswerWindow(LIMIT, FREE)
    first, waits = Visit(window, LIMIT), Visit(window, LIMIT)
    window.close()
    first.leave()
    with pytest.raises(CancelledError):
        Visit(window, LIMIT)
    assert not waits.inside
