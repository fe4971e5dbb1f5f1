"""Requests for large outputs and their results.

`headlight.client.calls.stream_calls` runs the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from headlight.client.calls.list_work import TOKEN_BYTES
from headlight.client.calls.stream_calls import ResultT, Streamed
from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Reading, text_of
from headlight.interface.checked_specs import checked_spans
from headlight.outputs.contract import require
from headlight.outputs.hidden import hidden_output
from headlight.outputs.maps.wire_form import attention_output
from headlight.outputs.spans import given_spans, spans_output
from headlight.outputs.tokens import tokens_output
from headlight.pb import headlight_pb2 as pb
from headlight.results import Attention, AttentionMaps, Hidden, TokenList, TokenVectors, Units
from headlight.span_vectors import SpansSpec, SpanVectors
from headlight.spec import AttentionSpec, HiddenSpec, Indices, IndicesLike, Span, TokensSpec
from headlight.wire.client_codec import (
    from_model_ref,
    from_token_info,
)
from headlight.wire.reassembly import Answer

FLOAT_BYTES = 4  # at most, of a number or an index
PLACE_BYTES = 40  # of the place of a token or a span
ROW_BYTES = 64  # of the scale or the statistics of a row of attention


def token_vectors(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: TokensSpec,
    reading: Reading,
) -> Streamed[TokenVectors]:
    """Request token vectors of any number of inputs, with their tokens."""

    def take(answer: Answer, index: int) -> TokenVectors:
        tokens, kept = tokens_of(answer, index), answer.response.kept_tokens
        places = tuple(kept[index].indices) if index < len(kept) else tuple(range(len(tokens)))
        return TokenVectors(
            answer.part("tokens", index), places, tokens, from_model_ref(answer.response.model)
        )

    outputs = pb.Outputs(
        tokens=tokens_output(spec),
        token_info=pb.TokenInfoOutput(),
    )
    token_bytes = TOKEN_BYTES + PLACE_BYTES + FLOAT_BYTES * model.dim
    return Streamed(model, name, inputs, outputs, reading, take, token_bytes=token_bytes)


def bare_token_vectors(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: TokensSpec,
    reading: Reading,
) -> Streamed[NDArray[Any]]:
    """Request token vectors of any number of inputs, as bare arrays."""
    return Streamed(
        model,
        name,
        inputs,
        pb.Outputs(tokens=tokens_output(spec)),
        reading,
        lambda answer, at: answer.part("tokens", at),
        token_bytes=PLACE_BYTES + FLOAT_BYTES * model.dim,
    )


def span_vectors(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: SpansSpec, reading: Reading
) -> Streamed[SpanVectors]:
    """Request vectors of the spans of any number of inputs."""
    spec = checked_spans(spec, len(inputs))

    def take(answer: Answer, index: int) -> SpanVectors:
        places = answer.response.span_places[index]
        return SpanVectors(
            answer.part("spans", index),
            tuple(Span(each.start, each.end) for each in places.characters),
            tuple(map(range, places.token_starts, places.token_ends)),
            tokens_of(answer, index),
            from_model_ref(answer.response.model),
            tuple(places.window_starts),
        )

    outputs = pb.Outputs(spans=spans_output(spec), token_info=pb.TokenInfoOutput())
    # Windows and sentences are at most as many as tokens.
    return Streamed(
        model,
        name,
        inputs,
        outputs,
        reading,
        take,
        token_bytes=TOKEN_BYTES + PLACE_BYTES + FLOAT_BYTES * model.pooled_dim,
        spans=given_spans(spec),
    )


def whole_attention(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    layers: IndicesLike,
    reading: Reading,
) -> Streamed[Attention]:
    """Request the whole attention maps of some layers of one input."""
    [text] = inputs

    def take(answer: Answer, index: int) -> Attention:
        layers, origin = answer.layouts["attention"].layers, from_model_ref(answer.response.model)
        return Attention(
            answer.part("attention", index),
            layers,
            tokens_of(answer, index),
            origin,
            text_of(text),
        )

    return _attention(model, name, inputs, AttentionSpec.of(layers), reading, take)


def attention_maps(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: AttentionSpec,
    reading: Reading,
    head_mask: ArrayLike | None,
) -> Streamed[AttentionMaps]:
    """Request attention of any number of inputs in the form of a spec."""
    return _attention(model, name, inputs, spec, reading, maps_of, head_mask)


def _attention(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: AttentionSpec,
    reading: Reading,
    take: Callable[[Answer, int], ResultT],
    head_mask: ArrayLike | None = None,
) -> Streamed[ResultT]:
    outputs = pb.Outputs(attention=attention_output(spec), token_info=pb.TokenInfoOutput())
    layers, heads = _count(spec.layers, model.layers), _count(spec.heads, model.heads)
    maps = len(spec.pairs) or layers * heads
    indices = FLOAT_BYTES if spec.top_k is not None else 0
    return Streamed(
        model,
        name,
        inputs,
        outputs,
        reading,
        take,
        token_bytes=TOKEN_BYTES + ROW_BYTES * maps,
        pair_bytes=(FLOAT_BYTES + indices) * maps,
        alone=True,
        head_mask=head_mask,
    )


def _count(chosen: Indices, every: int) -> int:
    """Return how many layers or heads a spec chooses, at most."""
    return len(chosen) if chosen and all(isinstance(each, int) for each in chosen) else every


def maps_of(answer: Answer, index: int) -> AttentionMaps:
    """Return the attention of one input.

    Raises BadAnswer if an entry has an index beyond the keys.
    """
    told, tokens = answer.response.attention_map, tokens_of(answer, index)
    values = answer.part("attention", index)
    places = told.places[index] if index < len(told.places) else pb.AttentionPlaces()
    keys = _units(places.keys if places.HasField("keys") else None, len(tokens))
    indices = (
        answer.part("attention_indices", index) if "attention_indices" in answer.layouts else None
    )
    if indices is not None:
        count = len(keys.tokens)
        require(indices.max(initial=0) < count, f"an index of attention beyond its {count} keys")
    return AttentionMaps(
        values=values,
        axes=tuple(told.axes),
        layers=answer.layouts["attention"].layers,
        heads=tuple(told.heads),
        queries=_units(places.queries if places.HasField("queries") else None, len(tokens)),
        keys=keys,
        tokens=tokens,
        model=from_model_ref(answer.response.model),
        indices=indices,
        scales=answer.part("attention_scales", index)
        if "attention_scales" in answer.layouts
        else None,
        statistics=tuple(told.statistics),
    )


def _units(units: pb.Units | None, count: int) -> Units:
    """Return the units of an axis as the wire describes them."""
    return Units.of(range(count)) if units is None else Units.of(units.tokens, units.starts)


def hidden(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: HiddenSpec, reading: Reading
) -> Streamed[Hidden]:
    """Request hidden states of each input."""

    def take(answer: Answer, index: int) -> Hidden:
        origin, chosen = from_model_ref(answer.response.model), answer.response.hidden_tokens
        places = tuple(chosen[index].indices) if index < len(chosen) else None
        layers = answer.layouts["hidden"].layers
        return Hidden(
            answer.part("hidden", index), layers, tokens_of(answer, index), origin, places
        )

    outputs = pb.Outputs(hidden=hidden_output(spec), token_info=pb.TokenInfoOutput())
    states = _count(spec.layers, model.layers + 1)
    token_bytes = TOKEN_BYTES + PLACE_BYTES + FLOAT_BYTES * model.dim * states
    return Streamed(
        model, name, inputs, outputs, reading, take, token_bytes=token_bytes, alone=True
    )


def tokens_of(answer: Answer, index: int) -> TokenList:
    """Return the tokens of one input."""
    return from_token_info(answer.response.items[index].tokens)
