"""Scores of pairs and classes of texts, as vLLM gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.refusals import CONTRACT, Path
from headlight.runtime.tokenization.input_checks import Truncation
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.request import Input, Pair, Request
from headlight_service.frontends.http.dialects.fields import (
    INSTRUCTION,
    instruction_of,
    optional,
    requested_model,
)
from headlight_service.frontends.http.dialects.openai import encode_error
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.json_answers import JsonForm
from headlight_service.frontends.scoring import (
    LABELLING,
    SCORES,
    Scored,
    check_ranks,
    check_scores,
    scored,
)

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

PROTOCOL = "vllm"
EDGE = CONTRACT
# Fields of the first and of the second texts of pairs; the first two that a body has.
SIDES = (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2"))


class _Scoring(NamedTuple):
    """A decoded request; `names`: of the fields of its texts."""

    model: ServedModel
    request: Request
    raw: bool
    names: dict[Path, Path]


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
        lambda scores: [
            {"index": at, "object": "score", "score": score}
            for at, score in enumerate(scores.values[:, 0])
        ],
    )


async def _classify(exchange: Exchange) -> Response:
    scoring = await exchange.decoded(_classify_request)
    labels = scoring.model.description.labels
    return await _respond(
        exchange,
        scoring,
        lambda scores: [
            {
                "index": at,
                "label": labels[int(scores.logits[at].argmax())],
                "probs": probabilities,
                "num_classes": len(labels),
            }
            for at, probabilities in enumerate(scores.values)
        ],
    )


def _score_request(exchange: Exchange, body: dict[str, Any]) -> _Scoring:
    model = requested_model(exchange, body, "rerank")
    with counted(model):
        check_ranks(model)
        first, second = next((pair for pair in SIDES if pair[1] in body), SIDES[0])
        firsts, seconds = _texts(body, first, model), _texts(body, second, model)
        if len(firsts) not in (1, len(seconds)):
            count = len(firsts)
            raise InvalidInput(second, Reason.ONE_FOR_EACH, count=len(seconds), first=count)
        one = len(firsts) == 1
        inputs: list[Input] = [
            Pair(firsts[0 if one else at], text) for at, text in enumerate(seconds)
        ]
        names: dict[Path, Path] = {("inputs",): (second,)}
        for at in range(len(inputs)):
            pair = ("inputs", at, "pair")
            names |= {pair: (second, at), (*pair, "second"): (second, at)}
            names[(*pair, "first")] = (first,) if one else (first, at)
        return _scoring(model, inputs, body, names | INSTRUCTION, instruction_of(body, model))


def _classify_request(exchange: Exchange, body: dict[str, Any]) -> _Scoring:
    model = requested_model(exchange, body, *LABELLING)
    with counted(model):
        check_scores(model)
        inputs: list[Input] = [*_texts(body, "input", model)]
        names: dict[Path, Path] = {("inputs",): ("input",)}
        names |= {("inputs", at, "text"): ("input", at) for at in range(len(inputs))}
        return _scoring(model, inputs, body, names)


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
        truncation=_truncation(body, model),
        prompt_text=instruction,
    )
    return _Scoring(
        model,
        request,
        raw=optional(body, "use_activation", bool, Phrase.TRUE_OR_FALSE) is False,
        names=names,
    )


async def _respond(
    exchange: Exchange, scoring: _Scoring, entries: Callable[[Scored], list[dict[str, Any]]]
) -> Response:
    """Return the response to a request; `entries` makes its data of the scores."""
    model = scoring.model
    form = JsonForm(model.limits, labels=[max(model.description.labels, key=len)])
    with renamed(scoring.names):
        answer = await exchange.submit(scoring.request, form)
    tokens = answer.prepared.tokens

    def encode() -> Response:
        return json_response(
            {
                "id": exchange.request_id,
                "object": "list",
                "model": model.name,
                "data": entries(scored(answer, model, raw=scoring.raw)),
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


def _truncation(body: dict[str, Any], model: ServedModel) -> Truncation | None:
    """Return how texts are cut: to the model's length, if a body names that or -1."""
    most = optional(body, "truncate_prompt_tokens", int, Phrase.WHOLE)
    if most is None:
        return None
    if most != -1 and most < model.max_length:
        raise InvalidInput("truncate_prompt_tokens", Reason.NOT_APPLIED)
    return "cut_end"
