"""What goes into the engine and what comes out: plain, picklable values that know neither a transport nor a queue.

What there is of every text is a tuple: a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headlight.runtime.attention.resolved_spec import Choice, States, states, whole
from headlight.runtime.attention.token_units import Places, attention_bytes, place, place_rows, place_states
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.values import Array, Floats, Ids, Keys, Role, Tokenized
from headlight.runtime.vectors.vector_forms import ALL_ROWS, AS_THEY_ARE, Vector
from headlight.spec import NUMBER_BYTES, TokensSpec, VectorType


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The outputs wanted of every input of a request; `vector` and `rows` say in which form pooled and tokens are.

    Attributes:
        role: the graph that can serve it: `embed` is cheaper and has no more than vectors.
        vectors_alone: nothing is wanted beside pooled vectors: of every input as much, however long.
        computes: a graph has to run; it need not to tell of the tokens alone.
        needs_tokens: inputs must be tokenised with all that is known of their tokens.
    """

    pooled: bool = True
    tokens: bool = False
    attention: Choice | None = None
    hidden: States | None = None
    vector: Vector = AS_THEY_ARE
    rows: TokensSpec = ALL_ROWS
    role: Role = dataclasses.field(init=False, repr=False, compare=False)
    vectors_alone: bool = dataclasses.field(init=False, repr=False, compare=False)
    computes: bool = dataclasses.field(init=False, repr=False, compare=False)
    needs_tokens: bool = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = [part for part in (self.attention, self.hidden) if part is not None]
        skips = self.tokens and (self.rows.skip_special or self.rows.skip_prompt)
        object.__setattr__(self, "role", "attend" if parts else "embed")
        object.__setattr__(self, "vectors_alone", not self.tokens and not parts)
        object.__setattr__(self, "computes", bool(self.pooled or self.tokens or parts))
        object.__setattr__(self, "needs_tokens", skips or True in [part.needs_tokens for part in parts])


def everything(architecture: Architecture) -> Selection:
    """All outputs of an encoder, whole."""
    layers = architecture.layers
    return Selection(True, True, whole(range(layers), architecture.heads), states(range(layers + 1)))


class EncodeItem(NamedTuple):
    """One input as the engine takes it, checked by whoever builds it.

    Attributes:
        ids: int64 [n], n >= 1, each in 0 .. vocab_size-1.
        selection: the outputs wanted.
        segments: int64 [n], each in 0 .. segments-1; None: zeros; not looked at by a model without segments.
        head_mask: float32 [L, H], by which what each head contributes is multiplied; None: ones.
        places: of this input in `selection.attention`; None: every token.
        states: int64 [m], the tokens of `selection.hidden`; None: every token.
        occluded: a token that is hidden: no query sees it, and pooling leaves it out; None: none.
        rows: int64 [m], the tokens of `selection.tokens`; None: every token.
        left_out: tokens at the start that pooling leaves out and queries see, of models that do not pool their prompts.
    """

    ids: Ids
    selection: Selection
    segments: Ids | None = None
    head_mask: Floats | None = None
    places: Places | None = None
    states: Ids | None = None
    occluded: int | None = None
    rows: Ids | None = None
    left_out: int = 0

    @property
    def role(self) -> Role:
        """The graph that can serve it: a head mask is an input of `attend` alone."""
        return self.selection.role if self.head_mask is None else "attend"

    @property
    def where(self) -> Places:
        """Its places, whether they were given or not."""
        return Places(len(self.ids), left_out=self.left_out) if self.places is None else self.places

    @property
    def row_count(self) -> int:
        """How many tokens there are vectors of."""
        return len(self.ids) if self.rows is None else len(self.rows)

    def output_bytes(self, architecture: Architecture) -> dict[str, int]:
        """Bytes of each output, 0 where it is not wanted: known before anything runs."""
        selection, hidden = self.selection, self.selection.hidden
        row = architecture.dim * NUMBER_BYTES[selection.rows.dtype]
        state = 0 if hidden is None else architecture.dim * NUMBER_BYTES[hidden.spec.dtype] * len(hidden.layers)
        return {
            "pooled": selection.vector.bytes(architecture.pooled_dim) if selection.pooled else 0,
            "tokens": self.row_count * row if selection.tokens else 0,
            "attention": 0 if selection.attention is None else attention_bytes(selection.attention, self.where),
            "hidden": state * len(self.ids if self.states is None else self.states),
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


def item_of(tokenized: Tokenized, selection: Selection, pooling: str, head_mask: Floats | None = None) -> EncodeItem:
    """The item of one tokenised input.

    Raises:
        InvalidInput: the selection names tokens that this input has not, or cannot tell; `field` is the selection's.
    """
    if selection.vectors_alone:  # mostly
        return EncodeItem(tokenized.ids, selection, tokenized.segments, head_mask, left_out=tokenized.left_out)
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
    """The outputs of one input of n tokens, padding removed; each C-contiguous, None where it was not wanted.

    Attributes:
        pooled: float32 [width]; other types are made of it (`headlight.runtime.vectors.vector_forms.as_types`).
        tokens: [tokens wanted, D] in the dtype wanted.
        attention: in the shape and dtype of its choice; whole maps: float32 [layers, H, n, n], rows are queries.
        hidden: [layers wanted, tokens wanted, D] in the dtype wanted.
        indices: uint16, of the shape of `attention`: the keys of its entries, where the largest alone were wanted.
        scales: float32, a number for each row of uint8 attention: entries times it are weights.
        by_type: the pooled vector in each type asked of `Runtime.encode`; None otherwise.
    """

    pooled: Floats | None = None
    tokens: Array | None = None
    attention: Array | None = None
    hidden: Array | None = None
    indices: Keys | None = None
    scales: Floats | None = None
    by_type: Mapping[VectorType, Array] | None = None
