"""Requests that wait for room for their answers. Those that wait for the queue: see
test_waiting_for_room."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.requests.request import OcclusionRequest, Request
from headlight_service.frontends.contract.request_decoding import OCCLUSION
from tests.service.core.pipelines import (
    LONG,
    Core,
    Form,
    Pieces,
    answered,
    core,
    hold,
    quotas_of,
    refused,
    submit,
)


@contextlib.contextmanager
def full_outputs(made: Core) -> Iterator[None]:
    """Leave no room for answers."""
    admission = made.model.admission
    taken = admission.outputs.free
    admission.outputs.take(taken)
    try:
        yield
    finally:
        with admission.lock:
            admission.give_output(taken)


def test_a_waiting_request_is_answered_once_there_is_room(made: Core) -> None:
    queued = threading.Event()
    with full_outputs(made):
        refused(submit(made), Shed)
        request = Request(["a bb"], waits=True)
        handle = made.pipeline.submit(request, Form(), when_queued=queued.set)
        assert not queued.is_set()
    assert len(answered(handle).results) == 1
    assert queued.is_set()
    assert made.sample("headlight_rejected_total", reason="output_bytes") == 1, "the first"


def test_a_waiting_request_keeps_its_request_bytes() -> None:
    with core(max_queue_bytes=100) as made:
        with full_outputs(made):
            handle = submit(made, waits=True, size_bytes=60)
            assert made.held[:2] == (60, 0)
            error = refused(submit(made, waits=True, size_bytes=60), Shed)
            assert error.shortage is Shortage.REQUEST_BYTES
            assert error.retry_after_seconds is not None
        answered(handle)


def test_a_waiting_request_is_refused_at_once_if_its_quota_is_used_up() -> None:
    with core(quotas=quotas_of(1)) as made:
        answered(submit(made, "a", client="c"))
        error = refused(submit(made, "a", waits=True, client="c"), Shed)
        assert error.shortage is Shortage.QUOTA
        assert error.retry_after_seconds is not None


def test_the_wait_ends_at_the_deadline() -> None:
    with core() as made, full_outputs(made):
        late = submit(made, waits=True, deadline=time.monotonic() + 0.05)
        error = refused(late, Shed)
        assert error.shortage is Shortage.OUTPUT_BYTES
        assert "outputs.pooled" in error.message


def test_a_cancelled_request_waits_no_longer(made: Core) -> None:
    with full_outputs(made):
        handle = submit(made, waits=True)
        handle.cancel()
        assert made.model.admission._waiting.count == 0
    assert handle.future.cancelled()


def test_a_dry_run_waits_for_room(made: Core) -> None:
    with full_outputs(made):
        handle = submit(made, waits=True, dry_run=True)
        assert not handle.future.done()
    assert answered(handle).results == []


@pytest.mark.parametrize("text", ["a bb", LONG], ids=["short", "long"])
def test_a_request_for_tokens_waits_for_room(made: Core, text: str) -> None:
    with full_outputs(made):
        handle = made.pipeline.tokenize(Request([text], waits=True), Pieces())
        made.passed()
        assert not handle.future.done()
    assert answered(handle).startswith(b"fake 1: ")


def test_a_waiting_occlusion_is_not_refused_for_the_estimated_wait(made: Core) -> None:
    first = hold(made)
    made.model.estimate.worked_off(tokens=1, seconds=100.0)
    soon = time.monotonic() + 60
    for waits in (False, True):
        wanted = OcclusionRequest(["a bb"], OCCLUSION, waits=waits, deadline=soon)
        handle = made.pipeline.submit(wanted, Form())
        if not waits:
            assert refused(handle, Shed).shortage is Shortage.DEADLINE
    assert not handle.future.done()
    handle.cancel()
    made.engine.gate.set()
    answered(first)
