"""Occlusion without a frontend.

Waves, cancellation at each stage, and charges for computed work.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from headlight.errors import EngineError, InvalidInput
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.rate_limit import TOKENIZED_PER_COMPUTED
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import OcclusionRequest, OutputSpec
from headlight_service.core.tasks.task import WAVES
from tests.service.core.pipelines import (
    LONG,
    OVERHEAD,
    VECTOR_BYTES,
    Core,
    Form,
    Trace,
    answered,
    core,
    quotas_of,
    refused,
)
from tests.service.fakes import MAX_LENGTH

TOKENS = OutputSpec(token_info=True)
TEXT = "a b c d e"
ONE_BY_ONE = {"max_request_tokens": MAX_LENGTH, "max_queue_tokens": MAX_LENGTH}


def start(
    made: Core, text: str = TEXT, *, form: Form | None = None, trace: Any = None, **fields: Any
) -> Handle[Answer]:
    request = OcclusionRequest([text], TOKENS, **{"size_bytes": 9, **fields})
    return made.pipeline.submit(request, form or Form(), trace=trace)


def holes(made: Core) -> list[int]:
    """Return the hidden tokens of all batches; -1: none."""
    return [
        token for batch in made.engine.batches for item in batch for token in item.occluded or (-1,)
    ]


def test_each_token_is_hidden_once_after_the_whole_input(made: Core) -> None:
    form, trace = Form(), Trace()
    handle = start(made, form=form, trace=trace)
    answer = handle.result()
    assert (answer.numbers.moved.dtype.name, answer.numbers.moved.shape) == ("float32", (5,))
    assert list(answer.parts()) == []
    assert holes(made)[0] == -1
    assert sorted(holes(made)[1:]) == [0, 1, 2, 3, 4]
    [(ref, prepared, hidden)] = form.asked
    assert (ref, prepared) == (made.model.ref, answer.prepared)
    assert hidden is not None
    assert hidden.tolist() == [0, 1, 2, 3, 4]
    assert made.held == (9, 0, OVERHEAD + VECTOR_BYTES)
    handle.close()
    assert trace.stages == ["tokenize", "", "prepared", "queue", "queue", "reply"]


def test_tokens_can_be_selected(made: Core) -> None:
    answered(start(made, hidden=(1, 3)))
    assert sorted(holes(made)) == [-1, 1, 3]


def test_waves_are_a_fraction_of_the_request_limit() -> None:
    with core(**ONE_BY_ONE) as made:
        length = MAX_LENGTH // WAVES // 3
        answered(start(made, "a " * length))
        tokens = made.sample("headlight_tokens_total", priority="interactive")
        assert tokens == length * (1 + length)
        assert made.sample("headlight_texts_total", priority="interactive") == 1 + length
        assert max(len(batch) for batch in made.engine.batches) <= 3


def test_a_long_text_is_tokenised_on_a_tokenizer_thread(made: Core) -> None:
    answered(start(made, LONG, hidden=(0,)))
    assert made.tokenizer.threads[0].startswith("tokenize")


@pytest.mark.parametrize(
    ("text", "field"),
    [("", "input.text"), ("a " * (MAX_LENGTH + 1), "input.text"), ("x" * 10**6, "input.text")],
)
def test_errors_name_the_single_input(made: Core, text: str, field: str) -> None:
    assert refused(start(made, text), InvalidInput).field == field
    assert made.held == (0, 0, 0)
    assert made.sample("headlight_rejected_total", reason="invalid_input") == 1


def test_token_selection_errors_name_the_field(made: Core) -> None:
    assert refused(start(made, hidden=(9,)), InvalidInput).field == "tokens[0]"
    assert refused(start(made, "a"), InvalidInput).field == "tokens"
    assert made.engine.batches == []
    assert made.held == (0, 0, 0)


class Later:
    """Engine that runs so many batches, and holds the next."""

    def __init__(self, made: Core, batches: int) -> None:
        self._left, self.held, self.may_go = batches, threading.Event(), threading.Event()
        self._run = made.engine.run
        served = made.model.scheduler._engines[made.model.key]
        served.engine = served.engine._replace(run=self.run)

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        if not self._left:
            self.held.set()
            assert self.may_go.wait(30)
        self._left -= 1
        return self._run(items, wide=wide)


@pytest.mark.parametrize(("batches", "stage"), [(0, "infer"), (1, "queue")], ids=["whole", "wave"])
def test_an_occlusion_can_be_cancelled_during_computation(batches: int, stage: str) -> None:
    quotas = quotas_of(1000)
    with core(quotas=quotas) as made:
        later = Later(made, batches)
        handle = start(made, client="c")
        assert later.held.wait(30)
        queued = 5 if batches == 0 else 25
        assert made.held == (9, queued, OVERHEAD + VECTOR_BYTES)
        handle.cancel()
        # Of a wave, whose batches are those of bulk, one item is computed and the others wait.
        assert made.held == (0, 5, OVERHEAD + VECTOR_BYTES)
        assert made.sample("headlight_cancelled_total", stage=stage) == 1
        later.may_go.set()
        made.computed()
        assert made.held == (0, 0, 0)
        assert len(made.engine.batches) == batches + 1, "nothing more is begun"
        assert quotas.of("c").level == 1000 - 30, "what was paid stays paid"


def test_an_occlusion_can_be_cancelled_while_waiting_for_capacity(made: Core) -> None:
    later, trace, waits = Later(made, 0), Trace(), threading.Event()
    handle = start(made, trace=trace)
    assert later.held.wait(30)
    others = made.model.admission.tokens.free
    made.model.admission.tokens.take(others)
    trace.act = lambda stage: waits.set() if stage == "queue" else None
    later.may_go.set()
    assert waits.wait(30)
    handle.cancel()
    assert made.sample("headlight_cancelled_total", stage="queue") == 1
    made.computed()
    assert made.held == (0, others, 0)
    with made.model.admission.lock:
        made.model.admission.give_tokens(WaitEstimate(1), others, "interactive")
    made.resumed()
    assert holes(made) == [-1], "nothing is tried again"
    assert made.held == (0, 0, 0)


def test_computed_waves_of_a_failed_occlusion_are_charged() -> None:
    quotas = quotas_of(1000)
    with core(quotas=quotas) as made:
        later = Later(made, 1)
        handle = start(made, client="c")
        assert later.held.wait(30)
        assert quotas.of("c").level == 1000 - 30
        made.engine.fail()
        later.may_go.set()
        refused(handle, EngineError)
        assert quotas.of("c").level == 1000 - 5
        assert made.held == (0, 0, 0)


def test_a_far_too_long_occlusion_is_charged_for_its_first_encoding() -> None:
    quotas = quotas_of(1000)
    with core(quotas=quotas) as made:
        made.model.estimate.worked_off(tokens=1, seconds=1e3)
        error = refused(start(made, client="c", deadline=time.monotonic() + 60), Shed)
        assert (error.shortage, error.retry_after_seconds) == (Shortage.DEADLINE, None)
        assert "; allow more time, or ask for less" in error.message
        assert quotas.of("c").level == 1000 - 5
        assert holes(made) == [-1]


def test_the_retry_delay_of_a_quota_covers_the_whole_occlusion() -> None:
    quotas = quotas_of(32)
    with core(quotas=quotas) as made:
        bucket = quotas.of("c")
        bucket.spend(22)
        error = refused(start(made, client="c"), Shed)
        assert error.shortage is Shortage.QUOTA
        read = len(TEXT.split()) / TOKENIZED_PER_COMPUTED
        assert bucket.level == 10 - read
        assert error.retry_after_seconds == math.ceil(1000 * (30 - 10 + read)) / 1000
        assert made.engine.batches == []
        assert made.held == (0, 0, 0)
