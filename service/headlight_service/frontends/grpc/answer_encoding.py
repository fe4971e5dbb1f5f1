"""From values to protobuf. Answers are built in two steps: all but the data, whose size is then known; then data."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.results import TokenList
from headlight.runtime import Runtime
from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.attention.token_units import Places, Units, attention_shape
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.values import Tokenized
from headlight.runtime.vectors.vector_forms import AS_THEY_ARE, Vector, as_types, packed
from headlight.spec import STATISTICS
from headlight.wire.attention_codec import NUMBERS, REDUCTIONS
from headlight.wire.vector_codec import ROW_TYPES, VECTOR_TYPES, to_special_tokens
from headlight_service.core.model_interface import Interface

LITTLE_ENDIAN = sys.byteorder == "little"
FLOAT = pb.DATA_TYPE_FLOAT32
TAG_BYTES = 1  # of a field numbered below 16
FRAMING_BYTES = 256  # at most: Timings, and the tags and lengths that adding data to ten tensors brings
# Outputs with ragged data, in the order in which chunks carry them behind pooled ones, and what each is in ItemResult.
RESULTS = {
    "tokens": "tokens",
    "attention": "attention",
    "hidden": "hidden",
    "attention_indices": "indices",
    "attention_scales": "scales",
}


def model_ref(runtime: Runtime) -> pb.ModelRef:
    """Which weights answer, on what."""
    manifest = runtime.bundle.manifest
    return pb.ModelRef(
        name=manifest.name,
        version=manifest.version,
        bundle_sha256=runtime.bundle.sha256,
        provider=runtime.provider,
        precision=runtime.precision,
    )


def describe(runtime: Runtime, ref: pb.ModelRef, interface: Interface, limits: pb.Limits) -> pb.GetModelResponse:
    """The answer of GetModel."""
    manifest = runtime.bundle.manifest
    architecture = manifest.architecture
    offer, prompts = interface.offer, interface.prompts
    info = pb.ModelInfo(
        positions=architecture.positions,
        layers=architecture.layers,
        heads=architecture.heads,
        dim=architecture.dim,
        vocab_size=architecture.vocab_size,
        trained_length=manifest.trained_length,
        max_length=manifest.max_length,
        pooling=manifest.pooling,
        normalized=manifest.normalize,
        accepts=interface.accepts,
        outputs=["pooled", "tokens", *(["attention", "hidden"] if interface.attend else []), "token_info"],
        pooled_dim=architecture.pooled_dim,
        prompts=[pb.NamedPrompt(name=name, text=text) for name, text in prompts.by_name.items()],
        default_prompt=prompts.default,
        include_prompt=manifest.include_prompt,
        trained_dimensions=manifest.dimensions,
        similarity=manifest.similarity,
        pooled_dtypes=[VECTOR_TYPES[dtype] for dtype in offer.dtypes],
        int8_dimensions=sorted(offer.ranges),
        special_tokens=to_special_tokens(interface.special_tokens),
    )
    parity = [
        pb.Parity(
            output=entry.output,
            provider=entry.provider,
            precision=entry.precision,
            max_error=entry.max_error,
            tolerance=entry.tolerance,
        )
        for entry in manifest.parity
    ]
    variants = [pb.Variant(provider=provider, precision=precision) for provider, precision in manifest.variants]
    quality = [pb.Quality(**dataclasses.asdict(entry)) for entry in manifest.quality]
    return pb.GetModelResponse(model=ref, info=info, limits=limits, variants=variants, parity=parity, quality=quality)


def header(
    ref: pb.ModelRef,
    inputs: Sequence[Tokenized],
    items: Sequence[EncodeItem],
    with_info: bool,
    architecture: Architecture,
) -> pb.EncodeResponse:
    """An answer without data and timings: what became of the inputs, and of every output its type, layers, shapes and offsets.

    Args:
        ref: which weights answer.
        inputs: as tokenised.
        items: as they are to run, of one selection.
        with_info: whether to say what the tokens are.
        architecture: of the model.
    """
    dim = architecture.dim
    response = pb.EncodeResponse(model=ref, usage=_usage(inputs))
    if with_info:
        response.items.extend([_item(tokenized) for tokenized in inputs])
    else:  # protobuf merges what is concatenated: ten times as fast as to make each anew
        told = [_told(len(each.ids), each.original_length, each.prompt_length) for each in inputs]
        response.MergeFromString(b"".join(told))
    wanted = items[0].selection
    if wanted.pooled:
        width = wanted.vector.width or architecture.pooled_dim
        for dtype in wanted.vector.dtypes:
            response.pooled.add(dtype=VECTOR_TYPES[dtype], shape=(len(inputs), packed(width, dtype)[0]))
    if wanted.tokens:
        _ragged(response.tokens, ROW_TYPES[wanted.rows.dtype], (), [(item.row_count, dim) for item in items])
        if wanted.rows.skip_special or wanted.rows.skip_prompt:
            response.kept_tokens.extend(pb.TokenIndices(indices=item.rows) for item in items)
    if (states := wanted.hidden) is not None:
        shapes = [
            (len(states.layers), len(item.ids) if item.states is None else len(item.states), dim) for item in items
        ]
        _ragged(response.hidden, NUMBERS[states.spec.dtype], states.layers, shapes)
        if states.spec.tokens != "all":
            response.hidden_tokens.extend(pb.TokenIndices(indices=item.states) for item in items)
    if wanted.attention is not None:
        _announce_attention(response, wanted.attention, items)
    return response


def _announce_attention(response: pb.EncodeResponse, choice: Choice, items: Sequence[EncodeItem]) -> None:
    spec = choice.spec
    shapes = [attention_shape(choice, item.where) for item in items]
    _ragged(response.attention, NUMBERS[spec.dtype], choice.layers, shapes)
    if spec.top_k:
        _ragged(response.attention_indices, pb.DATA_TYPE_UINT16, choice.layers, shapes)
    if spec.dtype == "uint8":
        _ragged(response.attention_scales, FLOAT, choice.layers, [shape[:-1] for shape in shapes])
    told = response.attention_map
    told.axes.extend(choice.axes)
    # Those of each layer are the same; pairs have one each.
    told.heads.extend([heads[0] for heads in choice.heads] if spec.pairs else choice.heads[0])
    told.reduce.extend(REDUCTIONS[name] for name in spec.reduce)
    told.statistics.extend(STATISTICS if "statistics" in spec.reduce else ())
    told.scores, told.drop_special = spec.scores, spec.drop_special
    if any(item.where.queries or item.where.keys for item in items):
        told.places.extend(_places(item.where) for item in items)


def _places(places: Places) -> pb.AttentionPlaces:
    return pb.AttentionPlaces(queries=_units(places.queries), keys=_units(places.keys))


def _units(units: Units | None) -> pb.Units | None:
    return None if units is None else pb.Units(tokens=units.tokens, starts=() if units.starts is None else units.starts)


def fill(response: pb.EncodeResponse, results: Sequence[ItemResult], vector: Vector = AS_THEY_ARE) -> None:
    """Put the data into a header, which is the whole answer then.

    Args:
        response: to be filled.
        results: in the order of the items.
        vector: the form in which pooled vectors were asked for.
    """
    if LITTLE_ENDIAN and vector.dtypes == ("float32",):  # mostly: rows as they are, copied once
        for tensor in response.pooled:
            tensor.data = b"".join([result.pooled.data for result in results if result.pooled is not None])
    else:
        for tensor, array in zip(response.pooled, pooled_tensors(response, results, vector), strict=True):
            tensor.data = raw(array).tobytes()
    for name, attribute in RESULTS.items():
        if response.HasField(name):
            getattr(response, name).data = b"".join([raw(getattr(result, attribute)).data for result in results])


def pooled_tensors(response: pb.EncodeResponse, results: Sequence[ItemResult], vector: Vector) -> list[NDArray[Any]]:
    """The pooled vectors [N, ...] in each type that a header announces."""
    if not response.pooled:
        return []
    vectors = np.concatenate([result.pooled for result in results if result.pooled is not None])
    return list(as_types(vectors.reshape(len(results), -1), vector).values())


def raw(array: NDArray[Any]) -> NDArray[Any]:
    """The array with the bytes that travel: little-endian, row-major. No copy on machines that count that way."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def token_info(info: TokenList) -> pb.TokenInfo:
    """The tokens of one input."""
    return pb.TokenInfo(
        ids=info.ids,
        pieces=info.pieces,
        starts=info.starts,
        ends=info.ends,
        special=info.special,
        segments=info.segments,
        prompt=info.prompt if any(info.prompt) else (),
    )


def tokenize_answer(ref: pb.ModelRef, infos: Iterable[pb.TokenInfo], inputs: int, limit_bytes: int) -> bytes:
    """The answer of Tokenize, serialised. Stops drawing `infos`, one of each input, once they are over the limit.

    Raises:
        InvalidInput: with the size reached.
    """
    response = pb.TokenizeResponse(model=ref)
    size = response.ByteSize()
    for done, info in enumerate(infos, 1):
        own = info.ByteSize()
        size += own + TAG_BYTES + _varint_bytes(own)
        if size > limit_bytes:
            have = f"the answer to the first {done} of {inputs}" if done < inputs else "the answer"
            problem = f"{have} would have {size} bytes, over {limit_bytes}; send fewer or shorter inputs"
            raise InvalidInput("inputs", problem)
        response.items.append(info)
    return response.SerializeToString()


def _varint_bytes(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))


def _ragged(
    tensor: pb.RaggedTensor, dtype: pb.DataType, layers: Sequence[int], shapes: Iterable[Sequence[int]]
) -> None:
    tensor.dtype = dtype
    tensor.layers.extend(layers)
    tensor.shapes.extend(pb.Extents(sizes=shape) for shape in shapes)
    tensor.offsets.extend(itertools.accumulate((math.prod(shape.sizes) for shape in tensor.shapes), initial=0))


def _usage(inputs: Sequence[Tokenized]) -> pb.Usage:
    return pb.Usage(
        token_count=sum([len(tokenized.ids) for tokenized in inputs]),
        prompt_token_count=sum([tokenized.prompt_length for tokenized in inputs]),
        original_token_count=sum([tokenized.original_length for tokenized in inputs]),
    )


def _item(tokenized: Tokenized) -> pb.Item:
    """What became of an input, and what its tokens are."""
    item = _counts(len(tokenized.ids), tokenized.original_length, tokenized.prompt_length)
    if tokenized.info is not None:
        item.tokens.CopyFrom(token_info(tokenized.info))
    return item


def _counts(length: int, original: int, prompt: int) -> pb.Item:
    return pb.Item(
        token_count=length, original_token_count=original, truncated=original != length, prompt_token_count=prompt
    )


@functools.lru_cache(maxsize=1024)
def _told(length: int, original: int, prompt: int) -> bytes:
    """An answer that holds what became of one input and nothing else."""
    return pb.EncodeResponse(items=[_counts(length, original, prompt)]).SerializeToString()
