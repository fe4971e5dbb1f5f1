"""Scores of pairs and classes of texts, as vLLM gives them; a body of infinity has its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.refusals import Edge, Path
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.spec import PooledSpec
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, OutputSpec, Pair, Request
from headlight_service.frontends.http.dialects.fields import (
    FOR_ALL,
    INSTRUCTION,
    check_length,
    instruction_of,
    optional,
    requested_model,
)
from headlight_service.frontends.http.dialects.infinity import is_infinity, label_lists
from headlight_service.frontends.http.dialects.openai import encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.json_answers import JsonForm
from headlight_service.frontends.scoring import (
    LABELLING,
    SCORES,
    check_ranks,
    check_scores,
    scored,
)

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "vllm"
EDGE = Edge(
    {Phrase.TRUNCATE_BY: f"as truncate_prompt_tokens: -1; {FOR_ALL}"},
    {
        "inputs": "input",
        "inputs[*]": "input[{}]",
        "outputs.pooled.dimensions": "dimensions",
        **{f"outputs.{name}": "input" for name in ("pooled", "tokens", "multi_vector", "scores")},
    },
)
# Fields of the first and of the second texts of pairs; the first two that a body has.
SIDES = (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2"))
CUTS: Mapping[str, Truncation] = {"right": "cut_end", "left": "cut_start"}
UNIT_VECTORS = OutputSpec(PooledSpec(normalize=True))


class _Scoring(NamedTuple):
    """A decoded request.

    Attributes:
        raw: whether scores are logits.
        names: of the fields of its texts, if they are not `input`.
        firsts: of a model for vectors: how many of the inputs are first texts.
        infinity: whether the answer has infinity's form.
    """

    model: ServedModel
    request: Request
    raw: bool
    names: dict[Path, Path]
    firsts: int = 0
    infinity: bool = False

    def pair_scores(self, answer: Answer) -> NDArray[np.float32]:
        """Return the score of each pair; of a model for vectors the cosine, as in vLLM."""
        if not self.firsts:
            return scored(answer, self.model, raw=self.raw).values[:, 0]
        [vectors] = answer.pooled()
        cosines: NDArray[np.float32] = np.einsum(
            "nd,nd->n", *np.broadcast_arrays(vectors[: self.firsts], vectors[self.firsts :])
        )
        return cosines


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [
        Route("POST", "/score", _score),
        Route("POST", "/v1/score", _score),
        Route("POST", "/classify", _classify),
    ]


async def _score(exchange: Exchange) -> Response:
    scoring = await exchange.decoded(_score_request)
    return await _respond(
        exchange,
        scoring,
        scoring.model.description.labels,
        lambda answer: [
            {"index": at, "object": "score", "score": score}
            for at, score in enumerate(scoring.pair_scores(answer))
        ],
    )


async def _classify(exchange: Exchange) -> Response:
    scoring = await exchange.decoded(_classify_request)
    labels = scoring.model.description.labels

    def entries(answer: Answer) -> list[Any]:
        scores = scored(answer, scoring.model, raw=scoring.raw)
        if scoring.infinity:
            return label_lists(scores, labels)
        return [
            {
                "index": at,
                "label": labels[int(scores.logits[at].argmax())],
                "probs": probabilities,
                "num_classes": len(labels),
            }
            for at, probabilities in enumerate(scores.values)
        ]

    shown = labels if scoring.infinity else [max(labels, key=len)]
    return await _respond(exchange, scoring, shown, entries)


def _score_request(exchange: Exchange, body: dict[str, Any]) -> _Scoring:
    model = requested_model(exchange, body, "rerank")
    with counted(model):
        of_vectors = model.description.task == "embed"
        if not of_vectors:
            check_ranks(model)
        first, second = next((pair for pair in SIDES if pair[1] in body), SIDES[0])
        firsts, seconds = _texts(body, first, model), _texts(body, second, model)
        if len(firsts) not in (1, len(seconds)):
            count = len(firsts)
            raise InvalidInput(second, Reason.ONE_FOR_EACH, count=len(seconds), first=count)
        one = len(firsts) == 1
        if of_vectors:
            return _cosines(model, body, {first: firsts, second: seconds})
        inputs: list[Input] = [
            Pair(firsts[0 if one else at], text) for at, text in enumerate(seconds)
        ]
        names: dict[Path, Path] = {("inputs",): (second,)}
        for at in range(len(inputs)):
            pair = ("inputs", at, "pair")
            names |= {pair: (second, at), (*pair, "second"): (second, at)}
            names[(*pair, "first")] = (first,) if one else (first, at)
        return _scoring(model, inputs, body, names | INSTRUCTION, instruction_of(body, model))


def _cosines(model: ServedModel, body: dict[str, Any], sides: dict[str, list[str]]) -> _Scoring:
    instruction_of(body, model)
    texts: list[Input] = [text for side in sides.values() for text in side]
    places = [
        (name,) if len(side) == 1 else (name, at)
        for name, side in sides.items()
        for at in range(len(side))
    ]
    (_, firsts), (second, _) = sides.items()
    model.check_items(second, len(texts))
    names: dict[Path, Path] = {("inputs",): (second,)}
    names |= {("inputs", at, "text"): place for at, place in enumerate(places)}
    request = Request(texts, UNIT_VECTORS, model.key, truncation=truncation_of(body, model))
    return _Scoring(model, request, raw=False, names=names, firsts=len(firsts))


def _classify_request(exchange: Exchange, body: dict[str, Any]) -> _Scoring:
    model = requested_model(exchange, body, *LABELLING)
    with counted(model):
        check_scores(model)
        return _scoring(model, [*_texts(body, "input", model)], body, {})


def _scoring(
    model: ServedModel,
    inputs: list[Input],
    body: dict[str, Any],
    names: dict[Path, Path],
    instruction: str | None = None,
) -> _Scoring:
    request = Request(
        inputs,
        SCORES,
        model.key,
        truncation=truncation_of(body, model),
        prompt_text=instruction,
    )
    return _Scoring(
        model,
        request,
        raw=optional(body, "use_activation", bool, Phrase.TRUE_OR_FALSE) is False
        or optional(body, "raw_scores", bool, Phrase.TRUE_OR_FALSE) is True,
        names=names,
        infinity=is_infinity(body),
    )


async def _respond(
    exchange: Exchange,
    scoring: _Scoring,
    labels: Sequence[str],
    entries: Callable[[Answer], list[Any]],
) -> Response:
    """Return the response to a request; `entries` makes its data, with these labels for each."""
    model = scoring.model
    form = JsonForm(model.limits, labels=labels)
    with renamed(scoring.names):
        answer = await exchange.submit(scoring.request, form)
    tokens = answer.prepared.tokens

    def encode() -> Response:
        return json_response(
            {
                "id": exchange.request_id,
                "object": "classify" if scoring.infinity else "list",
                "model": model.name,
                "data": entries(answer),
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    return await exchange.encoded(encode, form.size)


def _texts(body: dict[str, Any], name: str, model: ServedModel) -> list[str]:
    value = body.get(name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(type(each) is str for each in texts):
        raise InvalidInput(name, Reason.MUST_BE, kind=Phrase.TEXT_OR_TEXTS)
    if not texts:
        raise InvalidInput(name, Reason.NO_ENTRIES)
    model.check_items(name, len(texts))
    return texts


def truncation_of(body: dict[str, Any], model: ServedModel) -> Truncation | None:
    """Return how texts are cut: to the model's length, if a body names that or -1."""
    side: str = optional(body, "truncation_side", str, Phrase.RIGHT_OR_LEFT) or "right"
    if side not in CUTS:
        raise InvalidInput("truncation_side", Reason.MUST_BE, kind=Phrase.RIGHT_OR_LEFT)
    most = check_length(body, "truncate_prompt_tokens", model)
    return None if most is None else CUTS[side]
