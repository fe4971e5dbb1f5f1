"""Codec of attention and hidden-state specs (`headlight.spec`), for the clients and the service."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from headlight.errors import InvalidInput
from headlight.interface.checked_specs import checked_attention, checked_hidden
from headlight.pb import headlight_pb2 as pb
from headlight.spec import (
    AttentionSpec,
    HiddenSpec,
    Indices,
    NamedChoice,
    Number,
    Reduction,
    Run,
    Span,
    TokenChoice,
    Unit,
)

NameT = TypeVar("NameT", bound=str)
REDUCTIONS: Mapping[Reduction, pb.Reduction] = {
    "head_mean": pb.REDUCTION_HEAD_MEAN,
    "head_max": pb.REDUCTION_HEAD_MAX,
    "layer_mean": pb.REDUCTION_LAYER_MEAN,
    "rollout": pb.REDUCTION_ROLLOUT,
    "pooled_row": pb.REDUCTION_POOLED_ROW,
    "pooling_weights": pb.REDUCTION_POOLING_WEIGHTS,
    "statistics": pb.REDUCTION_STATISTICS,
}
NUMBERS: Mapping[Number, pb.DataType] = {
    "float32": pb.DATA_TYPE_FLOAT32,
    "float16": pb.DATA_TYPE_FLOAT16,
    "uint8": pb.DATA_TYPE_UINT8,
}
UNITS: Mapping[Unit, pb.Unit] = {"token": pb.UNIT_TOKEN, "word": pb.UNIT_WORD, "span": pb.UNIT_SPAN}
NAMED: Mapping[NamedChoice, pb.NamedTokens] = {
    "all": pb.NAMED_TOKENS_ALL,
    "pooled": pb.NAMED_TOKENS_POOLED,
    "first": pb.NAMED_TOKENS_FIRST,
    "special": pb.NAMED_TOKENS_SPECIAL,
}
OUTPUT_KINDS: Mapping[str, pb.OutputKind] = {
    "pooled": pb.OUTPUT_KIND_POOLED,
    "tokens": pb.OUTPUT_KIND_TOKENS,
    "attention": pb.OUTPUT_KIND_ATTENTION,
    "hidden": pb.OUTPUT_KIND_HIDDEN,
    "attention_indices": pb.OUTPUT_KIND_ATTENTION_INDICES,
    "attention_scales": pb.OUTPUT_KIND_ATTENTION_SCALES,
    "spans": pb.OUTPUT_KIND_SPANS,
}


def has_unknown(message: Message) -> bool:
    """Return whether a message, or one in it, has fields unknown to this side's contract."""
    # UnknownFieldSet would make an object of each field, and a message holds millions. Both sizes
    # are of the decoded message, not of its bytes on the wire.
    known_alone = type(message)()
    known_alone.CopyFrom(message)
    known_alone.DiscardUnknownFields()
    return known_alone.ByteSize() != message.ByteSize()


def attention_spec(message: pb.AttentionOutput) -> AttentionSpec:
    """Decode an attention spec.

    Raises:
        InvalidInput: an enumeration has a value unknown to this side; names the field.
    """
    field = "outputs.attention"
    reduce = [
        known(f"{field}.reduce[{at}]", REDUCTIONS, number)
        for at, number in enumerate(message.reduce)
    ]
    return AttentionSpec(
        layers=_indices(message.layers, message.layer_runs),
        heads=_indices(message.heads, message.head_runs),
        pairs=tuple((pair.layer, pair.head) for pair in message.pairs),
        reduce=tuple(reduce),
        queries=token_choice(f"{field}.queries", message.queries)
        if message.HasField("queries")
        else "all",
        keys=token_choice(f"{field}.keys", message.keys) if message.HasField("keys") else "all",
        unit=known(f"{field}.unit", UNITS, message.unit, "token"),
        spans=tuple(map(_span, message.spans)),
        top_k=message.top_k if message.HasField("top_k") else None,
        dtype=known(f"{field}.dtype", NUMBERS, message.dtype, "float32"),
        scores=message.scores,
        drop_special=message.drop_special,
        max_bytes=message.max_bytes if message.HasField("max_bytes") else None,
    )


def hidden_spec(message: pb.HiddenOutput) -> HiddenSpec:
    """Decode a hidden-state spec. Raises InvalidInput as `attention_spec` does."""
    field = "outputs.hidden"
    return HiddenSpec(
        layers=_indices(message.layers, message.layer_runs),
        tokens=token_choice(f"{field}.tokens", message.tokens)
        if message.HasField("tokens")
        else "all",
        dtype=known(f"{field}.dtype", NUMBERS, message.dtype, "float32"),
    )


def attention_output(spec: AttentionSpec) -> pb.AttentionOutput:
    """Encode an attention spec. Raises InvalidInput as `checked_attention`."""
    spec = checked_attention(spec)
    message = pb.AttentionOutput(
        queries=selector_of(spec.queries),
        keys=selector_of(spec.keys),
        unit=UNITS[spec.unit],
        dtype=NUMBERS[spec.dtype],
        reduce=[REDUCTIONS[name] for name in spec.reduce],
        pairs=[pb.LayerHead(layer=layer, head=head) for layer, head in spec.pairs],
        spans=map(_text_span, spec.spans),
        top_k=spec.top_k,
        scores=spec.scores,
        drop_special=spec.drop_special,
        max_bytes=spec.max_bytes,
    )
    set_indices(message.layers, message.layer_runs, spec.layers)
    set_indices(message.heads, message.head_runs, spec.heads)
    return message


def hidden_output(spec: HiddenSpec) -> pb.HiddenOutput:
    """Encode a hidden-state spec. Raises InvalidInput as `checked_hidden`."""
    spec = checked_hidden(spec)
    message = pb.HiddenOutput(tokens=selector_of(spec.tokens), dtype=NUMBERS[spec.dtype])
    set_indices(message.layers, message.layer_runs, spec.layers)
    return message


def axes_of(output: str, response: pb.EncodeResponse) -> tuple[str, ...]:
    """Return the axes of one item's tensor of an output; for pooled, of the tensor of all items."""
    fixed = {
        "pooled": ("item", "value"),
        "tokens": ("token", "value"),
        "hidden": ("layer", "token", "value"),
        "spans": ("span", "value"),
    }
    if output in fixed:
        return fixed[output]
    axes = tuple(response.attention_map.axes)
    return axes[:-1] if output == "attention_scales" else axes


def known(
    field: str, numbers: Mapping[NameT, int], number: int, unspecified: NameT | None = None
) -> NameT:
    """Return the name of an enumeration's number; `unspecified` for 0.

    Raises:
        InvalidInput: this side does not know the number.
    """
    name = {**{each: name for name, each in numbers.items()}, 0: unspecified}.get(number)
    if name is None:
        raise InvalidInput(
            field, f"{number} is not known to this server; see the contract, or leave the field out"
        )
    return name


def _indices(singles: Sequence[int], runs: Sequence[pb.IndexRun]) -> Indices:
    return (*singles, *(Run(run.begin, run.end if run.HasField("end") else None) for run in runs))


def set_indices(
    singles: MutableSequence[int], runs: MutableSequence[pb.IndexRun], indices: Indices
) -> None:
    """Add layers or heads to their two lists in a message."""
    singles.extend(index for index in indices if not isinstance(index, Run))
    runs.extend(
        pb.IndexRun(begin=index.begin, end=index.end) for index in indices if isinstance(index, Run)
    )


def token_choice(field: str, selector: pb.TokenSelector) -> TokenChoice:
    """Decode a selector of tokens. Raises InvalidInput if it is empty, or its name is unknown."""
    kind = selector.WhichOneof("tokens")
    if kind == "named":
        return known(field, NAMED, selector.named, "all")
    if kind == "indices":
        return tuple(selector.indices.indices)
    if kind == "span":
        return _span(selector.span)
    raise InvalidInput(
        field, "is empty; set named, indices or span, or leave it out for all tokens"
    )


def selector_of(choice: TokenChoice) -> pb.TokenSelector | None:
    """Encode a checked choice of tokens; None: all tokens."""
    if isinstance(choice, str):
        return None if choice == "all" else pb.TokenSelector(named=NAMED[choice])
    if isinstance(choice, Span):
        return pb.TokenSelector(span=_text_span(choice))
    return pb.TokenSelector(indices=pb.TokenIndices(indices=choice))


def _span(span: pb.TextSpan) -> Span:
    return Span(span.start, span.end, span.text)


def _text_span(span: Span) -> pb.TextSpan:
    return pb.TextSpan(**span._asdict())
