"""Encoding of answers to protobuf: first the header, which gives the size; then the data."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.runtime.values import Tokenized
from headlight_service.core.requests.answer import Answer, Prepared, Timings

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
    inputs = prepared.inputs
    response = pb.EncodeResponse(
        model=model_ref(ref),
        data_bytes=prepared.data_bytes,
        usage=usage_of(prepared),
    )
    if prepared.with_info:
        response.items.extend([item_of(tokenized) for tokenized in inputs])
    else:  # protobuf merges concatenated messages: ten times as fast as making new ones
        encoded = [
            _item_bytes(len(each.ids), each.original_length, each.prompt_length) for each in inputs
        ]
        response.MergeFromString(b"".join(encoded))
    types = numbers_of("DataType")
    for output, layouts in prepared.layouts():
        for name, layout in layouts.items():
            dtype, shapes = types[layout.type], layout.shapes
            if output.stacked:
                getattr(response, output.name).add(dtype=dtype, shape=shapes[0])
                continue
            sizes = [pb.Extents(sizes=shape) for shape in shapes]
            ragged = pb.RaggedTensor(
                dtype=dtype, layers=layout.layers, shapes=sizes, offsets=layout.offsets
            )
            getattr(response, name).MergeFrom(ragged)
        output.announce(response, prepared.selection[output.name], prepared.firsts)
    return response


def fill(response: pb.EncodeResponse, answer: Answer) -> pb.EncodeResponse:
    """Put timings and data into a header, which completes the answer. A dry run has no data."""
    set_details(response, answer)
    for output, _ in answer.prepared.selection.outputs():
        for place, (name, arrays) in enumerate(answer.arrays(output.name).items()):
            slot = getattr(response, output.name if output.stacked else name)
            tensor = slot[place] if output.stacked else slot
            tensor.data = b"".join([raw(array).data for array in arrays])
    return response


def set_details(response: pb.EncodeResponse, answer: Answer) -> None:
    """Put what is known after the run into a header: the timings, and the spelling of terms."""
    set_timings(response, answer.timings)
    for item, pieces in zip(response.items, answer.pieces(), strict=False):
        item.terms.pieces.extend(pieces)


def set_timings(
    response: pb.EncodeResponse | pb.CompareResponse | pb.RerankResponse | pb.ClassifyResponse,
    timings: Timings,
) -> None:
    """Set the times of the stages."""
    times = response.timings
    times.tokenize_ns, times.queue_ns, times.infer_ns, times.total_ns = timings


def raw(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in wire order: little-endian, row-major. No copy if it is already."""
    if LITTLE_ENDIAN and array.flags.c_contiguous:
        return array
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
def _item_bytes(length: int, original: int, prompt: int) -> bytes:
    """Return the bytes of an answer that holds only the counts of one input."""
    return pb.EncodeResponse(items=[_item(length, original, prompt)]).SerializeToString()
