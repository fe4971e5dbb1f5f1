"""Specs of attention and hidden states, resolved against a model: absolute indices, all checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, get_args

from headlight.errors import InvalidInput, Reason
from headlight.refusals import Argument
from headlight.spec import (
    AXIS_OF,
    NUMBER_BYTES,
    AttentionSpec,
    Indices,
    NamedChoice,
    Run,
    Span,
    TokenChoice,
    Unit,
    check_name,
)

if TYPE_CHECKING:
    from headlight.description import ModelDescription
    from headlight.runtime.values import Architecture

ATTENTION = "outputs.attention"


@dataclasses.dataclass(frozen=True)
class Choice:
    """A resolved choice of attention maps.

    Attributes:
        spec: the spec as requested.
        layers: absolute layers in the requested order; for pairs, the layer of each pair.
        heads: the requested heads of each of `layers`.
        pooling: pooling of the model.
        by_graph: whether the graph chooses the largest entries of rows, also where NumPy is faster.
            It is then compared with PyTorch.
        reduced, axes: as in the spec.
        needs_tokens: whether it requires the input's special tokens, words, or characters of the
            text.
    """

    spec: AttentionSpec
    layers: tuple[int, ...]
    heads: tuple[tuple[int, ...], ...]
    pooling: str = "mean"
    by_graph: bool = False

    @functools.cached_property
    def reduced(self) -> Mapping[str, str]:
        return self.spec.reduced

    @functools.cached_property
    def axes(self) -> tuple[str, ...]:
        return self.spec.axes

    @property
    def common_heads(self) -> tuple[int, ...]:
        """The heads of each layer, which are the same; for pairs, the head of each."""
        return tuple(heads[0] for heads in self.heads) if self.spec.pairs else self.heads[0]

    @functools.cached_property
    def needs_tokens(self) -> bool:
        spec = self.spec
        grouped = spec.unit != "token" or spec.drop_special or "statistics" in spec.reduce
        return grouped or needs_details(spec.queries) or needs_details(spec.keys)


def needs_details(choice: TokenChoice) -> bool:
    """Return whether a choice of tokens needs special tokens, or characters of the text."""
    return choice == "special" or isinstance(choice, Span)


def whole(layers: Iterable[int], heads: int) -> Choice:
    """Return the choice of whole maps of these absolute layers."""
    layers = tuple(layers)
    return Choice(AttentionSpec(layers=layers), layers, (tuple(range(heads)),) * len(layers))


def resolve_attention(
    spec: AttentionSpec, architecture: Architecture | ModelDescription, pooling: str
) -> Choice:
    """Resolve and check a spec, as far as possible without an input.

    Raises:
        InvalidInput: naming the field and the remedy.
    """
    _check_reductions(spec)
    _check_form(spec)
    for name, choice in (("queries", spec.queries), ("keys", spec.keys)):
        check_tokens(f"{ATTENTION}.{name}", choice, pooling)
    if "pooled_row" in spec.reduce:
        check_tokens(f"{ATTENTION}.reduce", "pooled", pooling)
    _refuse(
        (
            "pooling_weights" in spec.reduce and pooling == "max",
            "reduce",
            Reason.NO_WEIGHTS,
        )
    )
    if spec.pairs:
        return Choice(spec, *_pairs(spec, architecture), pooling)
    layers = resolve_indices(f"{ATTENTION}.layers", spec.layers, architecture.layers)
    of_each = resolve_indices(f"{ATTENTION}.heads", spec.heads, architecture.heads)
    if "rollout" in spec.reduce and layers != tuple(range(architecture.layers)):
        raise InvalidInput(f"{ATTENTION}.layers", Reason.ROLLOUT_LAYERS)
    return Choice(spec, layers, (of_each,) * len(layers), pooling)


def resolve_indices(field: str, indices: Indices, count: int) -> tuple[int, ...]:
    """Return absolute numbers in the requested order; all if none is named.

    Args:
        field: name of the field, for errors.
        indices: each in -count .. count-1, negative from the end; or runs of them.
        count: number of layers or heads.

    Raises:
        InvalidInput: one is out of range, a run is empty, or one is named twice.
    """
    if not indices:
        return tuple(range(count))
    absolute: list[int] = []
    singles = sum(not isinstance(index, Run) for index in indices)
    for place, index in enumerate(indices):
        if isinstance(index, Run):  # a message has runs in a field of their own, after the singles
            absolute += _run(f"{field.removesuffix('s')}_runs[{place - singles}]", index, count)
        else:
            absolute.append(_absolute(f"{field}[{place}]", index, count))
    if len(set(absolute)) != len(absolute):
        raise InvalidInput(field, Reason.TWICE_OF, count=count)
    return tuple(absolute)


def _absolute(field: str, index: int, count: int) -> int:
    if not -count <= index < count:
        raise InvalidInput(field, Reason.OUT_OF_RANGE, value=index, least=-count, last=count - 1)
    return index % count


def _run(field: str, run: Run, count: int) -> range:
    begin = run.begin + count if run.begin < 0 else run.begin
    end = count if run.end is None else run.end + count if run.end < 0 else run.end
    if not 0 <= begin < end <= count:
        last = "" if run.end is None else run.end
        raise InvalidInput(field, Reason.EMPTY_RUN, begin=run.begin, end=last, last=count - 1)
    return range(begin, end)


def _pairs(
    spec: AttentionSpec, architecture: Architecture | ModelDescription
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    field = f"{ATTENTION}.pairs"
    _refuse((bool(spec.layers or spec.heads), "pairs", Reason.PAIRS_ALONE))
    pairs = [
        (
            _absolute(f"{field}[{place}].layer", layer, architecture.layers),
            _absolute(f"{field}[{place}].head", head, architecture.heads),
        )
        for place, (layer, head) in enumerate(spec.pairs)
    ]
    if len(set(pairs)) != len(pairs):
        raise InvalidInput(field, Reason.TWICE_FROM_THE_END)
    return tuple(layer for layer, _ in pairs), tuple((head,) for _, head in pairs)


def is_one_token(pooling: str) -> bool:
    """Return whether a text's vector is that of a single token.

    `headlight.outputs.maps.token_units.pooled_token` returns the token.
    """
    return pooling in ("cls", "last")


def check_tokens(field: str, choice: TokenChoice, pooling: str) -> None:
    """Check that some input could have such tokens.

    Raises:
        InvalidInput: no input could.
    """
    if isinstance(choice, str):
        check_name(field, choice, get_args(NamedChoice))
    if choice == "pooled" and not is_one_token(pooling):
        weights = field in (f"{ATTENTION}.queries", f"{ATTENTION}.reduce") and pooling != "max"
        reason = Reason.POOLING_WEIGHTS if weights else Reason.NOT_ONE_TOKEN
        raise InvalidInput(field, reason, pooling=pooling)
    if choice == ():
        raise InvalidInput(field, Reason.NO_TOKEN_NAMED)


def _check_reductions(spec: AttentionSpec) -> None:
    for name in spec.reduce:
        check_name(f"{ATTENTION}.reduce", name, AXIS_OF)
    axes = [AXIS_OF[name] for name in spec.reduce]
    _refuse(
        (
            len(set(axes)) != len(axes),
            "reduce",
            Reason.TWO_REDUCTIONS,
        ),
        (
            "statistics" in axes and len(axes) > 1,
            "reduce",
            Reason.STATISTICS_ALONE,
        ),
        (
            spec.scores and bool(spec.reduce),
            "reduce",
            Reason.SCORES_REDUCED,
        ),
        (
            bool(spec.pairs) and ("heads" in axes or "layers" in axes),
            "reduce",
            Reason.PAIRS_REDUCED,
        ),
        (
            "queries" in axes and spec.queries != "all",
            "queries",
            Reason.ROWS_OF_ALL,
        ),
        names=", ".join(spec.reduce),
    )


def _check_form(spec: AttentionSpec) -> None:
    check_name(f"{ATTENTION}.unit", spec.unit, get_args(Unit))
    check_name(f"{ATTENTION}.dtype", spec.dtype, NUMBER_BYTES)
    statistics, tokens, top_k = "statistics" in spec.reduce, spec.unit == "token", spec.top_k
    whole = top_k is None and spec.keys == "all" and tokens
    _refuse(
        (
            top_k is not None and top_k < 1,
            "top_k",
            Reason.NO_TOP_K,
        ),
        (
            statistics and not whole,
            "reduce",
            Reason.STATISTICS_OF_ROWS,
        ),
        (statistics and spec.dtype != "float32", "dtype", Reason.STATISTICS_TYPE),
        (
            spec.scores and spec.dtype == "uint8",
            "dtype",
            Reason.SCORES_RANGE,
        ),
        (
            spec.scores and spec.drop_special,
            "drop_special",
            Reason.SCORES_SUM,
        ),
        (spec.scores and not tokens, "unit", Reason.SCORES_UNITS),
        (
            (spec.unit == "span") != bool(spec.spans),
            "spans",
            Reason.UNIT_SPAN,
        ),
        value=top_k or 0,
    )


def _refuse(*rules: tuple[bool, str, Reason], **args: Argument) -> None:
    """Raise InvalidInput for the first broken rule.

    A rule has a condition that is true if broken, a field of attention, and the reason.
    """
    for broken, field, reason in rules:
        if broken:
            raise InvalidInput(f"{ATTENTION}.{field}", reason, **args)
