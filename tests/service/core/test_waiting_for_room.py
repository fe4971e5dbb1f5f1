"""Requests that wait for room in the queue instead of being refused."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from headlight.errors import DeadlineExceeded
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.handle import Handle
from tests.service.core.pipelines import (
    LONG,
    Core,
    answered,
    cancelled,
    core,
    refused,
    submit,
    until,
)

# Bulk may hold 35 tokens: three texts of 11.
OPTIONS: dict[str, Any] = {"max_queue_tokens": 40, "max_request_tokens": 20}
ELEVEN = "word " * 11


def bulk(made: Core, text: str = ELEVEN, **fields: Any) -> Handle[Any]:
    return submit(made, text, priority="bulk", waits=True, **fields)


def full(made: Core) -> list[Handle[Any]]:
    """Fill bulk's part of the queue, with an engine that is held."""
    made.engine.gate.clear()
    handles = [bulk(made) for _ in range(3)]
    made.started()
    assert made.held[1] == 33
    return handles


def test_a_waiting_request_is_queued_once_there_is_room() -> None:
    with core(**OPTIONS) as made:
        handles = full(made)
        waiting = [bulk(made) for _ in range(3)]
        assert made.held[1] == 33
        refused(submit(made, ELEVEN, priority="bulk"), Shed)  # it does not wait
        made.engine.gate.set()
        for handle in handles + waiting:
            assert len(answered(handle).results) == 1


@pytest.mark.parametrize("seconds", [0.05, -1])
def test_a_waiting_request_is_refused_at_its_deadline_with_a_retry_delay(seconds: float) -> None:
    with core(**OPTIONS) as made:
        handles = full(made)
        error = refused(bulk(made, deadline=time.monotonic() + seconds), Shed)
        assert error.shortage is Shortage.QUEUE_TOKENS
        assert error.retry_after_seconds > 0
        made.engine.gate.set()
        for handle in handles:
            answered(handle)


def test_the_first_that_leaves_makes_way_for_the_next() -> None:
    """It may need more room than there is; the next one does not."""
    with core(**OPTIONS) as made:
        made.engine.gate.clear()
        first = bulk(made)
        made.started()
        second = bulk(made)
        long, short = bulk(made, "long " * 20), bulk(made, "a b c")
        assert made.held[1] == 22
        long.cancel()
        refused(long, CancelledError)
        assert cancelled(made) == {"queue": 1}
        assert made.held[1] == 25
        made.engine.gate.set()
        for handle in (first, second, short):
            answered(handle)


def test_a_deadline_that_passes_while_a_text_waits_for_a_thread_is_noticed(made: Core) -> None:
    with made.busy_tokenizer():
        late = submit(made, LONG, deadline=time.monotonic() + 0.02)
        until(lambda: time.monotonic() > late.request.deadline, "time stands still")
    refused(late, DeadlineExceeded)
    made.passed()
    assert made.tokenizer.texts == []
    assert made.engine.batches == []
