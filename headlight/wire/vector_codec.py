"""Codec of vector specs (`headlight.spec`), prompts, special tokens and priority."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.spec import PooledSpec, Priority, RowType, SpecialTokens, TokensSpec, VectorType
from headlight.wire.attention_codec import check_kind, known, must, number_of, set_fields

VECTOR_TYPES: Mapping[VectorType, pb.DataType] = {
    "float32": pb.DATA_TYPE_FLOAT32,
    "float16": pb.DATA_TYPE_FLOAT16,
    "int8": pb.DATA_TYPE_INT8,
    "binary": pb.DATA_TYPE_BINARY,
    "ubinary": pb.DATA_TYPE_UBINARY,
}
ROW_TYPES: Mapping[RowType, pb.DataType] = {
    "float32": pb.DATA_TYPE_FLOAT32,
    "float16": pb.DATA_TYPE_FLOAT16,
}
VECTOR_NAMES: dict[int, VectorType] = {number: name for name, number in VECTOR_TYPES.items()}
SPECIAL_TOKENS: Mapping[SpecialTokens, pb.SpecialTokens] = {
    "parse": pb.SPECIAL_TOKENS_PARSE,
    "text": pb.SPECIAL_TOKENS_TEXT,
}
PRIORITIES: Mapping[Priority, pb.Priority] = {
    "interactive": pb.PRIORITY_INTERACTIVE,
    "bulk": pb.PRIORITY_BULK,
}


class PromptChoice(NamedTuple):
    """Requested prompt: one of the model's by name, or a text (empty: none).

    Neither: its default.
    """

    name: str | None = None
    text: str | None = None


def pooled_spec(message: pb.PooledOutput) -> PooledSpec:
    """Decode a spec of pooled vectors. Raises InvalidInput if this side does not know a type."""
    field = "outputs.pooled.dtypes"
    return PooledSpec(
        dimensions=message.dimensions if message.HasField("dimensions") else None,
        normalize=message.normalize if message.HasField("normalize") else None,
        dtypes=tuple(
            known(f"{field}[{at}]", VECTOR_TYPES, number)
            for at, number in enumerate(message.dtypes)
        ),
    )


def tokens_spec(message: pb.TokensOutput) -> TokensSpec:
    """Decode a spec of token vectors. Raises InvalidInput as `pooled_spec` does."""
    return TokensSpec(
        skip_special=message.skip_special,
        skip_prompt=message.skip_prompt,
        normalize=message.normalize,
        dtype=known("outputs.tokens.dtype", ROW_TYPES, message.dtype, "float32"),
    )


def pooled_output(spec: PooledSpec) -> pb.PooledOutput:
    """Encode a spec of pooled vectors.

    Raises:
        InvalidInput: it is not a PooledSpec, or a value is unknown to the contract or does not fit
            its type. The error names the field and the accepted values.
    """
    check_kind(spec, PooledSpec)
    field, message = "outputs.pooled", pb.PooledOutput()
    given: object = spec.dtypes
    if isinstance(given, str):
        raise InvalidInput(
            f"{field}.dtypes", f"is a text; must be a tuple of types, as ({given!r},)"
        )
    with must(f"{field}.dtypes", f"be a tuple of {', '.join(VECTOR_TYPES)}"):
        # an iterator can be read only once, and other code reads it too
        if not isinstance(given, Collection):
            raise TypeError
        message.dtypes.extend(
            [number_of(f"{field}.dtypes", VECTOR_TYPES, dtype) for dtype in spec.dtypes]
        )
    width = f"be a whole number from 1 to the width of the vectors, and is {spec.dimensions!r}"
    set_fields(field, message, spec, {"dimensions": width, "normalize": "be True, False or None"})
    return message


def one_type(spec: PooledSpec | None) -> PooledSpec:
    """Return a spec for vectors in one array; None: the default.

    Raises:
        InvalidInput: as for `pooled_output`, or there are several types.
    """
    if spec is None:
        return PooledSpec()
    if len(pooled_output(spec).dtypes) > 1:
        raise InvalidInput(
            "spec", "names several types, and one array has one; use encode_with_info(...).by_type"
        )
    return spec


def tokens_output(spec: TokensSpec) -> pb.TokensOutput:
    """Encode a spec of token vectors. Raises InvalidInput as `pooled_output` does."""
    check_kind(spec, TokensSpec)
    field, message = "outputs.tokens", pb.TokensOutput()
    set_fields(
        field,
        message,
        spec,
        dict.fromkeys(("skip_special", "skip_prompt", "normalize"), "be True or False"),
    )
    dtype = number_of(f"{field}.dtype", ROW_TYPES, spec.dtype)
    if spec.dtype != "float32":
        message.dtype = dtype
    return message


def prompt_choice(
    request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest,
) -> PromptChoice:
    """Decode the prompt of a request."""
    kind = request.WhichOneof("prompt")
    return PromptChoice(
        request.prompt_name if kind == "prompt_name" else None,
        request.prompt_text if kind == "prompt_text" else None,
    )


def set_prompt(
    request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest, choice: PromptChoice
) -> None:
    """Encode a prompt in a request.

    Raises:
        InvalidInput: a name and a text are both given, or one is not a text.
    """
    if choice.name is not None and choice.text is not None:
        raise InvalidInput("prompt", "and prompt_name are both given; give one of them")
    try:
        for field, text in (("prompt_name", choice.name), ("prompt_text", choice.text)):
            if text is not None:
                str.encode(text)  # protobuf would accept bytes too, as a text
                setattr(request, field, text)
    except (TypeError, ValueError):  # among others, a lone surrogate
        raise InvalidInput(
            "prompt", "and prompt_name must be texts that UTF-8 can express"
        ) from None


def special_tokens_of(number: int, default: SpecialTokens) -> SpecialTokens:
    """Decode the reading of special tokens. Raises InvalidInput for an unknown number."""
    return known("special_tokens", SPECIAL_TOKENS, number, default)


def priority_of(number: int) -> Priority:
    """Decode a priority. Raises InvalidInput for an unknown number."""
    return known("priority", PRIORITIES, number, "interactive")
