"""Codec of requests and answers for both clients.

Frames of a stream: `headlight.wire.reassembly`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.description import Limits, ListedModel, ModelDescription, Parity, Quality
from headlight.interface.arguments import (
    Input,
    Prompting,
    Reading,
    check_reading,
    checked_head_mask,
    checked_input,
)
from headlight.outputs.contract import malformed, numbers_of, require
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.spec import VECTOR_BITS, Truncate

VECTOR_NAMES = {numbers_of("DataType")[name]: name for name in VECTOR_BITS}
TRUNCATIONS: dict[Truncate, pb.Truncation] = {
    "refuse": pb.TRUNCATION_REFUSE,
    "end": pb.TRUNCATION_CUT_END,
    "start": pb.TRUNCATION_CUT_START,
    "only_second": pb.TRUNCATION_CUT_SECOND,
}
QUALITY = tuple(field.name for field in dataclasses.fields(Quality))
TRUNCATION_NAMES: dict[int, Truncate] = {number: name for name, number in TRUNCATIONS.items()}


def to_head_mask(model: ModelDescription, mask: ArrayLike | None) -> pb.HeadMask | None:
    """Encode factors of the heads; None: none. Raises InvalidInput as `checked_head_mask`."""
    if mask is None:
        return None
    return pb.HeadMask(values=checked_head_mask(mask, model.layers, model.heads).ravel())


def to_input(item: Input, field: str, head_mask: pb.HeadMask | None = None) -> pb.Input:
    """Encode one input.

    Args:
        item: a text, a pair of texts, or a one-dimensional sequence of integers.
        field: its path in the request, for the error.
        head_mask: mask for this input; None: none.

    Raises:
        InvalidInput: as `checked_input`.
    """
    given = checked_input(item, field)
    if isinstance(given, str):
        return pb.Input(text=given, head_mask=head_mask)
    if isinstance(given, tuple):
        return pb.Input(pair=pb.TextPair(first=given[0], second=given[1]), head_mask=head_mask)
    return pb.Input(ids=pb.TokenIds(ids=given), head_mask=head_mask)


def set_reading(
    request: pb.EncodeRequest
    | pb.TokenizeRequest
    | pb.OccludeRequest
    | pb.RerankRequest
    | pb.ClassifyRequest,
    reading: Prompting,
) -> None:
    """Set the reading of texts, the priority and the prompt in a request.

    Raises:
        InvalidInput: as `check_reading`.
    """
    set_common(request, reading)
    if (name := reading.get("prompt_name")) is not None:
        request.prompt_name = name
    if (text := reading.get("prompt")) is not None:
        request.prompt_text = text


def set_common(
    request: pb.EncodeRequest
    | pb.TokenizeRequest
    | pb.OccludeRequest
    | pb.CompareRequest
    | pb.RerankRequest
    | pb.ClassifyRequest,
    reading: Prompting,
) -> None:
    """Set the reading of texts and the priority. Raises InvalidInput as `check_reading`."""
    check_reading(reading)
    encoding = cast("Reading", reading)
    if not isinstance(request, pb.TokenizeRequest):
        if (truncate := encoding.get("truncate")) is not None:
            request.truncation = TRUNCATIONS[truncate]
        if not isinstance(request, pb.OccludeRequest | pb.CompareRequest) and (
            empty := encoding.get("empty_texts")
        ):
            request.empty_texts = numbers_of("EmptyTexts")[empty]
        if (priority := encoding.get("priority")) is not None:
            request.priority = numbers_of("Priority")[priority]
    if isinstance(request, pb.EncodeRequest | pb.TokenizeRequest | pb.ClassifyRequest) and (
        role := encoding.get("role")
    ):
        request.role = numbers_of("InputRole")[role]
    if (special_tokens := encoding.get("special_tokens")) is not None:
        request.special_tokens = numbers_of("SpecialTokens")[special_tokens]


def encode_request(
    name: str,
    inputs: Iterable[pb.Input],
    outputs: pb.Outputs,
    reading: Reading,
    *,
    dry_run: bool = False,
) -> pb.EncodeRequest:
    """Return a request for outputs of some inputs. Raises InvalidInput as `set_reading` does."""
    request = pb.EncodeRequest(model=name, inputs=inputs, outputs=outputs, dry_run=dry_run)
    set_reading(request, reading)
    return request


def from_model_ref(ref: pb.ModelRef) -> ModelRef:
    """Decode the weights, provider and precision of an answer."""
    return ModelRef(ref.name, ref.version, ref.bundle_sha256, ref.provider, ref.precision)


def from_models(response: pb.ListModelsResponse) -> list[ListedModel]:
    """Decode the list of a service's models."""
    return [
        ListedModel(from_model_ref(each.model), tuple(each.names), each.task, each.default)
        for each in response.models
    ]


def from_token_info(info: pb.TokenInfo) -> TokenList:
    """Decode the tokens of one input. Raises BadAnswer if the parallel lists differ in length."""
    count = len(info.ids)
    tokens = TokenList(
        ids=tuple(info.ids),
        pieces=tuple(info.pieces) or ("",) * count,
        starts=tuple(info.starts),
        ends=tuple(info.ends),
        special=tuple(info.special),
        segments=tuple(info.segments),
        prompt=tuple(info.prompt),
    )
    lengths = {len(getattr(tokens, field.name)) for field in dataclasses.fields(TokenList)}
    require(lengths == {count}, f"the parallel lists of {count} tokens differ in length")
    return tokens


def _value(row: pb.Quality, name: str) -> Any:
    """Return a field; None: it is optional and absent."""
    optional = name in ("kendall_tau", "ndcg_at_10")
    return None if optional and not row.HasField(name) else getattr(row, name)


def native(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers in this machine's byte order, copied only if needed."""
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)


def from_bytes(dtype: np.dtype[Any], data: bytes, elements: int) -> NDArray[Any]:
    """Decode numbers into a flat, writable array.

    Raises:
        BadAnswer: the data has another size than that of so many elements.
    """
    size = dtype.itemsize * elements
    if len(data) != size:
        raise malformed(f"{len(data)} bytes of data where {size} were announced")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))


def from_model(response: pb.GetModelResponse) -> ModelDescription:
    """Decode the description of a model and its service."""
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
        prompts={prompt.name: prompt.text for prompt in info.prompts},
        default_prompt=info.default_prompt or None,
        include_prompt=info.include_prompt,
        pooled_dim=info.pooled_dim,
        trained_dimensions=tuple(info.trained_dimensions),
        int8_dimensions=tuple(info.int8_dimensions),
        pooled_types=tuple(
            VECTOR_NAMES[number] for number in info.pooled_dtypes if number in VECTOR_NAMES
        ),
        similarity=info.similarity or None,
        special_tokens="text" if info.special_tokens == pb.SPECIAL_TOKENS_TEXT else "parse",
        truncation=TRUNCATION_NAMES.get(info.truncation, "refuse"),
        task=info.task or "embed",  # of servers before tasks
        labels=tuple(info.labels),
        token_labels=info.token_labels,
        activation=info.activation,
        multi_vector_dim=info.multi_vector_dim,
        query_tokens=info.query_tokens,
        names=tuple(response.names),
        variants=tuple((variant.provider, variant.precision) for variant in response.variants),
        parity=tuple(
            Parity(row.output, row.provider, row.precision, row.max_error, row.tolerance)
            for row in response.parity
        ),
        quality=tuple(
            Quality(**{name: _value(row, name) for name in QUALITY}) for row in response.quality
        ),
    )
