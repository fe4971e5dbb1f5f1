"""From values to protobuf. Answers are built in two steps: all but the data, whose size is then known; then data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.results import TokenList
from headlight.runtime import Runtime
from headlight.runtime.manifest import Architecture
from headlight.runtime.values import Floats, ItemResult, Selection, Tokenized
from service.convert import Interface

FLOAT_BYTES = 4
FLOAT = pb.DATA_TYPE_FLOAT32
TAG_BYTES = 1  # of a field numbered below 16
FRAMING_BYTES = 128  # at most: Timings, and the tags and lengths that adding data to four tensors brings


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
    return pb.GetModelResponse(model=ref, info=info, limits=limits, variants=variants, parity=parity)


def header(
    ref: pb.ModelRef, inputs: Sequence[Tokenized], wanted: Selection, architecture: Architecture
) -> pb.EncodeResponse:
    """An answer without data and timings: items, shapes, layers and offsets."""
    response = pb.EncodeResponse(model=ref, items=[_item(tokenized) for tokenized in inputs])
    if wanted.pooled:
        response.pooled.dtype = FLOAT
        response.pooled.shape.extend((len(inputs), architecture.dim))
    if wanted.tokens or wanted.role == "attend":
        dim, heads = architecture.dim, architecture.heads
        elements = [wanted.output_elements(len(tokenized.ids), dim, heads) for tokenized in inputs]
        if wanted.tokens:
            _ragged(response.tokens, (), [count["tokens"] for count in elements])
        if wanted.attention:
            _ragged(response.attention, wanted.attention, [count["attention"] for count in elements])
        if wanted.hidden:
            _ragged(response.hidden, wanted.hidden, [count["hidden"] for count in elements])
    return response


def fill(response: pb.EncodeResponse, results: Sequence[ItemResult]) -> None:
    """Put the data into a header, which is the whole answer then. Results are in the order of the items."""
    for name in ("pooled", "tokens", "attention", "hidden"):
        if response.HasField(name):
            getattr(response, name).data = b"".join([raw(getattr(result, name)).data for result in results])


def raw(array: Floats) -> Floats:
    """The array with the bytes that travel: little-endian, row-major. No copy on machines that count that way."""
    return np.ascontiguousarray(array, dtype="<f4")


def token_info(info: TokenList) -> pb.TokenInfo:
    """The tokens of one input."""
    return pb.TokenInfo(
        ids=info.ids,
        pieces=info.pieces,
        starts=info.starts,
        ends=info.ends,
        special=info.special,
        segments=info.segments,
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


def _ragged(tensor: pb.RaggedTensor, layers: Sequence[int], elements: Sequence[int]) -> None:
    tensor.dtype = FLOAT
    tensor.layers.extend(layers)
    tensor.offsets.extend(itertools.accumulate(elements, initial=0))


def _item(tokenized: Tokenized) -> pb.Item:
    item = pb.Item(
        token_count=len(tokenized.ids),
        original_token_count=tokenized.original_length,
        truncated=tokenized.truncated,
    )
    if tokenized.info is not None:
        item.tokens.CopyFrom(token_info(tokenized.info))
    return item
