"""text-embeddings-inference over HTTP, for huggingface_hub and all that is built on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NoReturn

from headlight.errors import Code, InvalidInput, Phrase, Reason, renamed
from headlight.interface.scoring import pair_names
from headlight.refusals import Path
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import (
    Input,
    OutputSpec,
    Pair,
    Request,
)
from headlight_service.frontends.http.dialects import ranked_documents
from headlight_service.frontends.http.dialects.fields import (
    ids_or_texts,
    most_returned,
    optional,
    role_in,
)
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.http_status import ErrorResponse, Headers, http_error
from headlight_service.frontends.http.json_answers import JsonForm, lists_of
from headlight_service.frontends.scoring import LABELLING, SCORES, check_ranks, check_scores, scored
from headlight_service.frontends.tei.service_info import compute_report, service_info
from headlight_service.frontends.tei.tei_requests import (
    NO_DECODING,
    SEVERAL_TEXTS,
    TASKS,
    TERMS,
    Direction,
    gives_no,
    pooled_output,
    terms_of,
    token_output,
    token_vectors,
    tokenize_request,
    truncation_of,
)
from headlight_service.frontends.tei.token_lists import TokenLists

PROTOCOL = "tei"
EDGE = SEVERAL_TEXTS
_Answer = Callable[[Exchange], Awaitable[Response]]
DIRECTIONS: dict[str, Direction] = {
    "Left": "left",
    "left": "left",
    "Right": "right",
    "right": "right",
}
# Status and type of an error, by the kind of failure; see docs/errors.md for the statuses.
ERRORS: dict[Code | None, tuple[int, str]] = {
    Code.INVALID_INPUT: (422, "Validation"),
    Code.DEADLINE_EXCEEDED: (429, "Overloaded"),
    Code.UNAVAILABLE: (503, "Unhealthy"),
    Code.INTERNAL: (424, "Backend"),
}
TYPES = {424: "Backend", 429: "Overloaded", 501: "Backend", 503: "Unhealthy"}
TERM_BYTES = 5.0  # of JSON for each byte of a term and its weight


def routes(door: Door) -> list[Route]:
    """Return the routes. POST / and /invocations decide by the model, then by `inputs`."""
    return [
        Route("POST", "/", _any),
        Route("POST", "/invocations", _any),
        Route("POST", "/embed", _embed),
        Route("POST", "/embed_all", _embed_all),
        Route("POST", "/similarity", _similarity),
        Route("POST", "/tokenize", _tokenize),
        Route("GET", "/info", _info),
        Route("POST", "/rerank", _rerank),
        Route("POST", "/predict", _predict),
        Route("POST", "/embed_sparse", _embed_sparse),
        Route("POST", "/decode", _refuse_decoding),
    ]


def encode_error(refusal: ErrorResponse) -> Response:
    """Return an error in the form of text-embeddings-inference."""
    if refusal.status == 401:
        return Response(status=401)
    status, kind = ERRORS.get(
        refusal.code, (refusal.status, TYPES.get(refusal.status, "Validation"))
    )
    if refusal.metadata.get("refusal") == Reason.EMPTY_TEXT.name:
        status, kind = 400, "Empty"
    return json_response({"error": refusal.message, "error_type": kind}, status)


async def _any(exchange: Exchange) -> Response:
    task = exchange.door.pipeline.models.get().description.task
    others = {
        "rerank": _rerank,
        "classify": _predict,
        "sparse": _embed_sparse,
        "multi_vector": _embed_all,
    }
    if task in others:
        return await others[task](exchange)
    answer = await exchange.decoded(_any_request)
    return await answer(exchange)


def _any_request(exchange: Exchange, body: dict[str, Any]) -> _Answer:
    if isinstance(body.get("inputs"), dict):
        model, request = _similarity_request(exchange, body)
        return lambda exchange: _similarities(exchange, model, request)
    model, request = _embed_request(exchange, body)
    return lambda exchange: _embeddings(exchange, model, request)


async def _embed(exchange: Exchange) -> Response:
    return await _embeddings(exchange, *await exchange.decoded(_embed_request))


async def _embeddings(exchange: Exchange, model: ServedModel, request: Request) -> Response:
    answer, headers = await _answered(exchange, model, request)
    [vectors] = answer.pooled()
    return await exchange.encoded(
        lambda: json_response(lists_of(vectors), headers=headers), answer.prepared.data_bytes
    )


def _embed_request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request]:
    model = exchange.door.pipeline.models.get("", "embed")
    with counted(model):
        if optional(body, "encoding_format", str, Phrase.FLOAT) not in (None, "float"):
            raise InvalidInput("encoding_format", Reason.ONLY_FLOAT)
        normalize = optional(body, "normalize", bool, Phrase.TRUE_OR_FALSE)
        dimensions = optional(body, "dimensions", int, Phrase.WHOLE)
        outputs = pooled_output(
            normalize=True if normalize is None else normalize, dimensions=dimensions
        )
        return model, _request(model, ids_or_texts(body, "inputs", model), outputs, body)


async def _embed_all(exchange: Exchange) -> Response:
    model, request = await exchange.decoded(_embed_all_request)
    answer, headers = await _answered(exchange, model, request)
    vectors = map(token_vectors, answer.results)
    return await exchange.encoded(
        lambda: json_response([*map(lists_of, vectors)], headers=headers),
        answer.prepared.data_bytes,
    )


def _embed_all_request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request]:
    model = exchange.door.pipeline.models.get("", "embed", "multi_vector")
    with counted(model):
        outputs, role = token_output(model)
        request = _request(model, ids_or_texts(body, "inputs", model), outputs, body)
        request.role = role
        return model, request


async def _embed_sparse(exchange: Exchange) -> Response:
    _check_serves(exchange, "sparse vectors", "sparse")
    model, request = await exchange.decoded(_embed_sparse_request)
    form = JsonForm(model.limits, TERM_BYTES)
    answer, headers = await _answered(exchange, model, request, form)

    def encode() -> Response:
        every = [
            [{"index": int(term), "value": value} for term, value in zip(*terms, strict=True)]
            for terms in terms_of(answer)
        ]
        return json_response(every, headers=headers)

    return await exchange.encoded(encode, form.size)


def _embed_sparse_request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request]:
    model = exchange.door.pipeline.models.get("", "sparse")
    with counted(model):
        return model, _request(model, ids_or_texts(body, "inputs", model), TERMS, body)


async def _similarity(exchange: Exchange) -> Response:
    return await _similarities(exchange, *await exchange.decoded(_similarity_request))


async def _similarities(exchange: Exchange, model: ServedModel, request: Request) -> Response:
    with renamed(_names(len(request.inputs) - 1)):
        answer, headers = await _answered(exchange, model, request)
    [vectors] = answer.pooled()
    similar = vectors[1:] @ vectors[0]
    return await exchange.encoded(
        lambda: json_response(lists_of(similar), headers=headers), answer.prepared.data_bytes
    )


def _similarity_request(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request]:
    model = exchange.door.pipeline.models.get("", "embed")
    with counted(model):
        inputs = optional(body, "inputs", dict, Phrase.OBJECT) or {}
        source, sentences = inputs.get("source_sentence"), inputs.get("sentences")
        if type(source) is not str:
            raise InvalidInput("inputs.source_sentence", Reason.MUST_BE, kind=Phrase.TEXT)
        if not isinstance(sentences, list) or not all(type(each) is str for each in sentences):
            raise InvalidInput("inputs.sentences", Reason.MUST_BE, kind=Phrase.TEXTS)
        model.check_items("inputs.sentences", len(sentences))
        texts: list[Input] = [source, *sentences]
        if not sentences:
            raise InvalidInput("inputs", Reason.EMPTY_TEXT)
        parameters = optional(body, "parameters", dict, Phrase.OBJECT) or {}
        outputs = pooled_output(normalize=True, dimensions=None)
        return model, _request(model, texts, outputs, parameters)


def _names(sentences: int) -> dict[Path, Path]:
    """Return the names that a request for similarity has for inputs."""
    each: dict[Path, Path] = {
        ("inputs", 1 + at): ("inputs", "sentences", at) for at in range(sentences)
    }
    return {("inputs", 0): ("inputs", "source_sentence")} | each


async def _tokenize(exchange: Exchange) -> Response:
    request, form = await exchange.decoded(_tokenize_request)
    return Response(await exchange.tokenize(request, form))


def _tokenize_request(exchange: Exchange, body: dict[str, Any]) -> tuple[Request, TokenLists]:
    model = exchange.door.pipeline.models.get()
    with counted(model):
        texts = ids_or_texts(body, "inputs", model)
        if not all(isinstance(text, str) for text in texts):
            raise InvalidInput("inputs", Reason.MUST_BE, kind=Phrase.TEXT_OR_TEXTS)
        add = optional(body, "add_special_tokens", bool, Phrase.TRUE_OR_FALSE)
        request = tokenize_request(
            [str(text) for text in texts],
            model,
            prompt_name=optional(body, "prompt_name", str, Phrase.TEXT),
            size_bytes=len(exchange.body),
            client=exchange.client,
        )
    return request, TokenLists(
        model.limits,
        [str(text) for text in request.inputs],
        add_special_tokens=True if add is None else add,
    )


async def _info(exchange: Exchange) -> Response:
    pipeline = exchange.door.pipeline
    model = pipeline.models.get(exchange.query.get("model", ""))
    info = dataclasses.asdict(service_info(model, pipeline.tokenizers.count))
    task, pooling, labels = (info.pop(name) for name in ("task", "pooling", "labels"))
    about = {
        "id2label": {str(at): label for at, label in enumerate(labels)},
        "label2id": {label: at for at, label in enumerate(labels)},
    }
    unknown = dict.fromkeys(("sha", "docker_label", "max_batch_requests"))
    names = {
        "served_model_name": info["model_id"],
        "model_type": {TASKS[task].model_type: about if labels else {"pooling": pooling}},
    }
    return json_response({**info, **names, **unknown})


async def _rerank(exchange: Exchange) -> Response:
    _check_serves(exchange, "ranks", "rerank")
    answer = await exchange.decoded(_rerank_request)
    return await answer(exchange)


def _rerank_request(exchange: Exchange, body: dict[str, Any]) -> _Answer:
    """Return what ranks `documents` in the form of other tools, or `texts` in TEI's."""
    if "documents" in body:
        return ranked_documents.decode(exchange, body).respond
    model = exchange.door.pipeline.models.get("", "rerank")
    with counted(model):
        check_ranks(model)
        query, texts = body.get("query"), body.get("texts")
        if type(query) is not str:
            raise InvalidInput("query", Reason.MUST_BE, kind=Phrase.TEXT)
        if not isinstance(texts, list) or not all(type(each) is str for each in texts):
            raise InvalidInput("texts", Reason.MUST_BE, kind=Phrase.TEXTS)
        if not texts:
            raise InvalidInput("texts", Reason.EMPTY_TEXT)
        model.check_items("texts", len(texts))
        request = _request(model, [Pair(query, each) for each in texts], SCORES, body)
        raw = _flag(body, "raw_scores")
        with_text = _flag(body, "return_text")
        top_n = most_returned(body, "top_n")  # not of TEI; LiteLLM sends it

    async def respond(exchange: Exchange) -> Response:
        with renamed(pair_names(len(texts), "texts")):
            answer, headers = await _answered(exchange, model, request)
        ranks = [
            {"index": at, **({"text": texts[at]} if with_text else {}), "score": score}
            for at, score in scored(answer, model, raw=raw).ranks()[:top_n]
        ]
        return await exchange.encoded(
            lambda: json_response(ranks, headers=headers), len(exchange.body)
        )

    return respond


async def _predict(exchange: Exchange) -> Response:
    _check_serves(exchange, "classes", *LABELLING)
    labelling = await exchange.decoded(_predict_request)
    model = labelling.model
    labels = model.description.labels
    form = JsonForm(model.limits, labels=labels)
    answer, headers = await _answered(exchange, model, labelling.request, form)

    def encode() -> Response:
        lists = [
            [{"score": score, "label": label} for label, score in each[: labelling.top_k]]
            for each in scored(answer, model, raw=labelling.raw).labels(labels)
        ]
        return json_response(lists if labelling.several else lists[0], headers=headers)

    return await exchange.encoded(encode, form.size)


class _Labelling(NamedTuple):
    """A decoded request for labels.

    Attributes:
        raw: whether scores are logits.
        several: whether the answer has a list for each input, else that of the one input.
        top_k: the likeliest labels that are returned; None: all.
    """

    model: ServedModel
    request: Request
    raw: bool
    several: bool
    top_k: int | None


def _predict_request(exchange: Exchange, body: dict[str, Any]) -> _Labelling:
    """Return the request in TEI's form; with `parameters`, in that of huggingface_hub."""
    model = exchange.door.pipeline.models.get("", *LABELLING)
    with counted(model):
        check_scores(model)
        value = body.get("inputs")
        several = isinstance(value, list) and bool(value) and isinstance(value[0], list)
        values = value if isinstance(value, list) and several else [value]
        model.check_items("inputs", len(values))
        inputs = [_texts(f"inputs[{at}]", each) for at, each in enumerate(values)]
        parameters = optional(body, "parameters", dict, Phrase.OBJECT)
        logits = _applies_nothing(parameters or {}, model)
        return _Labelling(
            model,
            _request(model, inputs, SCORES, body),
            raw=_flag(body, "raw_scores") or logits,
            several=several or parameters is not None,
            top_k=most_returned(parameters or {}, "top_k"),
        )


def _applies_nothing(parameters: dict[str, Any], model: ServedModel) -> bool:
    """Return whether scores are to be logits; the other function is that of the model's folder."""
    function: str | None = optional(parameters, "function_to_apply", str, Phrase.TEXT)
    functions = ("none", model.description.activation)
    if function not in (None, *functions):
        raise InvalidInput("function_to_apply", Reason.MUST_BE_ONE_OF, names=", ".join(functions))
    return function == "none"


def _texts(field: str, value: Any) -> Input:
    """Return one input to classify: a text, a list of it, or a list of the two of a pair."""
    texts = [value] if isinstance(value, str) else value
    if (
        not isinstance(texts, list)
        or len(texts) not in (1, 2)
        or not all(type(each) is str for each in texts)
    ):
        raise InvalidInput(field, Reason.MUST_BE, kind=Phrase.ONE_OR_TWO_TEXTS)
    return texts[0] if len(texts) == 1 else Pair(*texts)


def _check_serves(exchange: Exchange, what: str, *needs: str) -> None:
    model = exchange.door.pipeline.models.get("", *needs)
    if not model.serves(*needs):
        path = TASKS[model.description.task].path
        raise http_error(424, gives_no(model.description, what, f"POST {path}"))


async def _refuse_decoding(exchange: Exchange) -> NoReturn:
    raise http_error(501, NO_DECODING)


def _request(
    model: ServedModel, inputs: list[Input], outputs: OutputSpec, parameters: dict[str, Any]
) -> Request:
    """Return a request; `parameters` has its options."""
    return Request(
        inputs,
        outputs,
        model.key,
        prompt_name=optional(parameters, "prompt_name", str, Phrase.TEXT),
        truncation=truncation_of(
            optional(parameters, "truncate", bool, Phrase.TRUE_OR_FALSE),
            _direction(optional(parameters, "truncation_direction", str, Phrase.RIGHT_OR_LEFT)),
            model,
        ),
        role=role_in(parameters),
    )


async def _answered(
    exchange: Exchange, model: ServedModel, request: Request, form: JsonForm | None = None
) -> tuple[Answer, Headers]:
    """Return the answer to a request, and its headers."""
    answer = await exchange.submit(request, form or JsonForm(model.limits))
    return answer, tuple(compute_report(model, request, answer).headers().items())


def _flag(body: dict[str, Any], name: str) -> bool:
    return bool(optional(body, name, bool, Phrase.TRUE_OR_FALSE))


def _direction(name: str | None) -> Direction | None:
    if name is not None and name not in DIRECTIONS:
        raise InvalidInput(
            "truncation_direction", Reason.MUST_BE_ONE_OF, names=", ".join(DIRECTIONS)
        )
    return None if name is None else DIRECTIONS[name]
