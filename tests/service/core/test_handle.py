"""Cancellation at each stage: everything is released."""

from __future__ import annotations

import time
import weakref
from concurrent.futures import CancelledError
from typing import Any

import pytest

from headlight.errors import InvalidInput
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.rate_limit import TOKENIZED_PER_COMPUTED
from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer
from tests.service.core.pipelines import (
    LONG,
    OVERHEAD,
    VECTOR_BYTES,
    Core,
    Trace,
    answered,
    cancelled,
    core,
    quotas_of,
    refused,
    submit,
)


class Stage:
    """Request that is brought to a stage and stays there."""

    def __init__(self, made: Core, **fields: Any) -> None:
        self.made, self.fields = made, {"size_bytes": 50, "client": "c", **fields}
        self.window = AnswerWindow(VECTOR_BYTES, 0)
        self.begun: list[Handle[Answer]] = []

    def submit(self, text: str = "a bb") -> Handle[Answer]:
        return submit(self.made, text, window=self.window, **self.fields)

    def waiting_for_a_thread(self) -> Handle[Answer]:
        self.made.tokenizer.may_read.clear()
        self.begun.append(submit(self.made, LONG))
        assert self.made.tokenizer.reading.acquire(timeout=30)
        return self.submit(LONG)

    def tokenising(self) -> Handle[Answer]:
        self.made.tokenizer.may_read.clear()
        handle = self.submit(LONG)
        assert self.made.tokenizer.reading.acquire(timeout=30)
        return handle

    def waiting_for_the_window(self) -> Handle[Answer]:
        assert self.window.enter(VECTOR_BYTES, lambda: pytest.fail("it entered at once"))
        return self.submit()

    def queued(self) -> Handle[Answer]:
        self.made.engine.gate.clear()
        self.begun.append(submit(self.made))
        self.made.started()
        return self.submit()

    def computing(self) -> Handle[Answer]:
        self.made.engine.gate.clear()
        handle = self.submit()
        self.made.started()
        return handle

    def end(self) -> None:
        """Let all other requests finish."""
        self.made.tokenizer.may_read.set()
        self.made.engine.gate.set()
        for each in self.begun:
            answered(each)


STAGES = {
    "waiting_for_a_thread": ("tokenize", (50, 0, 0)),
    "tokenising": ("tokenize", (50, 0, 0)),
    "waiting_for_the_window": ("queue", (50, 0, 0)),
    "queued": ("queue", (50, 2, VECTOR_BYTES + OVERHEAD)),
    "computing": ("infer", (50, 2, VECTOR_BYTES + OVERHEAD)),
}


@pytest.mark.parametrize("by_caller", [True, False])
@pytest.mark.parametrize("name", STAGES)
def test_a_request_can_be_cancelled_at_each_stage(name: str, by_caller: bool) -> None:
    counted, holds = STAGES[name]
    quotas = quotas_of(1000)
    with core(quotas=quotas) as made:
        stage = Stage(made)
        before = made.held
        handle: Handle[Answer] = getattr(stage, name)()
        others = (
            made.held
            if not stage.begun
            else tuple(a - b for a, b in zip(made.held, holds, strict=True))
        )
        assert stage.begun or made.held == tuple(a + b for a, b in zip(before, holds, strict=True))
        paid = quotas.of("c").level
        handle.cancel(by_caller=by_caller)
        handle.close()  # as a frontend that does not know which came first
        handle.cancel()  # a second time: nothing
        assert handle.cancelled
        assert handle.future.cancelled()
        assert cancelled(made) == ({counted: 1} if by_caller else {})
        if name == "computing":
            assert made.held == (0, *holds[1:]), "an engine works for it"
        elif name == "tokenising":
            assert made.held == holds, "a thread holds what the bytes stand for"
        elif stage.begun:
            assert made.held == others
        else:
            assert made.held == (0, 0, 0)
        stage.end()
        made.passed()
        made.computed()
        assert made.held == (0, 0, 0)
        if name != "tokenising":
            assert quotas.of("c").level == paid, "what was paid stays paid"
        with pytest.raises(CancelledError):
            handle.result()
        if name == "waiting_for_the_window":
            stage.window.leave(VECTOR_BYTES)
        assert stage.window.enter(100 * VECTOR_BYTES, lambda: pytest.fail("the window was left")), (
            "by all"
        )
        ran = sum(len(batch) for batch in made.engine.batches)
        assert ran == len(stage.begun) + (name == "computing"), "for nobody nothing is begun"
        assert made.sample("headlight_rejected_total", reason="internal") == 0


@pytest.mark.parametrize("name", STAGES)
def test_a_cancelled_request_is_released(made: Core, name: str) -> None:
    stage = Stage(made)
    handle: Handle[Answer] = getattr(stage, name)()
    held = weakref.ref(handle)
    handle.cancel()
    stage.end()
    made.passed()
    made.computed()
    made.engine.batches.clear()
    if name == "waiting_for_the_window":
        stage.window.leave(VECTOR_BYTES)
    del handle
    end = time.monotonic() + 30
    while held() is not None and time.monotonic() < end:
        made.passed()  # a thread may release it a moment later
    assert held() is None


@pytest.mark.parametrize(
    ("stage", "paid"), [("prepared", 1 / TOKENIZED_PER_COMPUTED), ("queue", 1)]
)
def test_cancelling_between_two_steps_of_a_thread_holds_nothing(stage: str, paid: float) -> None:
    quotas = quotas_of(10**6)
    with core(quotas=quotas) as made:
        trace, window, handles = Trace(), AnswerWindow(10**6, 0), list[Handle[Answer]]()

        def leave(reached: str) -> None:
            if reached == stage:
                handles[0].cancel()
                handles[0].close()

        trace.act = leave
        with made.busy_tokenizer():
            handles.append(submit(made, LONG, trace=trace, window=window, client="c", size_bytes=9))
        made.passed()
        assert handles[0].future.cancelled()
        assert made.held == (0, 0, 0)
        assert window.enter(10**6, lambda: pytest.fail("the window was left"))
        assert quotas.of("c").level == 10**6 - paid * len(LONG.split()), "what was paid stays paid"
        assert made.engine.batches == []
        assert sum(cancelled(made).values()) == 1


def test_an_answer_before_the_tokenizer_thread_returns_closes_as_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quotas = quotas_of(10**6)
    with core(quotas=quotas) as made:
        scheduler, kept = made.model.scheduler, list[int]()
        compute = scheduler.submit
        # The answer comes before the submitting thread returns.
        monkeypatch.setattr(
            scheduler, "submit", lambda pending, may_compute: compute(pending, may_compute=True)
        )
        with made.busy_tokenizer():
            handle = submit(made, LONG, client="c", size_bytes=9)
            handle.future.add_done_callback(
                lambda _: kept.append(handle.close(keep_answer_bytes=5))
            )
        assert len(handle.result().results) == 1
        made.passed()
        assert made.computing[0].startswith("tokenize")
        assert kept == [5]
        assert made.held == (0, 0, 5)
        handle.release(5)
        assert quotas.of("c").level == 10**6 - len(LONG.split()), "it was computed, and is paid"


@pytest.mark.parametrize("may_compute", [True, False])
def test_an_answer_is_held_until_it_is_closed(made: Core, may_compute: bool) -> None:
    """Also if the thread that submits it computes it, or an engine answers before it returns."""
    window = AnswerWindow(10**6, 0)
    handle = submit(made, size_bytes=9, window=window, may_compute=may_compute)
    handle.result()
    made.computed()
    assert made.held == (9, 0, VECTOR_BYTES + OVERHEAD)
    assert made.model.bound == 1
    assert not window.enter(10**6, lambda: None)
    handle.close()
    assert made.held == (0, 0, 0)
    assert made.model.bound == 0


@pytest.mark.parametrize("closes", [True, False])
def test_a_request_that_is_given_up_while_it_is_answered_holds_nothing(
    made: Core, closes: bool
) -> None:
    """As a frontend does at a deadline: it cancels and closes, whichever comes first."""
    trace = Trace()
    handles = list[Handle[Answer]]()

    def give_up(stage: str) -> None:
        if stage == "reply":
            handles[0].cancel()
            if closes:
                handles[0].close()

    trace.act = give_up
    with made.busy_tokenizer():
        handles.append(submit(made, LONG, trace=trace, size_bytes=9))
    refused(handles[0], CancelledError)
    made.passed()
    made.computed()
    assert made.held == (0, 0, 0)
    assert sum(cancelled(made).values()) == 1


def test_a_refused_request_keeps_no_frames_of_its_steps(made: Core) -> None:
    """They hold its inputs, and its bytes are given back."""
    error = refused(submit(made, "a " * 10**5), InvalidInput)
    assert error.__context__ is None
    assert error.__cause__ is None
