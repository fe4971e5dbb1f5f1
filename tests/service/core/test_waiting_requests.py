"""Requests that wait for room for their answers. Those that wait for the queue: see
test_waiting_for_room."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from headlight_service.core import handle as handles
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.requests.request import Request
from tests.service.core.pipelines import Core, Form, answered, core, refused, submit

SOON_SECONDS = 0.01


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "LONGEST_PAUSE_SECONDS", SOON_SECONDS)


@contextlib.contextmanager
def full_outputs(made: Core) -> Iterator[None]:
    """Leave no room for answers."""
    outputs = made.model.admission.outputs
    taken = outputs.free
    outputs.take(taken)
    try:
        yield
    finally:
        outputs.take(-taken)


def test_a_waiting_request_is_answered_once_there_is_room() -> None:
    queued = threading.Event()
    with core() as made:
        with full_outputs(made):
            refused(submit(made), Shed)
            request = Request(["a bb"], waits=True)
            handle = made.pipeline.submit(request, Form(), when_queued=queued.set)
            with pytest.raises(TimeoutError):
                handle.future.result(20 * SOON_SECONDS)
            assert not queued.is_set()
            assert made.held[:2] == (0, 0), "it holds nothing while it waits"
        assert len(answered(handle).results) == 1
        assert queued.is_set()
        assert made.sample("headlight_rejected_total", reason="output_bytes") == 1, "the first"


def test_the_wait_ends_at_the_deadline() -> None:
    with core() as made, full_outputs(made):
        late = submit(made, waits=True, deadline=time.monotonic() + 10 * SOON_SECONDS)
        error = refused(late, Shed)
        assert error.shortage is Shortage.OUTPUT_BYTES


def test_a_cancelled_request_waits_no_longer() -> None:
    with core() as made:
        with full_outputs(made):
            handle = submit(made, waits=True)
            handle.cancel()
        assert handle.future.cancelled()


@pytest.mark.parametrize(
    "shed", [Shed("too large", Shortage.MEMORY), Shed("too late", Shortage.DEADLINE, 1.0)]
)
def test_a_request_that_no_wait_helps_is_refused(shed: Shed) -> None:
    with core() as made:
        assert refused(submit(made, waits=True, form=Form(shed)), Shed) is shed
