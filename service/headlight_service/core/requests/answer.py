"""A tokenised request, the size of its answer, and the answer: arrays with metadata."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput
from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.attention.token_units import attention_bytes
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.values import Tokenized
from headlight.runtime.vectors.vector_forms import as_types
from headlight.spec import Priority

# Ragged outputs in the order in which parts carry them, with their attributes of ItemResult.
RAGGED = {
    "tokens": "tokens",
    "attention": "attention",
    "hidden": "hidden",
    "attention_indices": "indices",
    "attention_scales": "scales",
    "spans": "spans",
}


VECTOR_AXES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("token", "value"),
    "hidden": ("layer", "token", "value"),
    "spans": ("span", "value"),
}


@dataclasses.dataclass(slots=True)
class Prepared:
    """A tokenised request, and the size of its answer.

    Attributes:
        inputs: the tokenised inputs.
        items: the items to run.
        selection: the requested outputs, resolved.
        architecture: shape of the model.
        with_info: whether the tokens are to be described.
        priority: priority of the request.
        output_bytes: bytes of data, by output.
        data_bytes: their sum.
        tokens: tokens of all items together.
        queued_tokens: tokens that count for queue and quota: a span counts as one, if that is more.
        held_bytes: bytes to hold while it is computed: sums of spans may be larger than vectors.
        spans: the spans of each input, whose items follow one another; None: none are requested,
            and each input has one item.
    """

    inputs: list[Tokenized]
    items: list[EncodeItem]
    selection: Selection
    architecture: Architecture
    with_info: bool
    priority: Priority
    output_bytes: dict[str, int]
    data_bytes: int
    tokens: int
    queued_tokens: int
    held_bytes: int
    spans: list[SpanItems] | None = None

    @property
    def largest(self) -> str:
        """The field that asks for most of the data."""
        sizes = self.output_bytes
        return "outputs." + max(sizes, key=sizes.__getitem__)

    def check_max_bytes(self) -> None:
        """Raise InvalidInput, with a choice that fits, if attention exceeds max_bytes."""
        choice = self.selection.attention
        if choice is None or choice.spec.max_bytes is None:
            return
        size, most = self.output_bytes["attention"], choice.spec.max_bytes
        if size > most:
            fits = self.what_fits(most + self.data_bytes - size)
            problem = f"attention would have {size} bytes, over the {most} allowed{fits}"
            raise InvalidInput(
                "outputs.attention.max_bytes", f"{problem}; ask for less, or allow more"
            )

    def what_fits(self, limit_bytes: int) -> str:
        """Return a clause that names a selection of at most so many bytes; empty: there is none."""
        sizes, selection = self.output_bytes, self.selection
        for name, part in (("attention", selection.attention), ("hidden", selection.hidden)):
            if part is None or self.largest != f"outputs.{name}":
                continue
            room = limit_bytes - (self.data_bytes - sizes[name])
            layered = not isinstance(part, Choice) or part.axes[0] in ("layer", "pair")
            fitting = room * len(part.layers) // sizes[name] if layered else 0
            if fitting > 0:
                what = "pairs" if isinstance(part, Choice) and part.spec.pairs else "layers"
                return f"; {fitting} of these {len(part.layers)} {what} would fit"
            if isinstance(part, Choice) and (smaller := self._smaller(part, room)):
                return smaller
        # Windows of a text follow the item that counts all its spans, and add nothing.
        sizes_of = (sum(item.output_bytes(self.architecture).values()) for item in self.items)
        sums = itertools.accumulate(size for size in sizes_of if size)
        fitting, inputs = sum(total <= limit_bytes for total in sums), len(self.inputs)
        return f"; the first {fitting} of these {inputs} inputs would fit" if fitting else ""

    def _smaller(self, choice: Choice, room: int) -> str:
        """Return a clause that names a smaller form of the same attention; empty: none fits."""
        spec = choice.spec
        if spec.reduce or spec.top_k or spec.scores or spec.pairs:
            return ""
        forms: list[tuple[str, dict[str, Any]]] = [
            ("dtype float16", {"dtype": "float16"}),
            ("reduce head_mean", {"reduce": ("head_mean",)}),
            ("top_k 8", {"top_k": 8}),
            ("reduce head_mean with dtype float16", {"reduce": ("head_mean",), "dtype": "float16"}),
        ]
        if spec.keys == "all" and spec.unit == "token":
            forms.append(("reduce statistics", {"reduce": ("statistics",), "dtype": "float32"}))
        for words, changes in forms:
            smaller = dataclasses.replace(choice, spec=dataclasses.replace(spec, **changes))
            if sum(attention_bytes(smaller, item.where) for item in self.items) <= room:
                return f"; {words} would fit"
        return ""


class Timings(NamedTuple):
    """Nanoseconds of an answer by stage.

    Attributes:
        queue_ns: until the first of its batches begins.
        infer_ns: from then until the last of them is done.
        total_ns: from the request's arrival until it is computed.
    """

    tokenize_ns: int = 0
    queue_ns: int = 0
    infer_ns: int = 0
    total_ns: int = 0


class Part(NamedTuple):
    """One tensor of an answer.

    Attributes:
        output: "pooled", or a name of RAGGED.
        item: its place in the request; for pooled: the place of the type.
        array: its numbers.
        axes: their names.
    """

    output: str
    item: int
    array: NDArray[Any]
    axes: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        results: result of each item; empty for a dry run.
    """

    prepared: Prepared
    results: list[ItemResult]
    timings: Timings

    def pooled(self) -> list[NDArray[Any]]:
        """Return the pooled vectors [N, ...] in each requested type."""
        wanted = self.prepared.selection
        if not wanted.pooled or not self.results:
            return []
        vectors = np.stack([result.pooled for result in self.results if result.pooled is not None])
        return list(as_types(vectors, wanted.vector).values())

    def parts(self) -> Iterator[Part]:
        """Yield the tensors, output by output: pooled vectors first, in each of their types."""
        for place, array in enumerate(self.pooled()):
            yield Part("pooled", place, array, ("item", "value"))
        for name, attribute in RAGGED.items():
            if not self.results or getattr(self.results[0], attribute) is None:
                continue
            axes = _axes(name, self.prepared.selection)
            for item, result in enumerate(self.results):
                yield Part(name, item, getattr(result, attribute), axes)


def _axes(output: str, selection: Selection) -> tuple[str, ...]:
    """Return the axes of one item's tensor of a ragged output."""
    if output in VECTOR_AXES:
        return VECTOR_AXES[output]
    axes = () if selection.attention is None else selection.attention.axes
    return axes[:-1] if output == "attention_scales" else axes
