"""Bodies with `documents`: ranked as by Cohere, Jina, vLLM, OVMS and infinity.

Their bodies differ in options, and their answers in what stands around `results`: one answer has
what all of them read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.interface.scoring import pair_names
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Input, Pair, Request
from headlight_service.frontends.http.dialects.fields import (
    INSTRUCTION,
    check_applied,
    instruction_of,
    most_returned,
    object_texts,
    optional,
    requested_model,
)
from headlight_service.frontends.http.exchange import Exchange, Response, json_response
from headlight_service.frontends.http.json_answers import JsonForm
from headlight_service.frontends.scoring import SCORES, check_ranks, scored

VERSIONS = {"/v2/rerank": "2"}  # of Cohere's API, by path; else 1


class Ranking(NamedTuple):
    """A decoded request.

    Attributes:
        texts: of the documents.
        top_n: the best that are returned; None: all.
        raw: whether scores are logits.
        with_documents: whether results have their documents.
        by_place: whether the answer has all scores in the order of the documents, too, as
            Weaviate reads them.
    """

    model: ServedModel
    request: Request
    texts: list[str]
    top_n: int | None
    raw: bool
    with_documents: bool
    by_place: bool

    async def respond(self, exchange: Exchange) -> Response:
        """Return the response, once the scores are computed."""
        with renamed(pair_names(len(self.texts)) | INSTRUCTION):
            answer = await exchange.submit(self.request, JsonForm(self.model.limits))
        return await exchange.encoded(lambda: self._response(exchange, answer), len(exchange.body))

    def _response(self, exchange: Exchange, answer: Answer) -> Response:
        scores, tokens = scored(answer, self.model, raw=self.raw), answer.prepared.tokens
        results = [
            {
                "index": at,
                "relevance_score": score,
                **({"document": {"text": self.texts[at]}} if self.with_documents else {}),
            }
            for at, score in scores.ranks()[: self.top_n]
        ]
        by_place = [
            {"document": text, "score": score}
            for text, score in zip(self.texts, scores.values[:, 0], strict=True)
        ]
        return json_response(
            {
                "id": exchange.request_id,
                "object": "rerank",
                "model": self.model.name,
                "results": results,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "meta": {
                    "api_version": {"version": VERSIONS.get(exchange.path, "1")},
                    "tokens": {"input_tokens": tokens},
                },
                **({"scores": by_place} if self.by_place else {}),
            }
        )


def decode(exchange: Exchange, body: dict[str, Any]) -> Ranking:
    """Return the request of a body with `documents`. Raises InvalidInput."""
    model = requested_model(exchange, body, "rerank")
    with counted(model):
        check_ranks(model)
        query = body.get("query")
        if type(query) is not str:
            raise InvalidInput("query", Reason.MUST_BE, kind=Phrase.TEXT)
        texts = object_texts(body.get("documents"), "documents", model)
        top_n = most_returned(body, "top_n")
        instruction = instruction_of(body, model)
        check_applied(body, {"rank_fields": ([], ["text"])})
        spans = optional(body, "relevant_spans", dict, Phrase.OBJECT)  # of Cohere
        if spans is not None and spans.get("mode") != "disabled":
            raise InvalidInput("relevant_spans", Reason.NOT_APPLIED)
        pairs: list[Input] = [Pair(query, text) for text in texts]
        request = Request(pairs, SCORES, model.key, truncation="cut_end", prompt_text=instruction)
        return Ranking(
            model,
            request,
            texts,
            top_n,
            raw=_flag(body, "raw_scores", False) or not _flag(body, "use_activation", True),
            with_documents=_flag(body, "return_documents", False),
            by_place="property" in body,
        )


def _flag(body: dict[str, Any], name: str, usual: bool) -> bool:
    value: bool | None = optional(body, name, bool, Phrase.TRUE_OR_FALSE)
    return usual if value is None else value
