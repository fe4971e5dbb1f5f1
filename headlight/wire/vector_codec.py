"""Codec of vector specs (`headlight.spec`), prompts, special tokens and priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from headlight.errors import InvalidInput
from headlight.interface.checked_specs import checked_mean, checked_pooled, checked_tokens
from headlight.pb import headlight_pb2 as pb
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import (
    EmptyTexts,
    PooledSpec,
    Priority,
    RowType,
    Span,
    SpecialTokens,
    TokensSpec,
    VectorType,
)
from headlight.wire.attention_codec import known

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
EMPTY_TEXTS: Mapping[EmptyTexts, pb.EmptyTexts] = {
    "refuse": pb.EMPTY_TEXTS_REFUSE,
    "encode": pb.EMPTY_TEXTS_ENCODE,
}
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


def spans_spec(message: pb.SpansOutput) -> SpansSpec:
    """Decode a spec of span vectors. Raises InvalidInput if the kind is not set, or unknown."""
    field, kind = "outputs.spans", message.WhichOneof("kind")
    kinds: Literal["sentences"] | Windows | tuple[tuple[Span, ...], ...] = "sentences"
    if kind is None:
        raise InvalidInput(field, "has no kind; set given, sentences or windows")
    if kind == "windows":
        kinds = Windows(message.windows.size, message.windows.overlap)
    elif kind == "given":
        kinds = tuple(
            tuple(Span(span.start, span.end, span.text) for span in own.spans)
            for own in message.given.inputs
        )
    return SpansSpec(
        kind=kinds,
        include_special=message.include_special,
        pooling=checked_mean(f"{field}.pooling", message.pooling or None),
        dimensions=message.dimensions if message.HasField("dimensions") else None,
        normalize=message.normalize if message.HasField("normalize") else None,
        dtype=known(f"{field}.dtype", ROW_TYPES, message.dtype, "float32"),
        beyond_max_length=message.beyond_max_length,
    )


def spans_output(spec: SpansSpec) -> pb.SpansOutput:
    """Encode a checked spec of span vectors; given spans are left empty, for each request's own."""
    message = pb.SpansOutput(
        include_special=spec.include_special,
        pooling=spec.pooling or "",
        dimensions=spec.dimensions,
        dtype=None if spec.dtype == "float32" else ROW_TYPES[spec.dtype],
        beyond_max_length=spec.beyond_max_length,
    )
    if spec.normalize is not None:
        message.normalize = spec.normalize
    if isinstance(spec.kind, Windows):
        message.windows.CopyFrom(pb.TokenWindows(size=spec.kind.size, overlap=spec.kind.overlap))
    elif spec.kind == "sentences":
        message.sentences.SetInParent()
    else:
        message.given.SetInParent()
    return message


def given_spans(spec: SpansSpec) -> list[pb.TextSpans]:
    """Encode the given spans of each input; empty for other kinds."""
    if isinstance(spec.kind, str | Windows):
        return []
    return [pb.TextSpans(spans=[pb.TextSpan(**s._asdict()) for s in own]) for own in spec.kind]


def pooled_output(spec: PooledSpec) -> pb.PooledOutput:
    """Encode a spec of pooled vectors. Raises InvalidInput as `checked_pooled`."""
    spec = checked_pooled(spec)
    message = pb.PooledOutput(
        dimensions=spec.dimensions, dtypes=[VECTOR_TYPES[dtype] for dtype in spec.dtypes]
    )
    if spec.normalize is not None:
        message.normalize = spec.normalize
    return message


def tokens_output(spec: TokensSpec) -> pb.TokensOutput:
    """Encode a spec of token vectors. Raises InvalidInput as `checked_tokens`."""
    spec = checked_tokens(spec)
    return pb.TokensOutput(
        skip_special=spec.skip_special,
        skip_prompt=spec.skip_prompt,
        normalize=spec.normalize,
        dtype=None if spec.dtype == "float32" else ROW_TYPES[spec.dtype],
    )


def prompt_choice(
    request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest,
) -> PromptChoice:
    """Decode the prompt of a request."""
    kind = request.WhichOneof("prompt")
    return PromptChoice(
        request.prompt_name if kind == "prompt_name" else None,
        request.prompt_text if kind == "prompt_text" else None,
    )


def special_tokens_of(number: int, default: SpecialTokens) -> SpecialTokens:
    """Decode the reading of special tokens. Raises InvalidInput for an unknown number."""
    return known("special_tokens", SPECIAL_TOKENS, number, default)


def priority_of(number: int) -> Priority:
    """Decode a priority. Raises InvalidInput for an unknown number."""
    return known("priority", PRIORITIES, number, "interactive")
