"""Rerank and Classify in several calls, without a transport."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from headlight.client.calls.scoring_calls import Classified, Ranked
from headlight.errors import BadAnswer
from headlight.interface.arguments import Reading
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import from_model
from tests.headlight.fake_model import REF

MODEL = from_model(
    pb.GetModelResponse(
        model=REF,
        info=pb.ModelInfo(task="classify", labels=["a"], max_length=32),
        limits=pb.Limits(max_items=2048, max_request_bytes=1 << 20, max_request_tokens=10),
    )
)
SMALL = dataclasses.replace(MODEL, limits=dataclasses.replace(MODEL.limits, max_items=2))
ITEM = pb.Item(token_count=3, original_token_count=5, truncated=True)


def ranks(*logits: float) -> pb.RerankResponse:
    """Return an answer for documents with these logits."""
    order = sorted(range(len(logits)), key=lambda at: -logits[at])
    results = [
        pb.RankedDocument(index=at, score=logits[at] / 9, logit=logits[at], item=ITEM)
        for at in order
    ]
    return pb.RerankResponse(model=REF, results=results)


def labels(*logits: float) -> pb.ClassifyResponse:
    scores = [pb.LabelScore(label="a", score=each / 9, logit=each) for each in logits]
    return pb.ClassifyResponse(model=REF, results=[pb.Classification(labels=scores, item=ITEM)])


def test_ranks_of_several_calls_are_one_list() -> None:
    work = Ranked(SMALL, "", ["x", "y", "z"], "q", 2, Reading())
    requests = [work.request(part) for part in work.parts]
    assert [list(each.documents) for each in requests] == [["x", "y"], ["z"]]
    assert all((each.query, each.top_n) == ("q", 2) for each in requests)
    work.receive(work.parts[0], ranks(1.0, 3.0))
    work.receive(work.parts[1], ranks(3.0))
    found = work.result()
    assert [(each.index, each.document, each.logit) for each in found] == [
        (1, "y", 3.0),
        (2, "z", 3.0),
    ]
    assert found[0].cut_tokens == 2


def test_tokens_do_not_limit_a_call() -> None:
    assert len(Ranked(MODEL, "", ["a long text"] * 200, "q", None, Reading()).parts) == 1
    assert len(Classified(MODEL, "", ["a long text"] * 200, Reading()).parts) == 1


def renumber(answer: Any) -> None:
    answer.results[0].index = answer.results[1].index


def swap(answer: Any) -> None:
    first, second = answer.results
    first.logit, second.logit = second.logit, first.logit


@pytest.mark.parametrize(
    "change",
    [
        renumber,
        swap,
        lambda answer: answer.results.pop(),
        lambda answer: setattr(answer.results[0], "index", 7),
        lambda answer: setattr(answer.results[0], "score", float("nan")),
        lambda answer: setattr(answer.results[0].item, "original_token_count", 1),
    ],
)
def test_ranks_that_break_the_contract_are_refused(change: Callable[[Any], object]) -> None:
    work = Ranked(SMALL, "", ["x", "y"], "q", None, Reading())
    answer = ranks(1.0, 3.0)
    work.receive(work.parts[0], answer)
    change(answer)
    with pytest.raises(BadAnswer):
        work.receive(work.parts[0], answer)


@pytest.mark.parametrize(
    "answer", [labels(1.0, 2.0), labels(float("inf")), pb.ClassifyResponse(model=REF)]
)
def test_labels_that_break_the_contract_are_refused(answer: pb.ClassifyResponse) -> None:
    work = Classified(SMALL, "", ["x"], Reading())
    with pytest.raises(BadAnswer):
        work.receive(work.parts[0], answer)
