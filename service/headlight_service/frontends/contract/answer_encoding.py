"""Encoding of answers to protobuf: first the header, which gives the size; then the data."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.attention.token_units import Units, attention_shape
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.values import Tokenized
from headlight.spec import STATISTICS, VECTOR_BITS
from headlight.wire.attention_codec import NUMBERS, REDUCTIONS
from headlight.wire.vector_codec import ROW_TYPES, VECTOR_TYPES
from headlight_service.core.requests.answer import RAGGED, Answer, Prepared, Timings

LITTLE_ENDIAN = sys.byteorder == "little"
FLOAT = pb.DATA_TYPE_FLOAT32
FRAMING_BYTES = 256  # at most: Timings, and the tags and lengths of the data of ten tensors


@functools.lru_cache(maxsize=16)
def model_ref(ref: ModelRef) -> pb.ModelRef:
    """Return the model that answers, and its weights."""
    return pb.ModelRef(**dataclasses.asdict(ref))


def usage_of(prepared: Prepared) -> pb.Usage:
    """Return the tokens of all inputs together."""
    inputs = prepared.inputs
    return pb.Usage(
        # Windows of a long text share tokens.
        token_count=prepared.tokens
        if prepared.spans is None
        else sum([len(tokenized.ids) for tokenized in inputs]),
        prompt_token_count=sum([tokenized.prompt_length for tokenized in inputs]),
        original_token_count=sum([tokenized.original_length for tokenized in inputs]),
    )


def header(ref: ModelRef, prepared: Prepared) -> pb.EncodeResponse:
    """Return an answer without data and timings.

    It has the inputs' counts, and each output's type, layers, shapes and offsets.
    """
    inputs, items, architecture = prepared.inputs, prepared.items, prepared.architecture
    dim = architecture.dim
    response = pb.EncodeResponse(
        model=model_ref(ref),
        data_bytes=prepared.data_bytes,
        usage=usage_of(prepared),
    )
    if prepared.with_info:
        response.items.extend([item_of(tokenized) for tokenized in inputs])
    else:  # protobuf merges concatenated messages: ten times as fast as making new ones
        told = [_told(len(each.ids), each.original_length, each.prompt_length) for each in inputs]
        response.MergeFromString(b"".join(told))
    wanted = items[0].selection
    if wanted.pooled:
        width = wanted.vector.width or architecture.pooled_dim
        for dtype in wanted.vector.dtypes:
            extent = width // 8 if VECTOR_BITS[dtype] == 1 else width
            response.pooled.add(dtype=VECTOR_TYPES[dtype], shape=(len(inputs), extent))
    if wanted.tokens:
        _ragged(
            response.tokens,
            ROW_TYPES[wanted.rows.dtype],
            (),
            [(item.row_count, dim) for item in items],
        )
        if wanted.rows.skip_special or wanted.rows.skip_prompt:
            response.kept_tokens.extend(pb.TokenIndices(indices=item.rows) for item in items)
    if (states := wanted.hidden) is not None:
        shapes = [
            (len(states.layers), len(item.ids) if item.states is None else len(item.states), dim)
            for item in items
        ]
        _ragged(response.hidden, NUMBERS[states.spec.dtype], states.layers, shapes)
        if states.spec.tokens != "all":
            response.hidden_tokens.extend(pb.TokenIndices(indices=item.states) for item in items)
    if wanted.attention is not None:
        _announce_attention(response, wanted.attention, items)
    if wanted.spans is not None and prepared.spans is not None:
        width = wanted.spans.form.width or architecture.pooled_dim
        _ragged(
            response.spans,
            ROW_TYPES[wanted.spans.spec.dtype],
            (),
            [(len(work.spans.begins), width) for work in prepared.spans],
        )
        response.span_places.extend(map(_span_places, prepared.spans))
    return response


def _span_places(work: SpanItems) -> pb.SpanPlaces:
    spans, ranges = work.spans, work.spans.token_ranges
    characters = () if spans.characters is None else spans.characters.tolist()
    return pb.SpanPlaces(
        characters=[pb.TextSpan(start=start, end=end) for start, end in characters],
        token_starts=[each.start for each in ranges],
        token_ends=[each.stop for each in ranges],
        window_starts=work.window_starts,
    )


def _announce_attention(
    response: pb.EncodeResponse, choice: Choice, items: Sequence[EncodeItem]
) -> None:
    spec = choice.spec
    shapes = [attention_shape(choice, item.where) for item in items]
    _ragged(response.attention, NUMBERS[spec.dtype], choice.layers, shapes)
    if spec.top_k:
        _ragged(response.attention_indices, pb.DATA_TYPE_UINT16, choice.layers, shapes)
    if spec.dtype == "uint8":
        _ragged(response.attention_scales, FLOAT, choice.layers, [shape[:-1] for shape in shapes])
    places = [(item.where.queries, item.where.keys) for item in items]
    told = pb.AttentionMap(
        axes=choice.axes,
        # Each layer has the same heads; pairs have one each.
        heads=[heads[0] for heads in choice.heads] if spec.pairs else choice.heads[0],
        reduce=[REDUCTIONS[name] for name in spec.reduce],
        statistics=STATISTICS if "statistics" in spec.reduce else (),
        scores=spec.scores,
        drop_special=spec.drop_special,
    )
    if any(queries or keys for queries, keys in places):
        told.places.extend(
            pb.AttentionPlaces(queries=_units(queries), keys=_units(keys))
            for queries, keys in places
        )
    response.attention_map.CopyFrom(told)


def _units(units: Units | None) -> pb.Units | None:
    return (
        None
        if units is None
        else pb.Units(tokens=units.tokens, starts=() if units.starts is None else units.starts)
    )


def fill(response: pb.EncodeResponse, answer: Answer) -> pb.EncodeResponse:
    """Put timings and data into a header, which completes the answer. A dry run has no data."""
    set_timings(response, answer.timings)
    results = answer.results
    if not results:
        return response
    # The usual case: rows as they are.
    if LITTLE_ENDIAN and answer.prepared.selection.vector.dtypes == ("float32",):
        for tensor in response.pooled:
            tensor.data = b"".join(
                [result.pooled.data for result in results if result.pooled is not None]
            )
    else:
        for tensor, array in zip(response.pooled, answer.pooled(), strict=True):
            tensor.data = raw(array).tobytes()
    for name, attribute in RAGGED.items():
        if response.HasField(name):
            getattr(response, name).data = b"".join(
                [raw(getattr(result, attribute)).data for result in results]
            )
    return response


def set_timings(response: pb.EncodeResponse | pb.CompareResponse, timings: Timings) -> None:
    """Set the times of the stages."""
    told = response.timings
    told.tokenize_ns, told.queue_ns, told.infer_ns, told.total_ns = timings


def raw(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in wire order: little-endian, row-major. No copy if it is already."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def token_info(info: TokenList) -> pb.TokenInfo:
    """Return the tokens of one input."""
    return pb.TokenInfo(
        ids=info.ids,
        pieces=info.pieces,
        starts=info.starts,
        ends=info.ends,
        special=info.special,
        segments=info.segments,
        prompt=info.prompt if any(info.prompt) else (),
    )


def _ragged(
    tensor: pb.RaggedTensor,
    dtype: pb.DataType,
    layers: Sequence[int],
    shapes: Sequence[Sequence[int]],
) -> None:
    offsets = itertools.accumulate(map(math.prod, shapes), initial=0)
    sizes = [pb.Extents(sizes=shape) for shape in shapes]
    tensor.MergeFrom(pb.RaggedTensor(dtype=dtype, layers=layers, shapes=sizes, offsets=offsets))


def item_of(tokenized: Tokenized) -> pb.Item:
    """Return an input's counts, and its tokens."""
    return _item(
        len(tokenized.ids), tokenized.original_length, tokenized.prompt_length, tokenized.info
    )


def _item(length: int, original: int, prompt: int, info: TokenList | None = None) -> pb.Item:
    return pb.Item(
        token_count=length,
        original_token_count=original,
        truncated=original != length,
        prompt_token_count=prompt,
        tokens=None if info is None else token_info(info),
    )


@functools.lru_cache(maxsize=1024)
def _told(length: int, original: int, prompt: int) -> bytes:
    """Return the bytes of an answer that holds only the counts of one input."""
    return pb.EncodeResponse(items=[_item(length, original, prompt)]).SerializeToString()
