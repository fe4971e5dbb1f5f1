"""A tokenised request, the size of its answer, and the answer: arrays with metadata."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.outputs.layout import Layout
from headlight.outputs.output import Output
from headlight.outputs.registry import OUTPUTS
from headlight.refusals import Argument
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.spelling import Spelling
from headlight.runtime.values import Architecture, Tokenized
from headlight.spec import Priority


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
        spelling: that of terms; None: the model has no terms, or no tokenizer.
    """

    inputs: list[Tokenized]
    items: Sequence[EncodeItem]
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
    spelling: Spelling | None = None

    @property
    def spelled_bytes(self) -> int:
        """The most bytes of the spelling of all terms."""
        if self.spelling is None:
            return 0
        terms = sum([output.most_spelled(choice) for output, choice in self.selection.outputs()])
        return len(self.inputs) * self.spelling.most_bytes(terms)

    @property
    def largest(self) -> str:
        """The field that asks for most of the data."""
        sizes = self.output_bytes
        return "outputs." + max(sizes, key=sizes.__getitem__, default="token_info")

    def largest_details(self, size: int) -> str:
        """Return the field that asks for most of so many bytes besides the data."""
        spelled = 2 * self.spelled_bytes > size
        return "outputs.sparse.pieces" if spelled else "outputs.token_info"

    @property
    def firsts(self) -> Sequence[EncodeItem]:
        """The first item of each input: others are more windows of it."""
        return self.items if self.spans is None else [work.items[0] for work in self.spans]

    def layouts(self) -> Iterator[tuple[Output, dict[str, Layout]]]:
        """Yield each requested output, and the layout of each of its tensors."""
        firsts = self.firsts
        counts = [len(item.ids) for item in firsts]
        for output, choice in self.selection.outputs():
            places = [item.places.get(output.name) for item in firsts]
            yield output, output.layouts(choice, places, counts, self.architecture)

    def check_max_bytes(self) -> None:
        """Raise InvalidInput, with a choice that fits, if an output exceeds its max_bytes."""
        for output, choice in self.selection.outputs():
            size, most = self.output_bytes[output.name], output.max_bytes(choice)
            if most is not None and size > most:
                raise InvalidInput(
                    f"outputs.{output.name}.max_bytes",
                    Reason.OUTPUT_BYTES,
                    output=output.name,
                    size=size,
                    most=most,
                    **self.what_fits(most + self.data_bytes - size),
                )

    def what_fits(self, limit_bytes: int) -> dict[str, Argument]:
        """Return `fits`, a selection of at most so many bytes, and its numbers; "": none is."""
        for output, choice in self.selection.outputs():
            size = self.output_bytes[output.name]
            room = limit_bytes - (self.data_bytes - size)
            if self.largest == f"outputs.{output.name}" and (
                smaller := output.smaller(choice, self.items, size, room)
            ):
                return smaller
        # Windows of a text follow the item that counts all its spans, and add nothing.
        sizes_of = (sum(item.output_bytes(self.architecture).values()) for item in self.items)
        sums = itertools.accumulate(size for size in sizes_of if size)
        fitting, inputs = sum(total <= limit_bytes for total in sums), len(self.inputs)
        return {"fits": Phrase.INPUTS_FIT if fitting else "", "fitting": fitting, "among": inputs}


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
        output: the output.
        tensor: its name.
        item: place of the input; of a stack of all inputs, of the tensor among the output's.
        array: its numbers.
        axes: their names.
    """

    output: Output
    tensor: str
    item: int
    array: NDArray[Any]
    axes: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        results: result of each item; empty for a dry run, and for an answer of `numbers`.
        numbers: of an occlusion `OcclusionNumbers`, of a comparison a list of `PassageNumbers`;
            None: of a dry run, and of outputs.
    """

    prepared: Prepared
    results: list[ItemResult]
    timings: Timings
    numbers: Any = None

    def arrays(self, name: str) -> Mapping[str, Sequence[NDArray[Any]]]:
        """Return the numbers of one output, for each input, by tensor; none of a dry run."""
        choice = self.prepared.selection.get(name)
        if choice is None or not self.results:
            return {}
        return OUTPUTS[name].arrays(choice, self.results)

    def pieces(self) -> Iterator[tuple[str, ...]]:
        """Yield the spelling of each input's terms; nothing if it is not requested."""
        for output, choice in self.prepared.selection.outputs():
            if self.prepared.spelling is not None and output.most_spelled(choice):
                for result in self.results:
                    yield self.prepared.spelling.pieces(output.spelled(result))

    def pooled(self) -> list[NDArray[Any]]:
        """Return the pooled vectors [N, ...] in each requested type."""
        return [np.stack(rows) for rows in self.arrays("pooled").values()]

    def parts(self) -> Iterator[Part]:
        """Yield the tensors, output by output, in the order of an answer's data."""
        for output, layouts in self.prepared.layouts():
            for place, (name, arrays) in enumerate(self.arrays(output.name).items()):
                axes = layouts[name].axes
                if output.stacked:
                    yield Part(output, name, place, np.stack(arrays), axes)
                    continue
                for item, array in enumerate(arrays):
                    yield Part(output, name, item, array, axes)
