"""Codec of attention and hidden-state specs (`headlight.spec`), for the clients and the service."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from headlight.errors import InvalidInput
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
    check_name,
    check_no_run,
)

T = TypeVar("T")
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
}
SPAN = "a start, an end and a text that are whole numbers from 0"


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
    """Encode an attention spec.

    Raises:
        InvalidInput: it is not an AttentionSpec, or a value is unknown to the contract or does not
            fit its type. The error names the field and the accepted values.
    """
    check_kind(spec, AttentionSpec)
    field = "outputs.attention"
    message = pb.AttentionOutput(
        queries=selector_of(f"{field}.queries", spec.queries),
        keys=selector_of(f"{field}.keys", spec.keys),
        unit=number_of(f"{field}.unit", UNITS, spec.unit),
        dtype=number_of(f"{field}.dtype", NUMBERS, spec.dtype),
    )
    with must(f"{field}.reduce", f"be a tuple of {', '.join(REDUCTIONS)}"):
        message.reduce.extend(
            [number_of(f"{field}.reduce", REDUCTIONS, name) for name in spec.reduce]
        )
    set_indices(f"{field}.layers", message.layers, message.layer_runs, spec.layers)
    set_indices(f"{field}.heads", message.heads, message.head_runs, spec.heads)
    with must(f"{field}.pairs", "be a list of (layer, head), two whole numbers each"):
        message.pairs.extend(pb.LayerHead(layer=layer, head=head) for layer, head in spec.pairs)
    with must(f"{field}.spans", f"be Spans, each with {SPAN}"):
        message.spans.extend(map(_text_span, spec.spans))
    remedies = {
        "scores": "be True or False",
        "drop_special": "be True or False",
        "top_k": "be a whole number from 1 to 4294967295",
        "max_bytes": "be a whole number from 0",
    }
    set_fields(field, message, spec, remedies)
    return message


def hidden_output(spec: HiddenSpec) -> pb.HiddenOutput:
    """Encode a hidden-state spec. Raises InvalidInput as `attention_output` does."""
    field = "outputs.hidden"
    message = pb.HiddenOutput(
        tokens=selector_of(f"{field}.tokens", spec.tokens),
        dtype=number_of(f"{field}.dtype", NUMBERS, spec.dtype),
    )
    set_indices(f"{field}.layers", message.layers, message.layer_runs, spec.layers)
    return message


def axes_of(output: str, response: pb.EncodeResponse) -> tuple[str, ...]:
    """Return the axes of one item's tensor of an output; for pooled, of the tensor of all items."""
    fixed = {
        "pooled": ("item", "value"),
        "tokens": ("token", "value"),
        "hidden": ("layer", "token", "value"),
    }
    if output in fixed:
        return fixed[output]
    axes = tuple(response.attention_map.axes)
    return axes[:-1] if output == "attention_scales" else axes


def grid(axes: Sequence[str], shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a tensor's extents for chunks: layers (or pairs), heads, rows, width; 1 if absent."""
    sizes = dict(zip(axes, shape, strict=True))
    planes, heads = sizes.get("layer", sizes.get("pair", 1)), sizes.get("head", 1)
    # Scales lack the last axis of their numbers. If queries are reduced, the last axis left is
    # heads, pairs or layers.
    width = 1 if not axes or axes[-1] in ("layer", "pair", "head") else shape[-1]
    rows = math.prod(shape) // max(1, planes * heads * width)
    return planes, heads, rows, width


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


def number_of(field: str, numbers: Mapping[NameT, T], name: NameT) -> T:
    """Return the contract's number for a name.

    Raises InvalidInput for another name, with the known ones.
    """
    check_name(field, name, numbers)
    return numbers[name]


def choice_number(field: str, numbers: Mapping[NameT, T], name: object, unspecified: T) -> T:
    """Return the contract's number for a name, `unspecified` for None.

    Raises InvalidInput for any other value, with the known names.
    """
    if name is None:
        return unspecified
    for each, number in numbers.items():
        if isinstance(name, str) and name == each:
            return number
    raise InvalidInput(field, f"must be None, {' or '.join(map(json.dumps, numbers))}")


def check_kind(spec: object, kind: type) -> None:
    """Raise InvalidInput unless a spec has the kind that the method takes."""
    if not isinstance(spec, kind):
        raise InvalidInput(
            "spec", f"is a {type(spec).__name__}; must be a headlight.{kind.__name__}"
        )


@contextlib.contextmanager
def must(field: str, remedy: str) -> Iterator[None]:
    """Raise InvalidInput, with the accepted values of a field, if a message refuses the value."""
    try:
        yield
    except (AttributeError, TypeError, ValueError):
        raise InvalidInput(field, f"must {remedy}") from None


def _indices(singles: Sequence[int], runs: Sequence[pb.IndexRun]) -> Indices:
    return (*singles, *(Run(run.begin, run.end if run.HasField("end") else None) for run in runs))


def set_indices(
    field: str, singles: MutableSequence[int], runs: MutableSequence[pb.IndexRun], indices: Indices
) -> None:
    """Add layers or heads to their two lists in a message.

    Raises InvalidInput for values out of range.
    """
    with must(field, "hold whole numbers (of 32 bits) or runs of them"):
        singles.extend(index for index in indices if not isinstance(index, Run))
        runs.extend(
            pb.IndexRun(begin=index.begin, end=index.end)
            for index in indices
            if isinstance(index, Run)
        )


def set_fields(field: str, message: Message, spec: object, remedies: Mapping[str, str]) -> None:
    """Copy the fields of a spec to fields of the same name. None leaves an optional field out.

    Raises:
        InvalidInput: a value does not fit; the error has its remedy.
    """
    for name, remedy in remedies.items():
        value = getattr(spec, name)
        if value is not None or not message.DESCRIPTOR.fields_by_name[name].has_presence:
            with must(f"{field}.{name}", remedy):
                setattr(message, name, value)


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


def selector_of(field: str, choice: TokenChoice) -> pb.TokenSelector | None:
    """Encode a choice of tokens; None: all tokens. Raises InvalidInput for another value."""
    check_no_run(field, choice)
    if isinstance(choice, str):
        named = number_of(field, NAMED, choice)
        return None if choice == "all" else pb.TokenSelector(named=named)
    if isinstance(choice, Span):
        with must(field, f"have {SPAN}"):
            return pb.TokenSelector(span=_text_span(choice))
    with must(field, f"be one of {', '.join(NAMED)}, a list of whole numbers, or a Span"):
        return pb.TokenSelector(indices=pb.TokenIndices(indices=choice))


def _span(span: pb.TextSpan) -> Span:
    return Span(span.start, span.end, span.text)


def _text_span(span: Span) -> pb.TextSpan:
    return pb.TextSpan(**Span(*span)._asdict())
