"""Rerank and Classify for any number of documents or inputs.

The service computes many of them in parts, so only entries and bytes of a message limit a call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headlight.client.calls.list_work import ListWork, response_bytes
from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Reading
from headlight.outputs.contract import malformed, require
from headlight.pb import headlight_pb2 as pb
from headlight.results import LabelScore, RankedDocument
from headlight.wire.answer_checks import check_model
from headlight.wire.client_codec import set_reading, to_input

ITEM_BYTES, SCORE_BYTES = 48, 24  # at most, in an answer


class Ranked(ListWork[pb.RerankRequest]):
    """Documents by their score for a query."""

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        documents: Sequence[Input],
        query: str,
        top_n: int | None,
        reading: Reading,
    ) -> None:
        text = to_input(query, "query").text
        base = pb.RerankRequest(model=name, query=text, top_n=top_n)
        set_reading(base, reading)
        super().__init__(
            model,
            base,
            documents,
            reading,
            response_bytes(model),
            size=lambda _: ITEM_BYTES + SCORE_BYTES,
        )
        self._name, self._top_n = name, top_n
        self._ranked: list[RankedDocument] = []

    def request(self, part: range) -> pb.RerankRequest:
        """Return the request for some of the documents, by index."""
        request = pb.RerankRequest()
        request.CopyFrom(self._base)
        request.documents.extend([str(self._inputs[at]) for at in part])
        return request

    def receive(self, part: range, response: pb.RerankResponse) -> None:
        """Take the answer to one request. Raises BadAnswer if it breaks the contract."""
        check_model(response.model, self._model, self._name)
        self.check_origin(response.model)
        results = list(response.results)
        count = min(len(part), self._top_n or len(part))
        indices = {each.index for each in results}
        require(
            len(results) == len(indices) == count and max(indices) < len(part),
            f"results are of {len(indices)} documents, and {count} of {len(part)} were requested",
        )
        _check_falling("results", results)
        self._ranked += [
            RankedDocument(
                part.start + each.index,
                each.score,
                each.logit,
                str(self._inputs[part.start + each.index]),
                _cut_tokens(f"results[{at}]", each.item),
            )
            for at, each in enumerate(results)
        ]

    def result(self) -> list[RankedDocument]:
        """Return the ranks after all answers."""
        return sorted(self._ranked, key=lambda each: (-each.logit, each.index))[: self._top_n]


class Classified(ListWork[pb.ClassifyRequest]):
    """Labels of any number of inputs."""

    def __init__(
        self, model: ModelDescription, name: str, inputs: Sequence[Input], reading: Reading
    ) -> None:
        base = pb.ClassifyRequest(model=name)
        set_reading(base, reading)
        labels = sum(len(each.encode()) + SCORE_BYTES for each in model.labels)
        super().__init__(
            model,
            base,
            inputs,
            reading,
            response_bytes(model),
            size=lambda _: ITEM_BYTES + labels,
        )
        self._name = name
        self._labels: list[list[LabelScore]] = []

    def receive(self, part: range, response: pb.ClassifyResponse) -> None:
        """Take the answer to one request; they come in order.

        Raises BadAnswer if it breaks the contract.
        """
        check_model(response.model, self._model, self._name)
        self.check_origin(response.model)
        require(
            len(response.results) == len(part),
            f"{len(response.results)} results for {len(part)} inputs",
        )
        for at, each in enumerate(response.results):
            _check_falling(f"results[{at}].labels", each.labels)
            self._labels.append(
                [LabelScore(label.label, label.score, label.logit) for label in each.labels]
            )

    def result(self) -> list[list[LabelScore]]:
        """Return the labels after all answers."""
        return self._labels


def _check_falling(field: str, scores: Sequence[Any]) -> None:
    """Raise BadAnswer unless scores are finite, and their logits fall."""
    logits = [each.logit for each in scores]
    numbers = [*logits, *(each.score for each in scores)]
    if not all(map(math.isfinite, numbers)) or logits != sorted(logits, reverse=True):
        raise malformed(f"{field} have logits that do not fall, or are not finite")


def _cut_tokens(field: str, item: pb.Item) -> int:
    count, original = item.token_count, item.original_token_count
    require(1 <= count <= original, f"{field}.item has {count} of {original} tokens")
    return original - count
