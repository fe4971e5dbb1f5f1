"""Requests for vectors of spans in the core: what they hold, are charged and are counted as."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headlight.errors import DeviceLost, InvalidInput, NotFinite
from headlight.runtime.values import Floats, Tokenized
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import AttentionSpec, HiddenSpec, Span
from headlight_service.core.admission.shed_error import Shed
from headlight_service.core.requests.request import OutputSpec
from tests.service.core.pipelines import (
    OVERHEAD,
    Core,
    answered,
    core,
    hold,
    quotas_of,
    refused,
    submit,
)
from tests.service.fakes import DIM, MAX_LENGTH

SUM_BYTES, WIDTH_ONE_BYTES = 8, 4
MANY = 10_000


def with_characters(made: Core) -> None:
    """Let tokens stand at the characters of their words, as given spans need, and have a head."""
    encode = made.tokenizer.encode

    def located(text: str, *rest: Any, **options: Any) -> Tokenized:
        found: Tokenized = encode(text, *rest, **options)
        assert found.info is not None
        object.__setattr__(found.info, "starts", tuple(range(len(found.ids))))
        object.__setattr__(found.info, "ends", tuple(range(1, len(found.ids) + 1)))
        return found

    made.tokenizer.encode = located  # type: ignore[method-assign]
    made.engine.head = Head()


class Head:
    """Layers behind pooling that return their input; they can fail, and take time."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[int] = []
        self.error, self.seconds = error, 0.0

    def __call__(self, vectors: Floats) -> Floats:
        self.calls.append(len(vectors))
        if self.error is not None:
            raise self.error
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            pass
        return vectors


def given(count: int, inputs: int = 1) -> OutputSpec:
    spec = SpansSpec(kind=((Span(0, 2),) * count,) * inputs, dimensions=1)
    return OutputSpec(pooled=False, spans=spec)


def long(size: int = 4) -> OutputSpec:
    return OutputSpec(pooled=False, spans=SpansSpec(kind=Windows(size), beyond_max_length=True))


def test_queue_and_answer_bytes_follow_the_number_of_spans(made: Core) -> None:
    with_characters(made)
    handle = hold(made, "a bb c", outputs=given(MANY))
    assert made.held == (0, MANY, MANY * DIM * SUM_BYTES + OVERHEAD)
    made.engine.gate.set()
    answer = handle.result()
    [result] = answer.results
    assert result.spans is not None
    assert result.spans.shape == (MANY, 1)
    assert made.held == (0, 0, MANY * WIDTH_ONE_BYTES + OVERHEAD)
    handle.close()
    assert made.sample("headlight_tokens_total", priority="interactive") == 3


def test_a_quota_pays_for_each_span() -> None:
    with core(quotas=quotas_of(MANY)) as made:
        with_characters(made)
        answered(submit(made, "a bb c", outputs=given(MANY), client="one"))
        refused(submit(made, "a b", outputs=given(1), client="one"), Shed)
        answered(submit(made, "a b", outputs=given(1), client="two"))


def test_sums_larger_than_the_free_bytes_are_shed_with_a_number_that_fits() -> None:
    with core(max_output_bytes=1 << 21) as made:
        with_characters(made)
        pool, free = made.model.admission.outputs, 3 * 1000 * DIM * SUM_BYTES + OVERHEAD
        taken = pool.free - free
        pool.take(taken)
        error = refused(submit(made, *["a b"] * 4, outputs=given(1000, 4)), Shed)
        assert "the first 3 of these 4 inputs would fit" in error.message
        answered(submit(made, *["a b"] * 3, outputs=given(1000, 3)))
        pool.take(-taken)


def test_windows_of_a_long_text_are_counted_as_one_text() -> None:
    with core(max_request_tokens=4 * MAX_LENGTH, max_text_characters=1 << 20) as made:
        with_characters(made)
        answer = answered(submit(made, "x " * (2 * MAX_LENGTH), "y", outputs=long()))
        assert len(answer.prepared.items) > 2
        assert len(answer.results) == 2
        assert made.sample("headlight_texts_total", priority="interactive") == 2
        tokens = sum(len(item.ids) for item in answer.prepared.items)
        assert made.sample("headlight_tokens_total", priority="interactive") == tokens


def test_windows_of_a_long_text_are_limited_as_its_tokens_are() -> None:
    """Its tokens alone would be accepted."""
    most = 2 * MAX_LENGTH + 100
    with core(max_request_tokens=most, max_text_characters=1 << 20) as made:
        with_characters(made)
        for texts in (["x " * (2 * MAX_LENGTH)], ["x " * (MAX_LENGTH + 50), "y " * MAX_LENGTH]):
            error = refused(submit(made, *texts, outputs=long()), InvalidInput)
            assert str(error) == f"inputs: have more than {most} tokens together; split the request"
        assert not made.engine.batches


def test_the_limit_of_characters_holds_for_long_texts() -> None:
    with core(max_text_characters=100) as made:
        with_characters(made)
        error = refused(submit(made, "x " * 100, outputs=long()), InvalidInput)
        assert "inputs[0].text: has 200 characters; at most 100 are read" in str(error)


@pytest.mark.parametrize(
    "other",
    [
        {"pooled": True},
        {"tokens": True},
        {"attention": AttentionSpec(layers=(0,))},
        {"hidden": HiddenSpec()},
    ],
    ids=str,
)
def test_long_texts_have_no_other_outputs(made: Core, other: dict[str, Any]) -> None:
    with_characters(made)
    outputs = OutputSpec(**long().specs | other)
    error = refused(submit(made, "a b", outputs=outputs), InvalidInput)
    assert error.field == "outputs.spans.beyond_max_length"


@pytest.mark.parametrize("error", [NotFinite("not finite"), DeviceLost("lost")], ids=repr)
def test_a_failure_of_the_head_is_the_requests(made: Core, error: Exception) -> None:
    with_characters(made)
    made.engine.head = Head(error)
    assert refused(submit(made, "a b", outputs=given(2)), type(error)) is error


def test_time_in_the_head_is_part_of_the_times(made: Core) -> None:
    with_characters(made)
    made.engine.head.seconds = 0.05
    timings = answered(submit(made, "a b", outputs=given(2))).timings
    assert timings.infer_ns >= 50_000_000
    assert timings.total_ns >= timings.infer_ns
