"""Specs of pooled vectors, tokens, attention and hidden states, for client, runtime and service.

The parts of an AttentionSpec act in this order: special tokens are dropped; heads are reduced;
layers are reduced; queries are selected, grouped or reduced; keys are selected and grouped; the
strongest keys are kept; numbers become `dtype`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeVar

from headlight.errors import InvalidInput, Phrase, Reason

# That scores a query and a passage.
ScoreOutput = Literal["pooled", "scores", "sparse", "multi_vector"]

# Reductions of an attention map: at most one for each axis; "statistics" only by itself.
Reduction = Literal[
    "head_mean",  # mean over the selected heads
    "head_max",  # largest of the selected heads, by entry
    "layer_mean",  # mean over the selected layers
    "rollout",  # Abnar & Zuidema 2020: heads' means, half residual, multiplied over all layers
    "pooled_row",  # the row of the token whose vector is the pooled vector
    "pooling_weights",  # rows combined by the weights with which the model pools tokens
    "statistics",  # seven numbers of each head instead of its map
]
AXIS_OF: dict[str, str] = {
    "head_mean": "heads",
    "head_max": "heads",
    "layer_mean": "layers",
    "rollout": "layers",
    "pooled_row": "queries",
    "pooling_weights": "queries",
    "statistics": "statistics",
}
# Means over the queries: entropy of the row in nats; weight on special tokens (NaN for inputs of
# ids); weight on the token before, after and itself (of the queries that have one); weighted
# distance |query - key| in tokens; largest weight.
STATISTICS = ("entropy", "special", "previous", "next", "self", "distance", "largest")
T = TypeVar("T")
# Modes that the runtime knows. `headlight_model.layers.pooling.POOLING` computes them.
POOLING_MODES = ("mean", "cls", "max", "last", "weighted_mean", "mean_sqrt_len")
# From logits to scores: "sigmoid" of each alone, "softmax" over the labels.
ACTIVATIONS = ("identity", "sigmoid", "softmax")
# Priority of a request: interactive goes first; see `Priority` in the contract.
Priority = Literal["interactive", "bulk"]
PRIORITIES: tuple[Priority, ...] = ("interactive", "bulk")
# What an input is to a search: it chooses prompts, and how a model of many vectors reads it.
InputRole = Literal["query", "document"]
INPUT_ROLES: tuple[InputRole, ...] = ("query", "document")
# The names that the prompt of each may have.
ROLE_PROMPTS: dict[InputRole | None, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
Unit = Literal["token", "word", "span"]
Number = Literal["float32", "float16", "uint8"]
NUMBER_BYTES: dict[str, int] = {"float32": 4, "float16": 2, "uint8": 1}
# Of pooled vectors. int8: 255 steps between the extremes of each dimension; binary, ubinary: the
# sign of each dimension, 8 to a byte.
VectorType = Literal["float32", "float16", "int8", "binary", "ubinary"]
VECTOR_BITS: dict[VectorType, int] = {
    "float32": 32,
    "float16": 16,
    "int8": 8,
    "binary": 1,
    "ubinary": 1,
}
RowType = Literal["float32", "float16"]
# Special tokens spelled out in a text, as "[SEP]": parsed, as Hugging Face does, or read as plain
# characters.
SpecialTokens = Literal["parse", "text"]
SPECIAL_TOKENS: tuple[SpecialTokens, ...] = ("parse", "text")
# A text of more tokens than the model takes is refused, or this side of it is cut off.
# "only_second" cuts the end of a pair's second text alone; of a single text it cuts the end.
Truncate = Literal["refuse", "end", "start", "only_second"]
TRUNCATE: tuple[Truncate, ...] = ("refuse", "end", "start", "only_second")
# An empty text is refused, or its prompt and special tokens are encoded.
EmptyTexts = Literal["refuse", "encode"]
EMPTY_TEXTS: tuple[EmptyTexts, ...] = ("refuse", "encode")


class Run(NamedTuple):
    """Range of layers or heads, begin .. end-1, negative from the end; `end` None: to the last."""

    begin: int
    end: int | None = None


class Span(NamedTuple):
    """Characters start .. end-1 in code points, of a text, or a pair's first (0) or second (1)."""

    start: int
    end: int
    text: int = 0


Indices = tuple[int | Run, ...]  # empty: all
IndicesLike = SupportsIndex | slice | Run | Iterable[SupportsIndex | slice | Run] | None
# Tokens of an input: "pooled" is the one whose vector is the pooled vector; integers count from 0,
# or negative from the end.
NamedChoice = Literal["all", "pooled", "first", "special"]
TokenChoice = NamedChoice | tuple[int, ...] | Span
TokensLike = TokenChoice | Sequence[int] | int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PooledSpec:
    """Form of pooled vectors: cut, then normalised, then in each type.

    Attributes:
        dimensions: entries kept, from the first; None: all.
        normalize: whether the entries kept get unit length; None: as the model does.
        dtypes: types of the result, each once; empty: float32. int8 needs ranges in the bundle;
            binary and ubinary need dimensions that 8 divides.
    """

    dimensions: int | None = None
    normalize: bool | None = None
    dtypes: tuple[VectorType, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokensSpec:
    """Form of token vectors.

    Attributes:
        skip_special: leave out special tokens, as late interaction does.
        skip_prompt: leave out the tokens of the prompt.
        normalize: scale each vector to unit length.
        dtype: type of the numbers.
    """

    skip_special: bool = False
    skip_prompt: bool = False
    normalize: bool = False
    dtype: RowType = "float32"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparseSpec:
    """Form of sparse vectors.

    Attributes:
        top_k: terms of a vector, the largest weights; None: 1024.
        min_weight: leave out terms of less weight.
        pieces: whether results have the vocabulary's spelling of each term.
    """

    top_k: int | None = None
    min_weight: float = 0.0
    pieces: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MultiVectorSpec:
    """Form of the vectors of tokens that are matched one by one.

    Attributes:
        dtype: int8: 127 times the numbers, rounded; binary, ubinary: 8 signs a byte.
    """

    dtype: VectorType = "float32"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """Selection and form of attention.

    Attributes:
        layers: indices from 0, or negative from the end, singly or as runs; empty: all.
        heads: as `layers`.
        pairs: (layer, head) pairs, instead of `layers` and `heads`; they are the first axis of the
            result.
        reduce: at most one reduction for each axis; see Reduction.
        queries: the tokens that stay as rows.
        keys: the tokens that stay as columns.
        unit: "word" or "span" groups the selected tokens: columns are summed, rows averaged (Clark
            et al. 2019).
        spans: the groups of unit "span".
        top_k: keep this many of each row's largest entries, with their positions. Of equal entries
            any are kept; of zero weights the first.
        dtype: type of the numbers. uint8 comes with a scale for each row.
        scores: return scores before the softmax; -inf if a query does not see a key.
        drop_special: remove the rows and columns of special tokens, and make rows sum to 1 again.
        max_bytes: the service refuses an answer whose attention is larger; `headlight.runtime` does
            not count it.
    """

    layers: Indices = ()
    heads: Indices = ()
    pairs: tuple[tuple[int, int], ...] = ()
    reduce: tuple[Reduction, ...] = ()
    queries: TokenChoice = "all"
    keys: TokenChoice = "all"
    unit: Unit = "token"
    spans: tuple[Span, ...] = ()
    top_k: int | None = None
    dtype: Number = "float32"
    scores: bool = False
    drop_special: bool = False
    max_bytes: int | None = None

    @classmethod
    def of(
        cls,
        layers: IndicesLike = None,
        heads: IndicesLike = None,
        reduce: Reduction | Iterable[Reduction] = (),
        *,
        pairs: Iterable[tuple[int, int]] = (),
        queries: TokensLike = "all",
        keys: TokensLike = "all",
        unit: Unit = "token",
        spans: Iterable[tuple[int, int] | tuple[int, int, int]] = (),
        top_k: int | None = None,
        dtype: Number = "float32",
        scores: bool = False,
        drop_special: bool = False,
        max_bytes: int | None = None,
    ) -> AttentionSpec:
        """Make a spec from simple values: a number or Run for a list of one, lists, slices, ranges.

        >>> AttentionSpec.of(layers=-1, heads=slice(0, 3), reduce="head_mean").heads
        (Run(begin=0, end=3),)

        Raises:
            InvalidInput: layers or heads are empty or not whole numbers, a slice has a step, tokens
                are a Run, or a value that must be a list is not one.
        """
        return cls(
            layers=indices_of("layers", layers),
            heads=indices_of("heads", heads),
            reduce=(reduce,)
            if isinstance(reduce, str)
            else _each("reduce", reduce, lambda name: name, Phrase.NAMES),
            pairs=_each("pairs", pairs, tuple, Phrase.LAYERS_AND_HEADS),
            queries=tokens_like("queries", queries),
            keys=tokens_like("keys", keys),
            unit=unit,
            spans=_each("spans", spans, lambda span: Span(*span), Phrase.STARTS_AND_ENDS),
            top_k=top_k,
            dtype=dtype,
            scores=scores,
            drop_special=drop_special,
            max_bytes=max_bytes,
        )

    def reduction(self, axis: str) -> str | None:
        """Return the reduction of "heads", "layers", "queries", or to "statistics"."""
        return next((name for name in self.reduce if AXIS_OF[name] == axis), None)

    @property
    def reduced(self) -> dict[str, str]:
        """The reduction of each axis that has one, by the axis names of `AXIS_OF`.

        A rollout needs one map for each layer: the mean of its heads, unless `reduce` names
        another.
        """
        implied = {"heads": "head_mean"} if "rollout" in self.reduce else {}
        return implied | {AXIS_OF[name]: name for name in self.reduce}

    @property
    def axes(self) -> tuple[str, ...]:
        """The remaining axes of a result, outermost first.

        "pair" or "layer" and "head"; then "query" and "key" (or "top"), or "statistic".
        """
        names = {"pair": "pairs"} if self.pairs else {"layer": "layers", "head": "heads"}
        if "statistics" in self.reduce:
            names["statistic"] = "numbers"
        else:
            names |= {"query": "queries", "top" if self.top_k else "key": "keys"}
        reduced = self.reduced
        return tuple([name for name, axis in names.items() if axis not in reduced])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HiddenSpec:
    """Selection and form of hidden states.

    Attributes:
        layers: 0 is the embedding output, l the output of block l; negative from the end; empty:
            all.
        tokens: tokens of the input.
        dtype: type of the numbers; not uint8.
    """

    layers: Indices = ()
    tokens: TokenChoice = "all"
    dtype: Number = "float32"


def indices_of(field: str, indices: IndicesLike) -> Indices:
    """Return layers or heads as in a spec; None: all.

    Raises:
        InvalidInput: the list is empty, which the contract cannot express, an entry is not a whole
            number, or a slice has a step.
    """
    if indices is None:
        return ()
    # A Run is a tuple, of its two ends.
    listed = (
        [indices]
        if isinstance(indices, Run) or not isinstance(indices, Iterable)
        else list(indices)
    )
    if not listed:
        raise InvalidInput(field, Reason.NAMES_NONE)
    result: list[int | Run] = []
    for index in listed:
        if isinstance(index, Run):
            result.append(
                Run(
                    _whole(field, index.begin),
                    None if index.end is None else _whole(field, index.end),
                )
            )
        elif not isinstance(index, slice):
            result.append(_whole(field, index))
        elif index.step in (None, 1):
            result.append(Run(index.start or 0, index.stop))
        else:
            raise InvalidInput(field, Reason.STEP, step=index.step)
    return tuple(result)


def tokens_like(field: str, tokens: TokensLike) -> TokenChoice:
    """Return tokens as in a spec.

    Raises InvalidInput for a Run (of layers or heads) and for a value that is not a whole number.
    """
    check_no_run(field, tokens)
    if isinstance(tokens, str | Span):
        return tokens
    return tuple(tokens) if isinstance(tokens, Iterable) else (_whole(field, tokens),)


def check_no_run(field: str, tokens: object) -> None:
    """Raise InvalidInput for tokens named by a Run: its two ends would count as two tokens."""
    if isinstance(tokens, Run):
        ends = f"{tokens.begin}, {tokens.end}" if tokens.end is not None else f"{tokens.begin}, ..."
        raise InvalidInput(field, Reason.A_RUN, ends=ends)


def packed(width: int, dtype: VectorType) -> tuple[int, int]:
    """Return the extent of a vector in a type, and its bytes."""
    bits = VECTOR_BITS[dtype]
    return (width // 8 if bits == 1 else width), width * bits // 8


def check_dimensions(dimensions: int, width: int, field: str = "outputs.pooled.dimensions") -> None:
    """Raise InvalidInput unless vectors of this width have so many dimensions."""
    if not 1 <= dimensions <= width:
        raise InvalidInput(field, Reason.DIMENSIONS, value=dimensions, width=width)


def check_name(field: str, name: str, names: Iterable[str]) -> None:
    """Raise InvalidInput unless a name is one of some names."""
    names = tuple(names)
    if name not in names:
        raise InvalidInput(field, Reason.NOT_ONE_OF, value=f"{name!r:.40}", names=", ".join(names))


def _each(
    field: str, values: Iterable[Any], make: Callable[[Any], T], kind: Phrase
) -> tuple[T, ...]:
    """Convert each value. Raises InvalidInput if there is no list, or one cannot be converted."""
    try:
        return tuple([make(value) for value in values])
    except TypeError:
        raise InvalidInput(field, Reason.IS_AND_MUST_BE, value=repr(values), kind=kind) from None


def _whole(field: str, number: SupportsIndex) -> int:
    """Return an integer of Python or NumPy as Python's. Raises InvalidInput for anything else.

    It does not round.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise InvalidInput(field, Reason.NOT_WHOLE, value=f"{number!r}") from None
