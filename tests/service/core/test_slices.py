"""Requests for vectors with more tokens than the queue takes of one request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from headlight.errors import InvalidInput
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.requests.request import OutputSpec
from tests.service.core.pipelines import (
    Core,
    Form,
    Trace,
    answered,
    cancelled,
    core,
    quotas_of,
    refused,
    submit,
    until,
)

# Slices of 20 tokens; the queue holds two, and five tokens.
OPTIONS: dict[str, Any] = {
    "max_queue_tokens": 45,
    "max_request_tokens": 20,
    "batch_tokens": 8,
    "max_padding": 1.0,
}
TEXTS = ["word " * 3 + "x" * (at + 1) for at in range(50)]  # of four tokens: 200 in ten slices


@pytest.fixture
def made() -> Iterator[Core]:
    with core(**OPTIONS) as made:
        yield made


def held(made: Core) -> Core:
    made.engine.gate.clear()
    return made


def test_a_request_of_any_number_of_tokens_is_one_answer(made: Core) -> None:
    form = Form()
    answer = answered(submit(made, *TEXTS, form=form))
    sums = [4 + 4 + 4 + at + 1 for at in range(50)]  # ids are lengths of words
    assert [float(row[0]) for row in answer.pooled()[0]] == [1000.0 * each for each in sums]
    assert answer.prepared.tokens == 200
    assert [len(each.ids) for each in answer.prepared.inputs] == [4] * 50
    assert made.sample("headlight_texts_total", priority="interactive") == 50
    assert made.sample("headlight_tokens_total", priority="interactive") == 200
    first, last = [prepared for _, prepared, _ in form.asked]  # a bound, and then the answer
    assert (len(first.inputs), last.inputs) == (50, answer.prepared.inputs)


def test_only_one_slice_is_tokenised_and_held_at_a_time(made: Core) -> None:
    most_held, read = list[int](), list[int]()
    texts = made.tokenizer.texts

    def note(tokens: int) -> None:
        done = sum(len(batch) for batch in made.engine.batches[:-1])
        most_held.append(made.held[1])
        read.append(len(texts) - done)

    made.engine.takes = note
    answered(submit(made, *TEXTS))
    assert set(most_held) == {20}
    assert max(read) <= 5 + 1  # one text more: it begins the next slice


def test_a_neighbour_waits_for_one_batch() -> None:
    """Its text is in the next batch, though the first slice has nine more of its own."""
    with core(**{**OPTIONS, "max_queue_tokens": 100, "max_request_tokens": 80}) as made:
        large = submit(held(made), *TEXTS)
        made.started()
        near = submit(made, "one two three")
        made.engine.gate.set()
        answered(near)
        answered(large)
        lengths = [len(batch[0].ids) for batch in made.engine.batches]
        assert lengths.index(3) <= 2  # another batch of bulk may have begun on its own thread
        assert len(lengths) > 20


def test_large_requests_take_turns(made: Core) -> None:
    """The batches of two clients alternate."""
    first = submit(held(made), *TEXTS, client="first")
    made.started()
    second = submit(made, *["word " * 2] * 40, client="second")
    until(lambda: made.held[1] == 40, "the second request is not queued")
    made.engine.gate.set()
    answered(second)
    answered(first)
    kinds = [len(batch[0].ids) for batch in made.engine.batches]
    assert kinds.index(2) < 4
    assert 4 in kinds[kinds.index(2) : kinds.index(2) + 4]


def test_large_requests_leave_room_for_small_ones() -> None:
    """They take bulk's part of the queue, and are all of the backlog."""
    with core(**{**OPTIONS, "max_queue_tokens": 160}) as made:  # bulk has 140
        handles = [submit(held(made), *TEXTS) for _ in range(7)]
        until(lambda: made.held[1] == 140, "the large requests are not queued")
        assert made.model.estimate.committed > made.held[1]
        error = refused(submit(made, *TEXTS), Shed)
        assert error.shortage is Shortage.QUEUE_TOKENS
        assert error.retry_after_seconds > 0
        small = submit(made, "a")
        made.engine.gate.set()
        for handle in (*handles, small):
            answered(handle)
        assert made.model.estimate.committed == 0


@pytest.mark.parametrize("at", [0, 4, 5, 49])
def test_an_error_names_the_place_in_the_whole_request(made: Core, at: int) -> None:
    texts = list(TEXTS)
    texts[at] = ""
    assert refused(submit(made, *texts), InvalidInput).field == f"inputs[{at}].text"


def test_a_cancelled_request_reads_and_computes_no_further_slice(made: Core) -> None:
    handle = submit(held(made), *TEXTS)
    made.started()
    handle.cancel()
    made.engine.gate.set()
    made.computed()
    made.passed()
    assert sum(len(batch) for batch in made.engine.batches) <= 5
    assert len(made.tokenizer.texts) == 6
    assert cancelled(made) == {"queue": 1}


def test_a_request_cancelled_between_slices_is_not_read_further(made: Core) -> None:
    trace = Trace()
    stages = list[str]()

    def act(stage: str) -> None:
        stages.append(stage)
        if stages.count("tokenize") == 3:
            handles[0].cancel()

    handles = list[Any]()
    trace.act = act
    made.engine.gate.clear()
    handles.append(submit(made, *TEXTS, trace=trace))
    made.engine.gate.set()
    with pytest.raises(CancelledError):
        handles[0].result()
    made.passed()
    assert len(made.tokenizer.texts) == 11


def test_a_failing_slice_fails_the_request(made: Core) -> None:
    made.engine.poison = 30  # the length of the word that only this text has
    with pytest.raises(Exception, match="the model failed"):
        submit(made, *TEXTS).result()


def test_a_deadline_that_cannot_be_met_ends_it_after_the_first_slice(made: Core) -> None:
    made.model.estimate.worked_off(1, 100.0)
    error = refused(submit(made, *TEXTS, deadline=time.monotonic() + 100), Shed)
    assert error.shortage is Shortage.DEADLINE
    assert len(made.tokenizer.texts) <= 6


def test_the_quota_is_charged_for_all_tokens() -> None:
    quotas = quotas_of(1000.0)
    with core(quotas=quotas, **OPTIONS) as made:
        answered(submit(made, *TEXTS, client="a"))
        assert quotas.of("a").level == pytest.approx(800)


def test_a_dry_run_counts_all_tokens_and_computes_nothing(made: Core) -> None:
    answer = answered(submit(made, *TEXTS, dry_run=True))
    assert (answer.prepared.tokens, len(answer.prepared.inputs)) == (200, 50)
    assert made.engine.batches == []


@pytest.mark.parametrize("outputs", [OutputSpec(tokens=True), OutputSpec(token_info=True)])
def test_outputs_that_grow_with_the_texts_keep_the_limit(made: Core, outputs: OutputSpec) -> None:
    error = refused(submit(made, *TEXTS, outputs=outputs), InvalidInput)
    assert "more than 20 tokens together" in error.message


def test_a_waiting_request_gets_its_part_of_the_queue(made: Core) -> None:
    handles = [submit(held(made), *TEXTS, deadline=math.inf) for _ in range(2)]
    until(lambda: made.held[1] == 40, "the others are not queued")
    waiting = submit(made, *TEXTS, priority="bulk", waits=True)
    made.engine.gate.set()
    for handle in (*handles, waiting):
        assert len(answered(handle).results) == 50
