"""Decoding of the messages of tei.v1 to requests of the core, with the forms of their answers."""

from __future__ import annotations

from google.protobuf.message import Message

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.spec import InputRole
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.request import Input, Pair, Request
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.grpc.tei.tei_answers import (
    LabelsForm,
    RanksForm,
    ScoresForm,
    TokensMessage,
    VectorForm,
)
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.scoring import SCORES, check_ranks, check_scores
from headlight_service.frontends.tei.tei_requests import (
    TERMS,
    Direction,
    pooled_output,
    token_output,
    tokenize_request,
    truncation_of,
)

DIRECTIONS: dict[int, Direction] = {
    pb.TRUNCATION_DIRECTION_RIGHT: "right",
    pb.TRUNCATION_DIRECTION_LEFT: "left",
}


def needs_of(message: Message) -> tuple[str, ...]:
    """Return what a message to Embed, EmbedAll or EmbedSparse needs of a model: one of these."""
    if isinstance(message, pb.EmbedSparseRequest):
        return ("sparse",)
    return ("embed", "multi_vector") if isinstance(message, pb.EmbedAllRequest) else ("embed",)


def decode_embed(
    message: pb.EmbedRequest | pb.EmbedAllRequest | pb.EmbedSparseRequest,
    model: ServedModel,
    call: Call,
) -> tuple[Request, VectorForm]:
    """Return the request of a message to Embed, EmbedAll or EmbedSparse. Raises InvalidInput."""
    role: InputRole | None = None
    if isinstance(message, pb.EmbedRequest):
        outputs = pooled_output(
            normalize=message.normalize if message.HasField("normalize") else True,
            dimensions=message.dimensions if message.HasField("dimensions") else None,
        )
    elif isinstance(message, pb.EmbedAllRequest):
        outputs, role = token_output(model)
    else:
        outputs = TERMS
    with counted(model):
        direction = _direction(message)
    request = Request(
        [message.inputs],
        outputs,
        model.key,
        size_bytes=message.ByteSize(),
        deadline=call.deadline,
        client=call.client,
        prompt_name=message.prompt_name if message.HasField("prompt_name") else None,
        truncation=truncation_of(message.truncate, direction, model),
        role=role,
    )
    return request, VectorForm(model, request)


def decode_rerank(
    message: pb.RerankRequest, model: ServedModel, call: Call
) -> tuple[Request, RanksForm]:
    """Return the request of a message to Rerank. Raises InvalidInput."""
    with counted(model):
        check_ranks(model)
        if not message.texts:
            raise InvalidInput("texts", Reason.NO_ENTRIES)
        model.check_items("texts", len(message.texts))
    inputs: list[Input] = [Pair(message.query, text) for text in message.texts]
    request = _scores(message, inputs, model, call)
    return request, RanksForm(model, request, raw=message.raw_scores, texts=message.return_text)


def decode_predict(
    message: pb.PredictRequest | pb.PredictPairRequest, model: ServedModel, call: Call
) -> tuple[Request, ScoresForm]:
    """Return the request of a message to Predict or PredictPair. Raises InvalidInput."""
    with counted(model):
        check_scores(model)
        value: Input
        if isinstance(message, pb.PredictRequest):
            value = message.inputs
        elif len(message.inputs) == 2:
            value = Pair(*message.inputs)
        else:
            raise InvalidInput("inputs", Reason.MUST_BE, kind=Phrase.TWO_TEXTS)
    request = _scores(message, [value], model, call)
    return request, LabelsForm(model, request, raw=message.raw_scores)


def _scores(
    message: pb.RerankRequest | pb.PredictRequest | pb.PredictPairRequest,
    inputs: list[Input],
    model: ServedModel,
    call: Call,
) -> Request:
    with counted(model):
        truncation = truncation_of(message.truncate, _direction(message), model)
    return Request(
        inputs,
        SCORES,
        model.key,
        size_bytes=message.ByteSize(),
        deadline=call.deadline,
        client=call.client,
        truncation=truncation,
    )


def _direction(
    message: pb.EmbedRequest
    | pb.EmbedAllRequest
    | pb.EmbedSparseRequest
    | pb.RerankRequest
    | pb.PredictRequest
    | pb.PredictPairRequest,
) -> Direction:
    direction = DIRECTIONS.get(message.truncation_direction)
    if direction is None:
        raise InvalidInput("truncation_direction", Reason.UNKNOWN_DIRECTION)
    return direction


def decode_tokenize(
    message: pb.EncodeRequest, model: ServedModel, call: Call
) -> tuple[Request, TokensMessage]:
    """Return the request of a message to Tokenize. Raises InvalidInput."""
    with counted(model):
        request = tokenize_request(
            [message.inputs],
            model,
            prompt_name=message.prompt_name if message.HasField("prompt_name") else None,
            size_bytes=message.ByteSize(),
            client=call.client,
        )
    add = message.add_special_tokens
    return request, TokensMessage(model.limits, str(request.inputs[0]), add_special_tokens=add)
