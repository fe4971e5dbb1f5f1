"""Requested vectors, prompts, special tokens and priority, between values (`headlight.spec`) and messages."""

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
ROW_TYPES: Mapping[RowType, pb.DataType] = {"float32": pb.DATA_TYPE_FLOAT32, "float16": pb.DATA_TYPE_FLOAT16}
VECTOR_NAMES: dict[int, VectorType] = {number: name for name, number in VECTOR_TYPES.items()}
SPECIAL_TOKENS: Mapping[SpecialTokens, pb.SpecialTokens] = {
    "parse": pb.SPECIAL_TOKENS_PARSE,
    "text": pb.SPECIAL_TOKENS_TEXT,
}
PRIORITIES: Mapping[Priority, pb.Priority] = {"interactive": pb.PRIORITY_INTERACTIVE, "bulk": pb.PRIORITY_BULK}


class PromptWish(NamedTuple):
    """What is to be put before texts: one of the model's prompts by name, or a text (empty: nothing). Neither: its default."""

    name: str | None = None
    text: str | None = None


def pooled_spec(message: pb.PooledOutput) -> PooledSpec:
    """The wish that a message holds. Raises InvalidInput where a type is none that this side knows."""
    field = "outputs.pooled.dtypes"
    return PooledSpec(
        dimensions=message.dimensions if message.HasField("dimensions") else None,
        normalize=message.normalize if message.HasField("normalize") else None,
        dtypes=tuple(known(f"{field}[{at}]", VECTOR_TYPES, number) for at, number in enumerate(message.dtypes)),
    )


def tokens_spec(message: pb.TokensOutput) -> TokensSpec:
    """The same of token vectors."""
    return TokensSpec(
        skip_special=message.skip_special,
        skip_prompt=message.skip_prompt,
        normalize=message.normalize,
        dtype=known("outputs.tokens.dtype", ROW_TYPES, message.dtype, "float32"),
    )


def pooled_output(spec: PooledSpec) -> pb.PooledOutput:
    """The message of a wish.

    Raises:
        InvalidInput: a value is none that the contract knows, or does not fit its type; naming the field and what fits. Or it is
            no PooledSpec.
    """
    check_kind(spec, PooledSpec)
    field, message = "outputs.pooled", pb.PooledOutput()
    given: object = spec.dtypes
    if isinstance(given, str):
        raise InvalidInput(f"{field}.dtypes", f"is a text; must be a tuple of types, as ({given!r},)")
    with must(f"{field}.dtypes", f"be a tuple of {', '.join(VECTOR_TYPES)}"):
        if not isinstance(given, Collection):  # an iterator is read once, and this is not the only one to read it
            raise TypeError
        message.dtypes.extend([number_of(f"{field}.dtypes", VECTOR_TYPES, dtype) for dtype in spec.dtypes])
    width = f"be a whole number from 1 to the width of the vectors, and is {spec.dimensions!r}"
    set_fields(field, message, spec, {"dimensions": width, "normalize": "be True, False or None"})
    return message


def one_type(spec: PooledSpec | None) -> PooledSpec:
    """The wish for vectors that are one array; None: for those that need no wish.

    Raises:
        InvalidInput: as `pooled_output`, or there are several types.
    """
    if spec is None:
        return PooledSpec()
    if len(pooled_output(spec).dtypes) > 1:
        raise InvalidInput("spec", "names several types, and one array has one; use encode_with_info(...).by_type")
    return spec


def tokens_output(spec: TokensSpec) -> pb.TokensOutput:
    """The same of token vectors. Raises InvalidInput as `pooled_output`."""
    check_kind(spec, TokensSpec)
    field, message = "outputs.tokens", pb.TokensOutput()
    set_fields(field, message, spec, dict.fromkeys(("skip_special", "skip_prompt", "normalize"), "be True or False"))
    dtype = number_of(f"{field}.dtype", ROW_TYPES, spec.dtype)
    if spec.dtype != "float32":
        message.dtype = dtype
    return message


def prompt_wish(request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest) -> PromptWish:
    """What a request says of prompts."""
    kind = request.WhichOneof("prompt")
    return PromptWish(
        request.prompt_name if kind == "prompt_name" else None, request.prompt_text if kind == "prompt_text" else None
    )


def set_prompt(request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest, wish: PromptWish) -> None:
    """Say it in a request.

    Raises:
        InvalidInput: a name and a text are both given, or one is no text.
    """
    if wish.name is not None and wish.text is not None:
        raise InvalidInput("prompt", "and prompt_name are both given; give one of them")
    try:
        for field, text in (("prompt_name", wish.name), ("prompt_text", wish.text)):
            if text is not None:
                str.encode(text)  # of bytes, too, protobuf would make a text
                setattr(request, field, text)
    except (TypeError, ValueError):  # a lone surrogate among the latter
        raise InvalidInput("prompt", "and prompt_name must be texts that UTF-8 can express") from None


def special_tokens_of(number: int, default: SpecialTokens) -> SpecialTokens:
    """What a number that came stands for. Raises InvalidInput for one that this side does not know."""
    return known("special_tokens", SPECIAL_TOKENS, number, default)


def priority_of(number: int) -> Priority:
    """How soon an answer is wanted, by a number that came. Raises InvalidInput for one that this side does not know."""
    return known("priority", PRIORITIES, number, "interactive")
