"""The core's entry point without a frontend.

From any thread to an answer, with everything released in every case.
"""

from __future__ import annotations

import threading
import time
import weakref
from array import array
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from headlight.errors import DeadlineExceeded, EngineError, InvalidInput, NotFound, Unavailable
from headlight.runtime.encode_items import EncodeItem
from headlight.spec import AttentionSpec
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.rate_limit import TOKENIZED_PER_COMPUTED
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import OutputSpec, Pair, Request, TokenIds
from headlight_service.core.tokenizer_threads import TokenizerThreads
from tests.service.batching import at_once
from tests.service.core.pipelines import (
    LONG,
    OVERHEAD,
    VECTOR_BYTES,
    Core,
    Form,
    Pieces,
    answered,
    cancelled,
    core,
    hold,
    quotas_of,
    refused,
    submit,
)
from tests.service.fakes import DIM, FAILURE, result


def test_the_answer_is_in_the_order_of_the_inputs(made: Core) -> None:
    ids = TokenIds(array("q", [5, 6]), array("q", []))
    form = Form()
    answer = answered(submit(made, "a bb", Pair("ccc", "d"), ids, form=form))
    tokens = [[1, 2], [3, 1], [5, 6]]
    for got, expected in zip(answer.results, tokens, strict=True):
        item = EncodeItem(np.array(expected), answer.prepared.selection)
        np.testing.assert_array_equal(got.pooled, result(item).pooled)
    [vectors] = answer.pooled()
    assert vectors.shape == (3, DIM)
    assert [part.output.name for part in answer.parts()] == ["pooled"]
    assert (answer.prepared.tokens, answer.prepared.data_bytes) == (6, 3 * VECTOR_BYTES)
    assert form.asked == [(made.model.ref, answer.prepared, None)]
    assert made.sample("headlight_texts_total", priority="interactive") == 3
    assert made.sample("headlight_tokens_total", priority="interactive") == 6


def test_parts_of_an_answer_come_output_by_output(made: Core) -> None:
    outputs = OutputSpec(tokens=True, attention=AttentionSpec(layers=(0,)))
    answer = answered(submit(made, "a b", "c", outputs=outputs))
    parts = list(answer.parts())
    assert [(part.output.name, part.item) for part in parts] == [
        ("pooled", 0),
        *(("tokens", at) for at in range(2)),
        *(("attention", at) for at in range(2)),
    ]
    assert all(len(part.axes) == part.array.ndim for part in parts)
    assert parts[1].axes == ("token", "value")


def test_a_waiting_thread_computes_itself_if_a_slot_is_idle(made: Core) -> None:
    own = threading.current_thread().name
    handle = submit(made, may_compute=True)
    assert handle.future.done(), "before anybody waits"
    assert (made.tokenizer.threads, made.computing) == ([own], [own])
    answered(handle)
    answered(submit(made))
    assert made.computing[1].startswith("engine")
    answered(submit(made, LONG, may_compute=True))
    assert made.tokenizer.threads[-1].startswith("tokenize")
    assert made.computing[2].startswith("engine"), "the caller's thread has returned by then"
    answered(submit(made, may_compute=True, priority="bulk"))
    assert made.computing[3].startswith("bulk")


def test_concurrent_submissions_get_their_own_answers() -> None:
    with core(slots=2) as made:

        def ask(own: int) -> None:
            for turn in range(40):
                text = "x" * (1 + own) + " y" * (turn % 5)
                inputs = [text, LONG] if turn % 10 == own else [text]
                handle = submit(made, *inputs, may_compute=bool(turn % 2), size_bytes=3)
                if turn % 7 == own:
                    handle.cancel()
                    handle.close()
                    continue
                answer = answered(handle)
                assert len(answer.results) == len(inputs)
                item = EncodeItem(np.array([1 + own] + [1] * (turn % 5)), answer.prepared.selection)
                np.testing.assert_array_equal(answer.results[0].pooled, result(item).pooled)

        at_once(ask)
        made.passed()
        made.computed()


def test_a_dry_run_is_tokenised_and_not_computed() -> None:
    with core(quotas=quotas_of(1000)) as made:
        for text in ("a bb", LONG):
            handle = submit(made, text, dry_run=True, client="c", window=AnswerWindow(1, 0))
            answer = handle.result()
            assert (answer.results, answer.prepared.tokens) == ([], len(text.split()))
            assert answer.timings.tokenize_ns > 0
            assert list(answer.parts()) == []
            assert handle.answer_bytes == OVERHEAD
            handle.close()
        assert made.engine.batches == []


def test_tokens_alone_are_answered_without_the_engine(made: Core) -> None:
    outputs = OutputSpec(pooled=False, token_info=True)
    answer = answered(submit(made, "a bb", outputs=outputs))
    assert [each.pooled for each in answer.results] == [None]
    assert answer.prepared.with_info
    assert answer.prepared.inputs[0].info is not None
    assert made.engine.batches == []


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"inputs": [""]}, InvalidInput, "invalid_input"),
        ({"inputs": []}, InvalidInput, "invalid_input"),
        ({"inputs": ["a"], "prompt_name": "unknown"}, InvalidInput, "invalid_input"),
        ({"inputs": ["a"], "deadline": 0.0}, DeadlineExceeded, "deadline_exceeded"),
        ({"inputs": [LONG, ""]}, InvalidInput, "invalid_input"),
        ({"inputs": ["a"], "size_bytes": 1 << 40}, Shed, "request_bytes"),
    ],
    ids=["empty", "none", "prompt", "late", "on a thread", "large"],
)
def test_failures_are_reported_and_counted_once(
    made: Core, fields: dict[str, Any], kind: type[Exception], reason: str
) -> None:
    handle = made.pipeline.submit(Request(**fields), Form())
    refused(handle, kind)
    handle.cancel()  # too late
    made.passed()
    assert made.held == (0, 0, 0)
    assert made.sample("headlight_rejected_total", reason=reason) == 1
    assert cancelled(made) == {}
    assert made.engine.batches == []


def test_a_form_that_cannot_carry_the_answer_refuses_it(made: Core) -> None:
    error = refused(submit(made, form=Form(InvalidInput("outputs", "is too large"))), InvalidInput)
    assert error.field == "outputs"
    assert made.held == (0, 0, 0)
    assert made.engine.batches == []


def test_an_engine_failure_fails_the_request_and_is_not_charged() -> None:
    quotas = quotas_of(1000)
    with core(quotas=quotas) as made:
        made.engine.fail()
        window = AnswerWindow(10**6, 0)
        error = refused(submit(made, client="c", window=window), EngineError)
        assert error.message == FAILURE
        assert made.held == (0, 0, 0)
        assert quotas.of("c").level == 1000 - 2 / TOKENIZED_PER_COMPUTED, "the two tokens were read"
        assert window.enter(10**6, lambda: pytest.fail("the window was left"))


def test_a_client_without_quota_is_refused_before_reading() -> None:
    quotas = quotas_of(10)
    with core(quotas=quotas) as made:
        answered(submit(made, "a " * 10, client="c"))
        error = refused(submit(made, client="c"), Shed)
        assert error.shortage is Shortage.QUOTA
        assert len(made.tokenizer.texts) == 1, "the first has shown about how many tokens it has"
        ids = TokenIds(array("q", [1] * 4), array("q", []))
        assert refused(submit(made, ids, client="c"), Shed).shortage is Shortage.QUOTA
        answered(submit(made, "a " * 10, client="another"))
        answered(submit(made, "a " * 10))
        assert made.sample("headlight_rejected_total", reason="quota") == 2


def test_a_deadline_in_the_queue_ends_the_wait(made: Core) -> None:
    first = hold(made)
    late = submit(made, deadline=time.monotonic() + 0.05)
    error = refused(late, DeadlineExceeded)
    assert "inputs that had not started are discarded" in error.message
    assert made.held == (0, 2, VECTOR_BYTES + OVERHEAD), "the first"
    made.engine.gate.set()
    answered(first)


def test_a_late_request_is_refused_once_its_tokens_are_counted(made: Core) -> None:
    made.model.estimate.worked_off(tokens=1, seconds=1.0)
    first = hold(made)
    error = refused(submit(made, "a " * 50, deadline=time.monotonic() + 30), Shed)
    assert error.shortage is Shortage.DEADLINE
    assert "52.00 s" in error.message
    assert made.tokenizer.texts[-1].startswith("a a"), (
        "its own work was not known before it was read"
    )
    made.engine.gate.set()
    answered(first)


def test_an_unknown_model_fails_the_request(made: Core) -> None:
    handle = submit(made, model="unknown")
    refused(handle, NotFound)
    handle.cancel()
    assert handle.close() == 0
    tokenizers = TokenizerThreads(1)
    handle = Pipeline(Models(), tokenizers).submit(Request(["a"]), Form())
    assert "still being loaded" in refused(handle, Unavailable).message
    tokenizers.close()


def test_a_draining_service_accepts_nothing(made: Core) -> None:
    made.model.scheduler.close()
    refused(submit(made, size_bytes=9), Unavailable)
    assert made.held == (0, 0, 0)


def test_results_are_released_once_taken(made: Core) -> None:
    handle = submit(made)
    array_ = weakref.ref(handle.result().results[0].pooled)
    made.engine.batches.clear()
    made.computed()
    handle.close()
    end = time.monotonic() + 30
    while array_() is not None and time.monotonic() < end:
        made.passed()  # the engine's thread may do so a moment later
    assert array_() is None, "though the handle is still there"
    assert handle.future.done() is False


@pytest.mark.parametrize("text", ["a bb", LONG], ids=["in place", "on a thread"])
def test_tokens_are_answered_in_the_requested_form(made: Core, text: str) -> None:
    handle = made.pipeline.tokenize(Request([text, "c"], size_bytes=9), Pieces())
    answer = handle.result()
    assert answer.startswith(b"fake 2: piece")
    assert answer.endswith(b"|piece1")
    assert made.held == (9, 0, len(answer))
    handle.close()
    assert made.tokenizer.threads[0].startswith("tokenize") == (text == LONG)
    assert made.engine.batches == []


@pytest.mark.parametrize("reading", [False, True], ids=["waiting", "reading"])
def test_a_tokenize_request_can_be_cancelled(reading: bool) -> None:
    with core(quotas=quotas_of(1000)) as made:
        made.tokenizer.may_read.clear()
        first = None if reading else submit(made, LONG)
        handle = made.pipeline.tokenize(Request([LONG, LONG], size_bytes=9, client="c"), Pieces())
        assert made.tokenizer.reading.acquire(timeout=30)
        handle.cancel()
        handle.close()
        assert cancelled(made) == {"tokenize": 1}
        assert handle.future.cancelled()
        assert made.held == ((9, 0, 0) if reading else (0, 0, 0))
        made.tokenizer.may_read.set()
        if first is not None:
            answered(first)
        made.passed()
        assert made.held == (0, 0, 0)
        assert len(made.tokenizer.texts) == 1, "one text of two, or the other's"


def test_a_failure_to_encode_tokens_fails_the_request(made: Core) -> None:
    for text in ("a", LONG):
        error = refused(
            made.pipeline.tokenize(Request([text, ""], size_bytes=9), Pieces()), InvalidInput
        )
        assert error.field == "inputs[1].text"
    made.passed()
    assert made.held == (0, 0, 0)
    assert made.sample("headlight_rejected_total", reason="invalid_input") == 2


def test_future_callbacks_are_called_once(made: Core) -> None:
    ends: list[Future[Answer]] = []
    first = submit(made)
    first.future.add_done_callback(ends.append)
    answered(first)
    made.engine.gate.clear()
    second = submit(made)
    second.future.add_done_callback(ends.append)
    made.started()
    second.cancel()
    made.engine.gate.set()
    made.computed()
    assert [each.cancelled() for each in ends] == [False, True]
