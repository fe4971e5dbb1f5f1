"""Decoding of comparisons to the core's requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from headlight.comparison import CompareSpec
from headlight.errors import InvalidInput, Reason, renamed
from headlight.evidence_methods import EVIDENCE_METHODS
from headlight.interface.comparison_arguments import (
    check_pairs,
    checked_comparison,
    side_names,
)
from headlight.outputs.contract import has_unknown
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.comparison.comparison_layout import comparison_outputs
from headlight.runtime.values import Floats
from headlight.wire.comparison.comparison_codec import compare_spec
from headlight.wire.reading_codec import priority_of, special_tokens_of
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import ComparisonRequest, Input, OutputSpec, Pair
from headlight_service.frontends.contract.request_decoding import (
    check_count,
    decode_inputs,
    decode_truncation,
    head_masks,
)


def decode_compare(
    message: pb.CompareRequest, model: ServedModel, deadline: float, client: str
) -> ComparisonRequest:
    """Return the request of a message to Compare. Raises InvalidInput as `decode_encode` does."""
    most = model.limits.max_items - 1
    if most < 1:
        raise InvalidInput("passages", Reason.NO_PASSAGES, items=model.limits.max_items)
    if not 1 <= len(message.passages) <= most:
        raise InvalidInput("passages", Reason.ENTRIES, count=len(message.passages), most=most)
    _check_sizes(message, model)
    spec = checked_comparison(compare_spec(message), len(message.passages))
    everything = [message.query, *message.passages]
    with renamed(side_names(len(message.passages))):
        inputs = decode_inputs(everything, model, model.limits.max_request_tokens)
        _check_no_pair(inputs)
        masks = head_masks(everything, model)
    if model.description.reranks:
        inputs, masks = _pairs(message, spec, inputs, masks)
    of_query, of_passages = message.WhichOneof("query_prompt"), message.WhichOneof("passage_prompt")
    return ComparisonRequest(
        inputs,
        OutputSpec(**comparison_outputs(spec, model.description), token_info=spec.details),
        model.key,
        message.ByteSize(),
        deadline,
        priority_of(message.priority),
        client,
        message.passage_prompt_name if of_passages == "passage_prompt_name" else None,
        message.passage_prompt_text if of_passages == "passage_prompt_text" else None,
        decode_truncation(message.truncation),
        special_tokens_of(message.special_tokens, model.special_tokens),
        masks,
        message.dry_run,
        spec=spec,
        query_prompt_name=message.query_prompt_name if of_query == "query_prompt_name" else None,
        query_prompt_text=message.query_prompt_text if of_query == "query_prompt_text" else None,
    )


def _check_sizes(message: pb.CompareRequest, model: ServedModel) -> None:
    """Refuse lists that no model could take, before each entry becomes an object."""
    if len(message.evidence) > len(EVIDENCE_METHODS):
        raise InvalidInput(
            "evidence",
            Reason.TOO_MANY_ENTRIES,
            count=len(message.evidence),
            most=len(EVIDENCE_METHODS),
        )
    architecture = model.runtime.bundle.manifest.architecture
    most = model.limits.max_request_tokens  # each span has a token
    for at, each in enumerate(message.evidence):
        field = f"evidence[{at}]"
        check_count(f"{field}.layers", len(each.layers), architecture.layers)
        check_count(f"{field}.heads", len(each.heads), architecture.heads)
        if len(each.spans) > len(message.passages):
            raise InvalidInput(
                f"{field}.spans",
                Reason.LISTS_FOR_PASSAGES,
                count=len(each.spans),
                passages=len(message.passages),
            )
        for place, spans in enumerate(each.spans):
            if len(spans.spans) > model.max_length:
                raise InvalidInput(
                    f"{field}.spans[{place}].spans",
                    Reason.TOO_MANY_ENTRIES,
                    count=len(spans.spans),
                    most=model.max_length,
                )
        if (count := sum([len(spans.spans) for spans in each.spans])) > most:
            raise InvalidInput(f"{field}.spans", Reason.SPANS_AND_TOKENS, count=count, most=most)
    parts = [(f"evidence[{at}]", each) for at, each in enumerate(message.evidence)]
    for field, part in (
        *parts,
        ("matrix", message.matrix),
        ("late_interaction", message.late_interaction),
    ):
        if has_unknown(part):
            raise InvalidInput(field, Reason.NEWER)


def _pairs(
    message: pb.CompareRequest,
    spec: CompareSpec,
    inputs: Sequence[Input],
    masks: list[Floats | None] | None,
) -> tuple[list[Input], list[Floats | None] | None]:
    """Return pairs of the query and each passage, and the mask of each. Raises InvalidInput."""
    query, *passages = inputs
    check_pairs(spec, query, passages)
    if message.query.HasField("head_mask"):
        raise InvalidInput("query.head_mask", Reason.MASK_OF_QUERY)
    pairs: list[Input] = [Pair(cast("str", query), cast("str", each)) for each in passages]
    return pairs, None if masks is None else masks[1:]


def _check_no_pair(inputs: list[Input]) -> None:
    for place, each in enumerate(inputs):
        if isinstance(each, Pair):
            raise InvalidInput(f"inputs[{place}].pair", Reason.PAIR_COMPARED)
