"""Between protobuf messages and the client's values; both clients use it. Frames of a stream: `headlight.chunks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headlight.errors import EngineError, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.results import Floats, Limits, ModelDescription, ModelRef, Parity, TokenList

# One input: a text, a pair of texts seen together, or token ids, special tokens included.
Input = str | tuple[str, str] | Sequence[int] | NDArray[np.integer]
# Which side of a text too long is cut off; None: refuse it.
Truncate = Literal["end", "start"] | None

TRUNCATIONS: dict[str | None, pb.Truncation] = {
    None: pb.TRUNCATION_REFUSE,
    "end": pb.TRUNCATION_CUT_END,
    "start": pb.TRUNCATION_CUT_START,
}


def malformed(problem: str) -> EngineError:
    """The error for an answer that breaks the contract: a bug of the server, or not a Headlight server."""
    return EngineError(f"the server's answer is malformed: {problem}")


def as_list(texts: Iterable[Input] | str) -> list[Input]:
    """The inputs of one call; a lone text counts as a list of one."""
    return [texts] if isinstance(texts, str) else list(texts)


def to_input(item: Input, field: str) -> pb.Input:
    """One input as the contract has it.

    Args:
        item: a text, a pair of texts, or a one-dimensional sequence of integers.
        field: its path in the request, for the error.

    Raises:
        InvalidInput: it is none of these, or cannot be written as UTF-8 or int64.
    """
    try:
        if isinstance(item, str):
            return pb.Input(text=item)
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str):
            return pb.Input(pair=pb.TextPair(first=item[0], second=item[1]))
        ids = np.asarray(item)
        if ids.ndim == 1 and ids.dtype.kind in "iu":
            return pb.Input(ids=pb.TokenIds(ids=ids.tolist()))
    except UnicodeEncodeError:
        raise InvalidInput(
            field, "holds a lone surrogate, which UTF-8 cannot express; decode the text properly"
        ) from None
    except (TypeError, ValueError):  # a ragged list; an id beyond int64
        pass
    raise InvalidInput(field, "must be a text, a pair of texts, or a sequence of integer ids (at least one)")


def to_truncation(truncate: Truncate) -> pb.Truncation:
    """The contract's name for what to do with an input too long. Raises InvalidInput for any other value."""
    if truncate not in TRUNCATIONS:
        raise InvalidInput("truncate", 'must be None, "end" or "start"')
    return TRUNCATIONS[truncate]


def to_layers(layers: Iterable[int] | None) -> list[int]:
    """A choice of layers as the contract has it, where an empty list means all.

    Raises:
        InvalidInput: the choice is empty, which the contract cannot say.
    """
    if layers is None:
        return []
    chosen = [int(layer) for layer in layers]
    if not chosen:
        raise InvalidInput("layers", "must name at least one layer; None means all")
    return chosen


def from_model_ref(ref: pb.ModelRef) -> ModelRef:
    """Which weights answered, on what."""
    return ModelRef(ref.name, ref.version, ref.bundle_sha256, ref.provider, ref.precision)


def from_token_info(info: pb.TokenInfo) -> TokenList:
    """The tokens of one input. Raises EngineError where the parallel lists differ in length."""
    count = len(info.ids)
    tokens = TokenList(
        ids=tuple(info.ids),
        pieces=tuple(info.pieces) or ("",) * count,
        starts=tuple(info.starts),
        ends=tuple(info.ends),
        special=tuple(info.special),
        segments=tuple(info.segments),
    )
    lists = (tokens.pieces, tokens.starts, tokens.ends, tokens.special, tokens.segments)
    if any(len(entries) != count for entries in lists):
        raise malformed(f"the parallel lists of {count} tokens differ in length")
    return tokens


def from_bytes(dtype: pb.DataType, data: bytes, elements: int) -> Floats:
    """Numbers off the wire: a writable float32 [elements].

    Raises:
        EngineError: another type, or more or fewer bytes.
    """
    if dtype != pb.DATA_TYPE_FLOAT32:
        raise malformed(f"element type {dtype} is not known to this client; a newer one may know it")
    if len(data) != 4 * elements:
        raise malformed(f"{len(data)} bytes of data where {4 * elements} were announced")
    return np.frombuffer(data, "<f4").astype(np.float32)


def from_model(response: pb.GetModelResponse) -> ModelDescription:
    """A model and its service."""
    ref, info, limits = response.model, response.info, response.limits
    return ModelDescription(
        name=ref.name,
        version=ref.version,
        bundle_sha256=ref.bundle_sha256,
        provider=ref.provider,
        precision=ref.precision,
        positions=info.positions,
        layers=info.layers,
        heads=info.heads,
        dim=info.dim,
        vocab_size=info.vocab_size,
        trained_length=info.trained_length,
        max_length=info.max_length,
        pooling=info.pooling,
        normalized=info.normalized,
        accepts=tuple(info.accepts),
        outputs=tuple(info.outputs),
        limits=Limits(
            max_items=limits.max_items,
            max_request_bytes=limits.max_request_bytes,
            max_unary_response_bytes=limits.max_unary_response_bytes,
            max_stream_output_bytes=limits.max_stream_output_bytes,
            max_stream_in_flight=limits.max_stream_in_flight,
            max_request_tokens=limits.max_request_tokens,
        ),
        variants=tuple((variant.provider, variant.precision) for variant in response.variants),
        parity=tuple(
            Parity(row.output, row.provider, row.precision, row.max_error, row.tolerance) for row in response.parity
        ),
    )
