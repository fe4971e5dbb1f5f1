"""Vectors of spans: means of their tokens, from one encoding of the whole input.

`headlight.runtime.spans` finds the tokens of each span, and merges the windows of a long text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_mean, checked_spans
from headlight.outputs.contract import (
    known,
    malformed,
    messages,
    numbers_of,
    require,
    span_in,
    span_message,
)
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output
from headlight.outputs.vector_forms import VectorForm
from headlight.results import ModelRef, TokenList
from headlight.span_vectors import SpansSpec, SpanVectors, Windows
from headlight.spec import RowType, Span, check_dimensions, check_name

if TYPE_CHECKING:
    from headlight.description import Limits, ModelDescription
    from headlight.interface.arguments import Input
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Arrays, Floats, Ids

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
    reads = ("tokens",)
    behind_pooling = True

    def checked(self, spec: SpansSpec, inputs: int) -> SpansSpec:
        return checked_spans(spec, inputs)

    def part(self, spec: SpansSpec, inputs: range) -> SpansSpec:
        if isinstance(spec.kind, str | Windows):
            return spec
        return dataclasses.replace(spec, kind=spec.kind[inputs.start : inputs.stop])

    def choose(self, spec: SpansSpec, model: ModelDescription, forms: AvailableForms) -> SpanChoice:
        if spec.dimensions is not None:
            check_dimensions(spec.dimensions, model.pooled_dim, f"{SPANS}.dimensions")
        check_name(f"{SPANS}.dtype", spec.dtype, get_args(RowType))
        if spec.pooling is not None:
            check_name(f"{SPANS}.pooling", spec.pooling, ["mean"])
        elif model.pooling != "mean":
            raise InvalidInput(f"{SPANS}.pooling", Reason.SPANS_ARE_MEANS, pooling=model.pooling)
        if isinstance(spec.kind, Windows):
            check_windows(spec.kind)
        return SpanChoice(spec, VectorForm(spec.dimensions, spec.normalize))

    def needs_tokens(self, choice: SpanChoice) -> bool:
        return True

    def any_length(self, choice: SpanChoice) -> bool:
        return choice.spec.beyond_max_length

    def tensors(
        self,
        choice: SpanChoice,
        place: SpanRows | None,
        count: int,
        model: Architecture | ModelDescription,
    ) -> tuple[Tensor, ...]:
        # Windows and sentences are at most as many as tokens.
        spans = count if place is None else place.vectors
        shape = (spans, choice.form.width or model.pooled_dim)
        return (Tensor("spans", choice.spec.dtype, shape, self.axes),)

    def unit(self, choice: SpanChoice, usual: bool) -> bool:
        return usual if choice.form.unit is None else choice.form.unit

    def usable(self, choice: SpanChoice, result: Arrays, usual: bool) -> bool:
        return True  # they are sums yet

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
            kinds = tuple(tuple(map(span_in, given.spans)) for given in message.given.inputs)
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
        for at, given in enumerate(lists):
            check_span_count(f"{SPANS}.given.inputs[{at}]", len(given.spans))
        check_all_spans(sum(len(given.spans) for given in lists), limits.max_request_tokens)
        return ()

    def announce(
        self, response: pb.EncodeResponse, choice: SpanChoice, items: Sequence[Item]
    ) -> None:
        response.span_places.extend(_places(item.places["spans"]) for item in items)

    def message_of(self, spec: SpansSpec) -> pb.SpansOutput:
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
            lists = [messages().TextSpans(spans=map(span_message, given)) for given in spec.kind]
            message.given.CopyFrom(messages().GivenSpans(inputs=lists))
        return message

    def places_in(
        self,
        response: pb.EncodeResponse,
        choice: SpanChoice,
        counts: Sequence[int],
        inputs: Sequence[Input],
    ) -> list[SpanRows]:
        every = response.span_places
        require(len(every) == len(counts), f"span_places of {len(every)} inputs, of {len(counts)}")
        kind = choice.spec.kind
        given = [None] * len(counts) if isinstance(kind, str | Windows) else kind
        beyond = choice.spec.beyond_max_length
        return [
            span_rows(f"span_places[{at}]", *each, beyond=beyond)
            for at, each in enumerate(zip(every, counts, inputs, given, strict=True))
        ]

    def result(
        self,
        choice: SpanChoice,
        place: SpanRows,
        arrays: Arrays,
        tokens: TokenList,
        model: ModelRef,
    ) -> SpanVectors:
        assert place.spans is not None
        given = place.spans.characters
        return SpanVectors(
            arrays["spans"],
            () if given is None else tuple(Span(*each) for each in given.tolist()),
            place.spans.token_ranges,
            tokens,
            model,
            place.window_starts,
        )


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


def span_rows(
    field: str,
    places: pb.SpanPlaces,
    count: int,
    value: Input,
    given: Sequence[Span] | None,
    *,
    beyond: bool,
) -> SpanRows:
    """Return the spans of one input that an answer names.

    Args:
        field: the field that holds them.
        places: its value.
        count: tokens of the input.
        value: the input.
        given: the spans that were requested; None: the service found them.
        beyond: whether the input may be longer than the model takes.

    Raises:
        BadAnswer: they leave their input, or are not those requested.
    """
    text = value if isinstance(value, str) else None
    starts, ends = np.array(places.token_starts, int), np.array(places.token_ends, int)
    require(len(starts) == len(ends), f"{field} has {len(starts)} starts, {len(ends)} ends")
    inside = (starts < ends).all() and ends.max(initial=0) <= count
    require(inside, f"{field} leaves the {count} tokens of its input")
    expected = 0 if text is None else len(starts)
    require(
        len(places.characters) == expected,
        f"{field}.characters has {len(places.characters)} entries, {expected} were expected",
    )
    for each in places.characters if text is not None else ():
        if not each.start <= each.end <= len(text or "") or each.text:
            raise malformed(f"{field}.characters leave the text that was sent")
    same = given is None or list(map(span_in, places.characters)) == list(given)
    require(same, f"{field}.characters are not those given")
    windows = tuple(places.window_starts)
    require(
        not windows or (beyond and list(windows) == sorted(set(windows))),
        f"{field}.window_starts are {list(windows[:8])}, out of order or not requested",
    )
    require(
        all(start < count for start in windows),
        f"{field}.window_starts leave the {count} tokens of their input",
    )
    pairs = [(each.start, each.end) for each in places.characters]
    characters = None if text is None else np.array(pairs, int).reshape(-1, 2)
    spans = SpanTokens(np.arange(count), starts, ends, characters, (0, count))
    each_span = np.arange(len(starts))
    return SpanRows(spans.tokens, starts, ends, each_span, len(starts), spans, windows)
