"""Decoding of Rerank and Classify to the core's requests."""

from __future__ import annotations

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.outputs.contract import known
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.values import Floats
from headlight.wire.reading_codec import priority_of, prompt_choice, special_tokens_of
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import Input, Pair, Request
from headlight_service.frontends.contract.request_decoding import (
    decode_inputs,
    decode_truncation,
    head_masks,
    role_of,
)
from headlight_service.frontends.scoring import SCORES, check_ranks, check_scores


def decode_rerank(
    message: pb.RerankRequest, model: ServedModel, deadline: float, client: str
) -> Request:
    """Return the request of a message to Rerank. Raises InvalidInput as `decode_encode` does."""
    check_ranks(model)
    if not message.documents:
        raise InvalidInput("documents", Reason.NO_ENTRIES)
    model.check_items("documents", len(message.documents))
    model.runtime.check_pair_prompt(*prompt_choice(message))
    pairs: list[Input] = [Pair(message.query, document) for document in message.documents]
    return _decoded(message, model, pairs, None, deadline, client)


def decode_classify(
    message: pb.ClassifyRequest, model: ServedModel, deadline: float, client: str
) -> Request:
    """Return the request of a message to Classify. Raises InvalidInput as `decode_encode` does."""
    check_scores(model)
    inputs = decode_inputs(message.inputs, model, model.most_tokens)
    masks = head_masks(message.inputs, model)
    request = _decoded(message, model, inputs, masks, deadline, client)
    request.role = role_of(message.role)
    return request


def _decoded(
    message: pb.RerankRequest | pb.ClassifyRequest,
    model: ServedModel,
    inputs: list[Input],
    masks: list[Floats | None] | None,
    deadline: float,
    client: str,
) -> Request:
    if message.HasField("top_n") and not message.top_n:
        raise InvalidInput("top_n", Reason.MUST_BE, kind=Phrase.WHOLE_FROM_1)
    prompt = prompt_choice(message)
    return Request(
        inputs,
        SCORES,
        model.key,
        message.ByteSize(),
        deadline,
        priority_of(message.priority),
        client,
        prompt.name,
        prompt.text,
        truncation=decode_truncation(message.truncation),
        special_tokens=special_tokens_of(message.special_tokens, model.special_tokens),
        head_masks=masks,
        dry_run=message.dry_run,
        empty_texts=known("empty_texts", "EmptyTexts", message.empty_texts)
        if message.empty_texts
        else None,
    )
