"""Inputs and results of the engine: plain, picklable values without transport or queue.

Values made for every text are named tuples and dictionaries: a frozen dataclass takes four times
as long to make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from headlight.outputs.output import Output
from headlight.outputs.registry import OUTPUTS
from headlight.runtime.values import Architecture, Array, Floats, GraphRole, Ids, Tokenized

NOWHERE: Mapping[str, Any] = {}


class Selection(dict[str, Any]):
    """The outputs requested for every input of a request: resolved choices by name.

    In the order of `OUTPUTS`; not to be changed.

    Attributes:
        role: the graph that can serve them all: `embed` is cheaper.
        one_size: whether each input's answer has the same size.
        needs_tokens: whether inputs must be tokenised with all token details.
        any_length: whether a text may be longer than the model takes.
    """

    def __init__(self, pooled: Any = True, **choices: Any) -> None:
        """Select pooled vectors, and others; True: as a request that only names the output."""
        for name, output in OUTPUTS.items():
            choice = choices.get(name) if name != "pooled" else pooled
            if choice not in (None, False):
                self[name] = output.plain if choice is True else choice
        chosen = [*self.outputs()]
        roles = [output.role for output, _ in chosen]
        self.role: GraphRole = "attend" if "attend" in roles else "embed"
        self.one_size = all(output.one_size(choice) for output, choice in chosen)
        self.needs_tokens = any(output.needs_tokens(choice) for output, choice in chosen)
        self.any_length = any(output.any_length(choice) for output, choice in chosen)

    def outputs(self) -> Iterator[tuple[Output, Any]]:
        """Yield the requested outputs and their choices."""
        for name, choice in self.items():
            yield OUTPUTS[name], choice


def everything(architecture: Architecture, role: GraphRole = "attend") -> Selection:
    """Return the selection of all outputs of a graph, unreduced."""
    outputs = [
        output
        for output in OUTPUTS.values()
        if output.role in ("embed", role) and output.given_by(architecture)
    ]
    return Selection(**{output.name: output.whole(architecture) for output in outputs})


class EncodeItem(NamedTuple):
    """One input of the engine, already checked by its builder.

    Attributes:
        ids: int64 [n], n >= 1, each in 0 .. vocab_size-1.
        selection: the requested outputs.
        segments: int64 [n], each in 0 .. segments-1; None: zeros; a model without segments ignores
            it.
        head_mask: float32 [L, H], a factor for each head's contribution; None: ones.
        places: by output, which tokens of this input it has, if not all.
        occluded: hidden tokens: no query sees them, and pooling leaves them out.
        left_out: number of tokens at the start that queries see and pooling leaves out, if the
            model does not pool prompts.
        matched: tokens that a search matches, if not all; see `Tokenized`.
    """

    ids: Ids
    selection: Selection
    segments: Ids | None = None
    head_mask: Floats | None = None
    places: Mapping[str, Any] = NOWHERE
    occluded: tuple[int, ...] = ()
    left_out: int = 0
    matched: Ids | None = None

    @property
    def role(self) -> GraphRole:
        """The graph that can serve it; only `attend` takes a head mask."""
        return self.selection.role if self.head_mask is None else "attend"

    def placed(self, **places: Any) -> Self:
        """Return the item with other tokens of some outputs."""
        return self._replace(places={**self.places, **places})

    def output_bytes(self, architecture: Architecture) -> dict[str, int]:
        """Return the bytes of each requested output; known before anything runs."""
        count, places = len(self.ids), self.places
        return {
            output.name: sum(
                [
                    each.size_bytes
                    for each in output.tensors(choice, places.get(output.name), count, architecture)
                ]
            )
            for output, choice in self.selection.outputs()
        }


def output_bytes(items: Sequence[EncodeItem], architecture: Architecture) -> dict[str, int]:
    """Return the bytes of data of all items of one selection, by output."""
    first = items[0].output_bytes(architecture)
    if len(items) == 1:
        return first
    if items[0].selection.one_size:
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
    places = NOWHERE
    if not selection.one_size:
        places = {
            output.name: place
            for output, choice in selection.outputs()
            if (place := output.place(choice, tokenized, pooling)) is not None
        }
    return EncodeItem(
        tokenized.ids,
        selection,
        tokenized.segments,
        head_mask,
        places,
        tokenized.occluded,
        tokenized.left_out,
        tokenized.matched,
    )


class ItemResult(dict[str, Array]):
    """The tensors of one input of n tokens, by name: C-contiguous, without padding.

    Pooled vectors are float32 here (`headlight.outputs.vector_forms.as_types` makes other types),
    and spans of the engine are the sums of their tokens, float64 [spans, D]. As an attribute, a
    tensor that is not there is None.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Array | None:
        if name.startswith("_"):  # copies and pickles ask for methods that it lacks
            raise AttributeError(name)
        return self.get(name)
