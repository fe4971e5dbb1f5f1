"""Answers of Rerank and Classify as messages and as JSON: their sizes, and their encoding."""

from __future__ import annotations

import abc
from typing import Generic, TypeVar

import orjson

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.contract.answer_encoding import (
    FRAMING_BYTES,
    item_of,
    model_ref,
    set_timings,
    usage_of,
)
from headlight_service.frontends.contract.json_encoding import json_value
from headlight_service.frontends.scoring import scored

RequestT = TypeVar("RequestT", pb.RerankRequest, pb.ClassifyRequest)
ResponseT = TypeVar("ResponseT", pb.RerankResponse, pb.ClassifyResponse)
# At most, in a message and in JSON: an item with its counts, and a score with its logit.
ITEM_BYTES, SCORE_BYTES = 48, 24
JSON_ITEM_BYTES, JSON_SCORE_BYTES = 160, 96


class ScoresForm(abc.ABC, Generic[RequestT, ResponseT]):
    """One answer of Rerank or Classify."""

    field: str  # of the inputs
    remedy: Phrase  # for too large an answer

    def __init__(
        self, request: RequestT, model: ServedModel, limit_bytes: int, *, as_json: bool = False
    ) -> None:
        """Prepare the form of one answer of at most so many bytes."""
        self._request: RequestT = request
        self._model, self._limit_bytes, self._as_json = model, limit_bytes, as_json
        self._item_bytes = JSON_ITEM_BYTES if as_json else ITEM_BYTES
        self._score_bytes = JSON_SCORE_BYTES if as_json else SCORE_BYTES
        self._top_n: int | None = request.top_n if request.HasField("top_n") else None
        self.size = 0

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the most bytes that the answer can have. Raises InvalidInput: it is too large."""
        self.size = FRAMING_BYTES + (0 if self._request.dry_run else self._results_bytes(prepared))
        if self.size > self._limit_bytes:
            raise InvalidInput(
                self.field,
                Reason.ANSWER_BYTES,
                size=self.size,
                most=self._limit_bytes,
                fits="",
                remedy=self.remedy,
            )
        return self.size

    def message(self, answer: Answer) -> ResponseT:
        """Return the message of an answer."""
        response = self._results(answer)
        response.model.CopyFrom(model_ref(self._model.ref))
        response.usage.CopyFrom(usage_of(answer.prepared))
        set_timings(response, answer.timings)
        return response

    def encode(self, answer: Answer) -> bytes:
        """Return the bytes of an answer: a message, or JSON."""
        message = self.message(answer)
        return orjson.dumps(json_value(message)) if self._as_json else message.SerializeToString()

    @abc.abstractmethod
    def _results_bytes(self, prepared: Prepared) -> int:
        """Return the most bytes of the results."""

    @abc.abstractmethod
    def _results(self, answer: Answer) -> ResponseT:
        """Return an answer with its results alone. A dry run has none."""


class RanksForm(ScoresForm[pb.RerankRequest, pb.RerankResponse]):
    """The answer of Rerank."""

    field = "documents"
    remedy = Phrase.FEWER_DOCUMENTS

    def _results_bytes(self, prepared: Prepared) -> int:
        count = len(prepared.inputs)
        size = min(count, self._top_n or count) * (self._item_bytes + self._score_bytes)
        if self._request.return_documents:
            sizes = [len(orjson.dumps(text)) for text in self._request.documents]
            size += sum(sorted(sizes, reverse=True)[: self._top_n])
        return size

    def _results(self, answer: Answer) -> pb.RerankResponse:
        if self._request.dry_run:
            return pb.RerankResponse()
        scores, inputs = scored(answer, self._model, raw=False), answer.prepared.inputs
        texts = self._request.documents if self._request.return_documents else None
        return pb.RerankResponse(
            results=[
                pb.RankedDocument(
                    index=at,
                    score=float(score),
                    logit=scores.logits[at, 0],
                    item=item_of(inputs[at]),
                    document=texts[at] if texts else None,
                )
                for at, score in scores.ranks()[: self._top_n]
            ]
        )


class LabelsForm(ScoresForm[pb.ClassifyRequest, pb.ClassifyResponse]):
    """The answer of Classify."""

    field = "inputs"
    remedy = Phrase.FEWER_LABELS

    def _results_bytes(self, prepared: Prepared) -> int:
        labels = [len(orjson.dumps(name)) for name in self._model.description.labels]
        longest = sorted(labels, reverse=True)[: self._top_n]
        each = self._item_bytes + sum(longest) + self._score_bytes * len(longest)
        return len(prepared.inputs) * each

    def _results(self, answer: Answer) -> pb.ClassifyResponse:
        if self._request.dry_run:
            return pb.ClassifyResponse()
        scores, names = scored(answer, self._model, raw=False), self._model.description.labels
        return pb.ClassifyResponse(
            results=[
                pb.Classification(
                    labels=[
                        pb.LabelScore(label=names[at], score=values[at], logit=logits[at])
                        for at in order[: self._top_n]
                    ],
                    item=item_of(tokenized),
                )
                for tokenized, values, logits, order in zip(
                    answer.prepared.inputs,
                    scores.values,
                    scores.logits,
                    scores.orders(),
                    strict=True,
                )
            ]
        )
