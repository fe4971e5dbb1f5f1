"""Specs as the contract can express them, whoever made them: tuples of names and numbers.

Whether a model can answer them is checked where the model is known.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.refusals import Argument
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import (
    AXIS_OF,
    NUMBER_BYTES,
    VECTOR_BITS,
    AttentionSpec,
    HiddenSpec,
    Indices,
    MultiVectorSpec,
    NamedChoice,
    PooledSpec,
    RowType,
    Run,
    Span,
    SparseSpec,
    TokenChoice,
    TokensSpec,
    Unit,
    check_name,
    check_no_run,
)

T = TypeVar("T")
INT32, UINT32, UINT64 = (-(2**31), 2**31 - 1), (0, 2**32 - 1), (0, 2**64 - 1)


def checked_pooled(spec: PooledSpec) -> PooledSpec:
    """Return a spec of pooled vectors.

    Raises:
        InvalidInput: a value does not fit its type, or is no name that there is. The error names
            the field and the accepted values.
    """
    field, given = "outputs.pooled", cast("Any", spec.dtypes)
    # an iterator can be read once, and others read it too
    if isinstance(given, str) or not isinstance(given, Collection):
        raise InvalidInput(
            f"{field}.dtypes", Reason.MUST_BE, kind=Phrase.TUPLE_OF, names=", ".join(VECTOR_BITS)
        )
    for name in given:
        check_name(f"{field}.dtypes", name, VECTOR_BITS)
    if spec.normalize is not None:
        _flag(f"{field}.normalize", spec.normalize, Phrase.FLAG_OR_NONE)
    return PooledSpec(
        dimensions=optional(f"{field}.dimensions", spec.dimensions, UINT32, Phrase.WIDTH),
        normalize=None if spec.normalize is None else bool(spec.normalize),
        dtypes=tuple(given),
    )


def checked_spans(spec: SpansSpec, inputs: int) -> SpansSpec:
    """Return a spec of span vectors of so many inputs. Raises InvalidInput as `checked_pooled`."""
    field, kind = "outputs.spans", cast("Any", spec.kind)
    for name in ("include_special", "beyond_max_length"):
        _flag(f"{field}.{name}", getattr(spec, name))
    if spec.normalize is not None:
        _flag(f"{field}.normalize", spec.normalize, Phrase.FLAG_OR_NONE)
    checked_mean(f"{field}.pooling", spec.pooling)
    check_name(f"{field}.dtype", spec.dtype, get_args(RowType))
    if isinstance(kind, str):
        check_name("spans", kind, ["sentences"])
    elif isinstance(kind, Windows):
        each = each_as("spans", kind, Phrase.WINDOWS, lambda one: whole_number(one, UINT32))
        kind = Windows(*each)
    else:
        kind = each_as("spans", kind, Phrase.SPAN_KINDS, lambda spans: tuple(map(span_of, spans)))
        if len(kind) != inputs:
            raise InvalidInput("spans", Reason.LISTS_FOR_TEXTS, count=len(kind), inputs=inputs)
    return SpansSpec(
        kind=kind,
        include_special=bool(spec.include_special),
        pooling=spec.pooling,
        dimensions=optional(f"{field}.dimensions", spec.dimensions, UINT32, Phrase.WIDTH),
        normalize=None if spec.normalize is None else bool(spec.normalize),
        dtype=spec.dtype,
        beyond_max_length=bool(spec.beyond_max_length),
    )


def checked_mean(field: str, pooling: str | None) -> Literal["mean"] | None:
    """Return the pooling of span vectors. Raises InvalidInput for any other name."""
    if pooling is not None:
        check_name(field, pooling, ["mean"])
    return None if pooling is None else "mean"


def checked_tokens(spec: TokensSpec) -> TokensSpec:
    """Return a spec of token vectors. Raises InvalidInput as `checked_pooled`."""
    field = "outputs.tokens"
    check_name(f"{field}.dtype", spec.dtype, get_args(RowType))
    for name in ("skip_special", "skip_prompt", "normalize"):
        _flag(f"{field}.{name}", getattr(spec, name))
    return spec


def checked_sparse(spec: SparseSpec) -> SparseSpec:
    """Return a spec of sparse vectors. Raises InvalidInput as `checked_pooled`."""
    field = "outputs.sparse"
    top_k = optional(f"{field}.top_k", spec.top_k, UINT32, Phrase.WHOLE_FROM_1)
    if not isinstance(spec.min_weight, int | float):
        raise InvalidInput(f"{field}.min_weight", Reason.MIN_WEIGHT)
    _flag(f"{field}.pieces", spec.pieces)
    return SparseSpec(top_k=top_k, min_weight=float(spec.min_weight), pieces=bool(spec.pieces))


def checked_multi_vector(spec: MultiVectorSpec) -> MultiVectorSpec:
    """Return a spec of vectors that are matched alone. Raises InvalidInput as `checked_pooled`."""
    check_name("outputs.multi_vector.dtype", spec.dtype, VECTOR_BITS)
    return spec


def checked_hidden(spec: HiddenSpec) -> HiddenSpec:
    """Return a spec of hidden states. Raises InvalidInput as `checked_pooled`."""
    field = "outputs.hidden"
    tokens = checked_choice(f"{field}.tokens", spec.tokens)
    check_name(f"{field}.dtype", spec.dtype, NUMBER_BYTES)
    return HiddenSpec(
        layers=_indices(f"{field}.layers", spec.layers), tokens=tokens, dtype=spec.dtype
    )


def checked_attention(spec: AttentionSpec) -> AttentionSpec:
    """Return a spec of attention.

    Raises:
        InvalidInput: it is no AttentionSpec; else as `checked_pooled`.
    """
    if not isinstance(spec, AttentionSpec):
        raise InvalidInput("spec", Reason.NO_SPEC, type=type(spec).__name__)
    field = "outputs.attention"
    queries = checked_choice(f"{field}.queries", spec.queries)
    keys = checked_choice(f"{field}.keys", spec.keys)
    check_name(f"{field}.unit", spec.unit, get_args(Unit))
    check_name(f"{field}.dtype", spec.dtype, NUMBER_BYTES)
    names = ", ".join(AXIS_OF)
    reduce = each_as(
        f"{field}.reduce", spec.reduce, Phrase.TUPLE_OF, lambda name: name, names=names
    )
    for name in reduce:
        check_name(f"{field}.reduce", name, AXIS_OF)
    for name in ("scores", "drop_special"):
        _flag(f"{field}.{name}", getattr(spec, name))
    return dataclasses.replace(
        spec,
        layers=_indices(f"{field}.layers", spec.layers),
        heads=_indices(f"{field}.heads", spec.heads),
        pairs=each_as(
            f"{field}.pairs",
            spec.pairs,
            Phrase.PAIRS,
            _pair,
        ),
        reduce=reduce,
        queries=queries,
        keys=keys,
        spans=each_as(f"{field}.spans", spec.spans, Phrase.SPANS, span_of),
        top_k=optional(f"{field}.top_k", spec.top_k, UINT32, Phrase.WHOLE_FROM_1),
        max_bytes=optional(f"{field}.max_bytes", spec.max_bytes, UINT64, Phrase.WHOLE_FROM_0),
    )


def check_pieces(spec: AttentionSpec) -> None:
    """Raise InvalidInput for attention whose rows cannot be returned one by one."""
    if spec.dtype == "uint8" or spec.top_k is not None:
        raise InvalidInput("attention", Reason.TWO_PARTS)


def checked_choice(field: str, choice: TokenChoice) -> TokenChoice:
    """Return a choice of tokens, numbers as a tuple. Raises InvalidInput for another value."""
    check_no_run(field, choice)
    if isinstance(choice, str):
        check_name(field, choice, get_args(NamedChoice))
        return choice
    if isinstance(choice, Span):
        return each_as(field, [choice], Phrase.SPAN, span_of)[0]
    names = ", ".join(get_args(NamedChoice))
    return each_as(
        field, choice, Phrase.TOKENS, lambda token: whole_number(token, INT32), names=names
    )


def _indices(field: str, indices: Indices) -> Indices:
    """Return layers or heads, single ones before runs, as a message holds them."""

    def index(given: int | Run) -> int | Run:
        if not isinstance(given, Run):
            return whole_number(given, INT32)
        end = None if given.end is None else whole_number(given.end, INT32)
        return Run(whole_number(given.begin, INT32), end)

    checked = each_as(field, indices, Phrase.INDICES, index)
    return tuple(sorted(checked, key=lambda one: type(one) is Run))


def each_as(
    field: str, values: Iterable[Any], kind: Phrase, make: Callable[[Any], T], **args: Argument
) -> tuple[T, ...]:
    """Convert each value. Raises InvalidInput if there is no list, or one cannot be converted."""
    try:
        return tuple([make(value) for value in values])
    except (TypeError, ValueError):
        raise InvalidInput(field, Reason.MUST_BE, kind=kind, **args) from None


def whole_number(value: Any, bounds: tuple[int, int]) -> int:
    """Return a whole number as Python's. Raises TypeError or ValueError."""
    number = operator.index(value)
    if not bounds[0] <= number <= bounds[1]:
        raise ValueError
    return number


def _pair(given: Any) -> tuple[int, int]:
    layer, head = given
    return whole_number(layer, INT32), whole_number(head, INT32)


def span_of(given: Any) -> Span:
    """Return a span of whole numbers; `each_as` maps other errors."""
    return Span(*(whole_number(number, UINT32) for number in Span(*given)))


def optional(field: str, value: int | None, bounds: tuple[int, int], kind: Phrase) -> int | None:
    """Return a whole number as Python's, or None. Raises InvalidInput for another value."""
    return (
        None
        if value is None
        else each_as(
            field, [value], kind, lambda one: whole_number(one, bounds), value=repr(value)
        )[0]
    )


def _flag(field: str, value: object, kind: Phrase = Phrase.FLAG) -> None:
    """Raise InvalidInput unless a value is true or false."""
    if not isinstance(value, int | np.bool_):
        raise InvalidInput(field, Reason.MUST_BE, kind=kind)
