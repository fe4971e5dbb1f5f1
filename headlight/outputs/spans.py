"""Vectors of spans: means of their tokens, from one encoding of the whole input.

`headlight.runtime.spans` finds the tokens of each span, and merges the windows of a long text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_mean
from headlight.outputs.contract import (
    known,
    malformed,
    messages,
    numbers_of,
    require,
    span_in,
    span_message,
)
from headlight.outputs.output import Item, Output, Tensor, Told
from headlight.outputs.vector_forms import VectorForm
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import RowType, Span, check_dimensions, check_name

if TYPE_CHECKING:
    from headlight.description import Limits
    from headlight.interface.arguments import Input
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.bundle.manifest import Architecture, Manifest
    from headlight.runtime.values import Arrays, Floats, Ids

SPANS = "outputs.spans"
MOST_SPANS = 10_000  # of one input
SUM_BYTES = 8  # a number of float64


@dataclasses.dataclass(frozen=True, slots=True)
class SpanChoice:
    """Resolved vectors of spans.

    Attributes:
        spec: as requested.
        form: width of the vectors, and whether they have unit length.
    """

    spec: SpansSpec
    form: VectorForm


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SpanTokens:
    """The tokens of the spans of one input.

    Attributes:
        tokens: int64 [m], tokens that spans can have, ascending: neither special nor of the prompt,
            except special ones around the text that `include_special` adds.
        begins, ends: int64 [s], the tokens of each span: tokens[begin:end], at least one.
        characters: int64 [s, 2], first character of each span and one behind its last; None: the
            input is ids.
        body: the tokens between the prompt and special tokens around the text: first, and one
            behind the last.
    """

    tokens: Ids
    begins: Ids
    ends: Ids
    characters: Ids | None
    body: tuple[int, int]

    @property
    def token_ranges(self) -> tuple[range, ...]:
        """First token of each span, and one behind its last."""
        first, last = self.tokens[self.begins], self.tokens[self.ends - 1]
        return tuple(map(range, first.tolist(), (last + 1).tolist()))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SpanRows:
    """The tokens of an item that its spans sum, and the spans among them.

    Attributes:
        tokens: int64 [m], tokens of the item, ascending.
        begins, ends: int64 [s], the tokens of each span: tokens[begin:end].
        places: int64 [s], places of these spans among those of the input.
        vectors: number of vectors of the answer that are counted with this item: those of its
            input, or 0 for another window of the same input.
        spans: all spans of the input.
        window_starts: if the input is long, the first token of its text in each window.
    """

    tokens: Ids
    begins: Ids
    ends: Ids
    places: Ids
    vectors: int
    spans: SpanTokens | None = None
    window_starts: tuple[int, ...] = ()

    def sums(self, vectors: Floats) -> NDArray[np.float64]:
        """Return the sum of each span's token vectors: float32 [n, D] -> float64 [s, D].

        In float64, spans may be differences of running sums: 10,000 long spans cost no more than
        one pass.
        """
        running = np.zeros((len(self.tokens) + 1, vectors.shape[1]))
        np.cumsum(vectors[self.tokens], axis=0, dtype=np.float64, out=running[1:])
        return running[self.ends] - running[self.begins]


class SpanMeans(Output):
    """Vectors of spans. A sum, unlike a mean, can be put together from parts of a long text."""

    name = "spans"
    axes = ("span", "value")
    width = "pooled_dim"
    reads = ("tokens",)

    def choose(
        self, spec: SpansSpec, manifest: Manifest, forms: AvailableForms, *, head: bool
    ) -> SpanChoice:
        width = manifest.architecture.pooled_dim
        if spec.dimensions is not None:
            check_dimensions(spec.dimensions, width, f"{SPANS}.dimensions")
        check_name(f"{SPANS}.dtype", spec.dtype, get_args(RowType))
        if spec.pooling is not None:
            check_name(f"{SPANS}.pooling", spec.pooling, ["mean"])
        elif manifest.pooling != "mean":
            raise InvalidInput(f"{SPANS}.pooling", Reason.SPANS_ARE_MEANS, pooling=manifest.pooling)
        if isinstance(spec.kind, Windows):
            check_windows(spec.kind)
        if manifest.dense_layers is None and not head:
            raise InvalidInput(SPANS, Reason.UNKNOWN_DENSE)
        if manifest.dense_layers and not head:
            raise InvalidInput(SPANS, Reason.NO_HEAD_GRAPH)
        return SpanChoice(spec, VectorForm(spec.dimensions, spec.normalize))

    def needs_tokens(self, choice: SpanChoice) -> bool:
        return True

    def any_length(self, choice: SpanChoice) -> bool:
        return choice.spec.beyond_max_length

    def tensors(
        self, choice: SpanChoice, item: Item, architecture: Architecture
    ) -> tuple[Tensor, ...]:
        rows: SpanRows | None = item.places.get("spans")
        width = choice.form.width or architecture.pooled_dim
        shape = (0 if rows is None else rows.vectors, width)
        return (Tensor("spans", choice.spec.dtype, shape, self.axes),)

    def cut(self, choice: SpanChoice, item: Item, outputs: Arrays, row: int) -> Arrays:
        rows: SpanRows | None = item.places.get("spans")
        return {} if rows is None else {"spans": rows.sums(outputs["tokens"][row])}

    def spec_of(self, message: pb.SpansOutput) -> SpansSpec:
        field, kind = SPANS, message.WhichOneof("kind")
        kinds: Literal["sentences"] | Windows | tuple[tuple[Span, ...], ...] = "sentences"
        if kind is None:
            raise InvalidInput(field, Reason.NO_KIND)
        if kind == "windows":
            kinds = Windows(message.windows.size, message.windows.overlap)
        elif kind == "given":
            kinds = tuple(tuple(map(span_in, own.spans)) for own in message.given.inputs)
        return SpansSpec(
            kind=kinds,
            include_special=message.include_special,
            pooling=checked_mean(f"{field}.pooling", message.pooling or None),
            dimensions=message.dimensions if message.HasField("dimensions") else None,
            normalize=message.normalize if message.HasField("normalize") else None,
            dtype=known(f"{field}.dtype", "DataType", message.dtype, get_args(RowType), "float32"),
            beyond_max_length=message.beyond_max_length,
        )

    def entries(
        self, message: pb.SpansOutput, architecture: Architecture, tokens: int, limits: Limits
    ) -> Iterable[tuple[str, int, int]]:
        lists = message.given.inputs
        if len(lists) > limits.max_items:
            raise InvalidInput(f"{SPANS}.given.inputs", Reason.ONE_FOR_EACH_INPUT, count=len(lists))
        for at, own in enumerate(lists):
            check_span_count(f"{SPANS}.given.inputs[{at}]", len(own.spans))
        check_all_spans(sum(len(own.spans) for own in lists), limits.max_request_tokens)
        return ()

    def announce(
        self, response: pb.EncodeResponse, choice: SpanChoice, items: Sequence[Item]
    ) -> None:
        response.span_places.extend(_places(item.places["spans"]) for item in items)

    def told_axes(self, tensor: str, response: pb.EncodeResponse) -> tuple[str, ...]:
        places, inputs = len(response.span_places), len(response.items)
        require(places == inputs, f"span_places of {places} inputs, of {inputs}")
        return self.axes

    def extents(self, response: pb.EncodeResponse, at: int, count: int) -> Mapping[str, int]:
        return {"span": len(response.span_places[at].token_starts)}

    def check(self, message: pb.SpansOutput, answer: Told) -> None:
        check_spans(message, answer.response, answer.inputs)


def check_windows(windows: Windows) -> None:
    """Raise InvalidInput for windows without a token, or that would not advance."""
    size, overlap = windows
    if size < 1:
        raise InvalidInput(f"{SPANS}.windows.size", Reason.WINDOW_SIZE, size=size)
    if not 0 <= overlap < size:
        raise InvalidInput(
            f"{SPANS}.windows.overlap", Reason.WINDOW_OVERLAP, overlap=overlap, most=size - 1
        )


def check_all_spans(count: int, most: int) -> None:
    """Raise InvalidInput if the spans of all inputs of a request are too many."""
    if count > most:
        raise InvalidInput(SPANS, Reason.SPANS_OF_A_REQUEST, count=count, most=most)


def check_span_count(field: str, count: int) -> None:
    """Raise InvalidInput for no span, or for more than one input may have."""
    if not 1 <= count <= MOST_SPANS:
        raise InvalidInput(field, Reason.SPANS_OF_AN_INPUT, count=count, most=MOST_SPANS)


def spans_output(spec: SpansSpec) -> pb.SpansOutput:
    """Encode a checked spec of span vectors; given spans are left empty, for each request's own."""
    message: pb.SpansOutput = messages().SpansOutput(
        include_special=spec.include_special,
        pooling=spec.pooling or "",
        dimensions=spec.dimensions,
        dtype=None if spec.dtype == "float32" else numbers_of("DataType")[spec.dtype],
        beyond_max_length=spec.beyond_max_length,
    )
    if spec.normalize is not None:
        message.normalize = spec.normalize
    if isinstance(spec.kind, Windows):
        message.windows.CopyFrom(messages().TokenWindows(**spec.kind._asdict()))
    elif spec.kind == "sentences":
        message.sentences.SetInParent()
    else:
        message.given.SetInParent()
    return message


def given_spans(spec: SpansSpec) -> list[pb.TextSpans]:
    """Encode the given spans of each input; empty for other kinds."""
    if isinstance(spec.kind, str | Windows):
        return []
    return [messages().TextSpans(spans=map(span_message, own)) for own in spec.kind]


def _places(rows: SpanRows) -> pb.SpanPlaces:
    spans = rows.spans
    assert spans is not None
    ranges = spans.token_ranges
    characters = () if spans.characters is None else spans.characters.tolist()
    places: pb.SpanPlaces = messages().SpanPlaces(
        characters=[messages().TextSpan(start=start, end=end) for start, end in characters],
        token_starts=[each.start for each in ranges],
        token_ends=[each.stop for each in ranges],
        window_starts=rows.window_starts,
    )
    return places


def check_spans(spec: pb.SpansOutput, response: pb.EncodeResponse, inputs: Sequence[Input]) -> None:
    """Check the characters, tokens and windows of the spans of each input.

    Args:
        spec: the request, with the spans of these inputs if they were given.
        response: the answer, whose layouts are consistent.
        inputs: the inputs that it answers.

    Raises:
        BadAnswer: they leave their input, or are not those requested.
    """
    for at, (places, item, given) in enumerate(
        zip(response.span_places, response.items, inputs, strict=True)
    ):
        field, text = f"span_places[{at}]", given if isinstance(given, str) else None
        starts, ends = np.array(places.token_starts), np.array(places.token_ends)
        require(len(starts) == len(ends), f"{field} has {len(starts)} starts, {len(ends)} ends")
        inside = (starts < ends).all() and ends.max(initial=0) <= item.token_count
        require(inside, f"{field} leaves the {item.token_count} tokens of its input")
        expected = 0 if text is None else len(starts)
        require(
            len(places.characters) == expected,
            f"{field}.characters has {len(places.characters)} entries, {expected} were expected",
        )
        for each in places.characters if text is not None else ():
            if not each.start <= each.end <= len(text or "") or each.text:
                raise malformed(f"{field}.characters leave the text that was sent")
        if spec.HasField("given"):
            asked = list(spec.given.inputs[at].spans)
            require(list(places.characters) == asked, f"{field}.characters are not those given")
        windows = list(places.window_starts)
        require(
            not windows or (spec.beyond_max_length and windows == sorted(set(windows))),
            f"{field}.window_starts are {windows[:8]}, out of order or not asked for",
        )
        require(
            all(start < item.token_count for start in windows),
            f"{field}.window_starts leave the {item.token_count} tokens of its input",
        )
