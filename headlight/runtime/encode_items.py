"""Inputs and results of the engine: plain, picklable values without transport or queue.

Values made for every text are named tuples: a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headlight.runtime.attention.resolved_spec import Choice, States, states, whole
from headlight.runtime.attention.token_units import (
    Places,
    attention_bytes,
    place,
    place_rows,
    place_states,
)
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.spans.span_choice import SpanChoice
from headlight.runtime.spans.span_sums import SpanRows
from headlight.runtime.values import Array, Floats, Ids, Keys, Role, Tokenized
from headlight.runtime.vectors.vector_forms import ALL_ROWS, AS_THEY_ARE, VectorForm
from headlight.spec import NUMBER_BYTES, TokensSpec, VectorType


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The outputs requested for every input of a request.

    `vector` and `rows` give the form of pooled vectors and token vectors.

    Attributes:
        spans: the requested vectors of spans; the engine sums the tokens of each, see
            `headlight.runtime.spans.span_items`.
        role: the graph that can serve it: `embed` is cheaper and returns vectors only.
        vectors_alone: whether only pooled vectors are requested: every input's output then has the
            same size.
        computes: whether a graph has to run; it need not if only the tokens are requested.
        needs_tokens: whether inputs must be tokenised with all token details.
    """

    pooled: bool = True
    tokens: bool = False
    attention: Choice | None = None
    hidden: States | None = None
    vector: VectorForm = AS_THEY_ARE
    rows: TokensSpec = ALL_ROWS
    spans: SpanChoice | None = None
    role: Role = dataclasses.field(init=False, repr=False, compare=False)
    vectors_alone: bool = dataclasses.field(init=False, repr=False, compare=False)
    computes: bool = dataclasses.field(init=False, repr=False, compare=False)
    needs_tokens: bool = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = [part for part in (self.attention, self.hidden) if part is not None]
        skips = self.tokens and (self.rows.skip_special or self.rows.skip_prompt)
        spans = self.spans is not None
        object.__setattr__(self, "role", "attend" if parts else "embed")
        object.__setattr__(self, "vectors_alone", not (self.tokens or parts or spans))
        object.__setattr__(self, "computes", bool(self.pooled or self.tokens or parts or spans))
        object.__setattr__(
            self, "needs_tokens", skips or spans or True in [part.needs_tokens for part in parts]
        )

    @property
    def any_length(self) -> bool:
        """Whether a text may be longer than the model takes."""
        return self.spans is not None and self.spans.spec.beyond_max_length


def everything(architecture: Architecture) -> Selection:
    """Return the selection of all outputs of an encoder, unreduced."""
    layers = architecture.layers
    return Selection(
        True, True, whole(range(layers), architecture.heads), states(range(layers + 1))
    )


class EncodeItem(NamedTuple):
    """One input of the engine, already checked by its builder.

    Attributes:
        ids: int64 [n], n >= 1, each in 0 .. vocab_size-1.
        selection: the requested outputs.
        segments: int64 [n], each in 0 .. segments-1; None: zeros; a model without segments ignores
            it.
        head_mask: float32 [L, H], a factor for each head's contribution; None: ones.
        places: tokens of this input in `selection.attention`; None: every token.
        states: int64 [m], the tokens of `selection.hidden`; None: every token.
        occluded: hidden tokens: no query sees them, and pooling leaves them out.
        rows: int64 [m], the tokens of `selection.tokens`; None: every token.
        left_out: number of tokens at the start that queries see and pooling leaves out, if the
            model does not pool prompts.
        spans: the tokens to sum for `selection.spans`; None: none.
    """

    ids: Ids
    selection: Selection
    segments: Ids | None = None
    head_mask: Floats | None = None
    places: Places | None = None
    states: Ids | None = None
    occluded: tuple[int, ...] = ()
    rows: Ids | None = None
    left_out: int = 0
    spans: SpanRows | None = None

    @property
    def role(self) -> Role:
        """The graph that can serve it; only `attend` takes a head mask."""
        return self.selection.role if self.head_mask is None else "attend"

    @property
    def where(self) -> Places:
        """Its places, with the default filled in."""
        return Places(len(self.ids), left_out=self.left_out) if self.places is None else self.places

    @property
    def row_count(self) -> int:
        """Number of tokens whose vectors are returned."""
        return len(self.ids) if self.rows is None else len(self.rows)

    def output_bytes(self, architecture: Architecture) -> dict[str, int]:
        """Return the bytes of each output, 0 if it is not requested; known before anything runs."""
        selection, hidden = self.selection, self.selection.hidden
        row = architecture.dim * NUMBER_BYTES[selection.rows.dtype]
        state = (
            0
            if hidden is None
            else architecture.dim * NUMBER_BYTES[hidden.spec.dtype] * len(hidden.layers)
        )
        return {
            "pooled": selection.vector.bytes(architecture.pooled_dim) if selection.pooled else 0,
            "tokens": self.row_count * row if selection.tokens else 0,
            "attention": 0
            if selection.attention is None
            else attention_bytes(selection.attention, self.where),
            "hidden": state * len(self.ids if self.states is None else self.states),
            "spans": 0
            if self.spans is None or selection.spans is None
            else self.spans.vectors * selection.spans.bytes(architecture.pooled_dim),
        }


def output_bytes(items: Sequence[EncodeItem], architecture: Architecture) -> dict[str, int]:
    """Return the bytes of data of all items of one selection, by output."""
    first = items[0].output_bytes(architecture)
    if len(items) == 1:
        return first
    if items[0].selection.vectors_alone:  # all are of one size
        return {name: len(items) * size for name, size in first.items()}
    sizes = [first, *(item.output_bytes(architecture) for item in items[1:])]
    return {name: sum(size[name] for size in sizes) for name in first}


def item_of(
    tokenized: Tokenized, selection: Selection, pooling: str, head_mask: Floats | None = None
) -> EncodeItem:
    """Return the item of one tokenised input.

    Raises:
        InvalidInput: this input lacks the tokens that the selection names, or cannot identify them;
            `field` is that of the selection.
    """
    if selection.vectors_alone:  # the usual case
        return EncodeItem(
            tokenized.ids, selection, tokenized.segments, head_mask, left_out=tokenized.left_out
        )
    attention, hidden = selection.attention, selection.hidden
    return EncodeItem(
        tokenized.ids,
        selection,
        tokenized.segments,
        head_mask,
        None if attention is None else place(attention, tokenized),
        None if hidden is None else place_states(hidden, tokenized, pooling),
        rows=place_rows(selection.rows, tokenized) if selection.tokens else None,
        left_out=tokenized.left_out,
    )


class ItemResult(NamedTuple):
    """The outputs of one input of n tokens, without padding; C-contiguous, None if not requested.

    Attributes:
        pooled: float32 [width]; `headlight.runtime.vectors.vector_forms.as_types` makes other
            types.
        tokens: [requested tokens, D] in the requested dtype.
        attention: in the shape and dtype of its choice; whole maps: float32 [layers, H, n, n], rows
            are queries.
        hidden: [requested layers, requested tokens, D] in the requested dtype.
        indices: uint16, in the shape of `attention`: the keys of its entries, if only the largest
            were requested.
        scales: float32, a factor for each row of uint8 attention: entries times factor are weights.
        spans: [spans, width] in the requested dtype; of the engine: float64 [spans, D], the sums of
            the tokens of `EncodeItem.spans`.
        by_type: the pooled vector in each type requested of `Runtime.encode`; else None.
    """

    pooled: Floats | None = None
    tokens: Array | None = None
    attention: Array | None = None
    hidden: Array | None = None
    indices: Keys | None = None
    scales: Floats | None = None
    by_type: Mapping[VectorType, Array] | None = None
    spans: Array | None = None
