"""Requests for large outputs, and results of their answers; `headlight.client.calls.stream_calls` runs the stream."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.client.calls.stream_calls import Streamed
from headlight.description import ModelDescription
from headlight.embeddings import TokenVectors
from headlight.pb import headlight_pb2 as pb
from headlight.results import Attention, AttentionMaps, Hidden, TokenList, Units
from headlight.spec import AttentionSpec, HiddenSpec, IndicesLike, TokensSpec
from headlight.wire.attention_codec import attention_output, hidden_output
from headlight.wire.client_codec import Input, Reading, from_model_ref, from_token_info, malformed
from headlight.wire.reassembly import Answer
from headlight.wire.vector_codec import tokens_output


def token_vectors(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: TokensSpec | None, reading: Reading
) -> Streamed[TokenVectors]:
    """The vectors of the tokens of any number of inputs, and which they are."""

    def take(answer: Answer, index: int) -> TokenVectors:
        tokens, kept = tokens_of(answer, index), answer.response.kept_tokens
        places = tuple(kept[index].indices) if index < len(kept) else tuple(range(len(tokens)))
        if places and not 0 <= min(places) <= max(places) < len(tokens):
            raise malformed(f"vectors of tokens beyond {len(tokens)}")
        return TokenVectors(answer.part("tokens", index), places, tokens, from_model_ref(answer.response.model))

    outputs = pb.Outputs(tokens=tokens_output(TokensSpec() if spec is None else spec), token_info=pb.TokenInfoOutput())
    return Streamed(model, name, inputs, outputs, reading, take, bytes_per_token=4 * model.dim)


def bare_token_vectors(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: TokensSpec | None, reading: Reading
) -> Streamed[NDArray[Any]]:
    """The same as arrays alone."""
    outputs = pb.Outputs(tokens=tokens_output(TokensSpec() if spec is None else spec))
    return Streamed(
        model,
        name,
        inputs,
        outputs,
        reading,
        lambda answer, at: answer.part("tokens", at),
        bytes_per_token=4 * model.dim,
    )


def whole_attention(
    model: ModelDescription, name: str, inputs: Sequence[Input], layers: IndicesLike, reading: Reading
) -> Streamed[Attention]:
    """The whole maps of attention of some layers of each input."""

    def take(answer: Answer, index: int) -> Attention:
        origin, layout = from_model_ref(answer.response.model), answer.layouts["attention"]
        if layout.axes != ("layer", "head", "query", "key") or layout.shapes[index][2] != layout.shapes[index][3]:
            raise malformed(f"whole attention of the axes {layout.axes} and the shape {layout.shapes[index]}")
        return Attention(answer.part("attention", index), layout.layers, tokens_of(answer, index), origin)

    outputs = pb.Outputs(attention=attention_output(AttentionSpec.of(layers)), token_info=pb.TokenInfoOutput())
    return Streamed(model, name, inputs, outputs, reading, take)


def attention_maps(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: AttentionSpec,
    reading: Reading,
    head_mask: ArrayLike | None,
) -> Streamed[AttentionMaps]:
    """Attention of any number of inputs in the form that a spec says."""
    outputs = pb.Outputs(attention=attention_output(spec), token_info=pb.TokenInfoOutput())
    return Streamed(model, name, inputs, outputs, reading, maps_of, head_mask=head_mask)


def maps_of(answer: Answer, index: int) -> AttentionMaps:
    """The attention of one input. Raises BadAnswer where the answer does not hold together."""
    told, tokens = answer.response.attention_map, tokens_of(answer, index)
    values = answer.part("attention", index)
    places = told.places[index] if index < len(told.places) else pb.AttentionPlaces()
    sparse = "attention_indices" in answer.layouts
    if sparse != (told.axes[-1:] == ["top"]) or ("attention_scales" in answer.layouts) != (values.dtype == np.uint8):
        raise malformed("indices or scales of attention are missing, or belong to nothing")
    keys = _units(places.keys if places.HasField("keys") else None, len(tokens))
    indices = answer.part("attention_indices", index) if sparse else None
    if indices is not None and indices.max(initial=0) >= len(keys.tokens):
        raise malformed(f"an index of attention beyond its {len(keys.tokens)} keys")
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
        scales=answer.part("attention_scales", index) if values.dtype == np.uint8 else None,
        statistics=tuple(told.statistics),
    )


def _units(units: pb.Units | None, count: int) -> Units:
    """What the wire says of an axis. Raises BadAnswer where it names tokens that are not there."""
    if units is None:
        return Units(tuple((token,) for token in range(count)))
    tokens = tuple(units.tokens)
    bounds = (*(units.starts or range(len(tokens))), len(tokens))
    if (
        not tokens
        or bounds[0] != 0
        or any(end <= begin for begin, end in itertools.pairwise(bounds))
        or max(tokens) >= count
    ):
        raise malformed(f"units of attention beyond their {count} tokens")
    return Units(tuple(tokens[begin:end] for begin, end in itertools.pairwise(bounds)))


def hidden(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: HiddenSpec, reading: Reading
) -> Streamed[Hidden]:
    """Hidden states of each input."""

    def take(answer: Answer, index: int) -> Hidden:
        origin, chosen = from_model_ref(answer.response.model), answer.response.hidden_tokens
        places = tuple(chosen[index].indices) if index < len(chosen) else None
        layers = answer.layouts["hidden"].layers
        return Hidden(answer.part("hidden", index), layers, tokens_of(answer, index), origin, places)

    outputs = pb.Outputs(hidden=hidden_output(spec), token_info=pb.TokenInfoOutput())
    return Streamed(model, name, inputs, outputs, reading, take)


def tokens_of(answer: Answer, index: int) -> TokenList:
    """The tokens of one input. Raises BadAnswer where they do not match its count."""
    item = answer.response.items[index]
    tokens = from_token_info(item.tokens)
    if len(tokens) != item.token_count:
        raise malformed(f"{len(tokens)} tokens described of {item.token_count}")
    return tokens
