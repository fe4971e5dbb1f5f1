"""Items of one input with spans: the input whole, or overlapping windows of a long text."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headlight.errors import InvalidInput, NotFinite, Reason
from headlight.outputs.spans import SpanChoice, SpanRows, SpanTokens
from headlight.outputs.vector_forms import ZEROS, halve, unit_length
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.spans.span_tokens import place_spans
from headlight.runtime.tokenization.input_checks import too_many_tokens
from headlight.runtime.values import Floats, Ids, Tokenized

OVERLAP = 4  # a window shares at least one in so many of its tokens with the next


class TooManyTokens(Exception):
    """The windows of an input have more tokens than a request may have."""


class SpanItems(NamedTuple):
    """The spans of one input, and the items that compute them.

    Attributes:
        spans: the tokens of each span.
        items: one, or one for each window.
    """

    spans: SpanTokens
    items: tuple[EncodeItem, ...]

    def means(self, results: Sequence[ItemResult]) -> Floats:
        """Return the mean of each span's tokens, float32 [s, dim], from results with sums."""
        sums = np.zeros((len(self.spans.begins), results[0]["spans"].shape[1]))
        for item, result in zip(self.items, results, strict=True):
            sums[item.places["spans"].places] += result["spans"]
        counts = (self.spans.ends - self.spans.begins)[:, None]
        return np.asarray(sums / counts, dtype=np.float32)


def span_items(
    choice: SpanChoice,
    tokenized: Tokenized,
    item: EncodeItem,
    text: str | None,
    *,
    index: int,
    max_length: int,
    most_tokens: int = sys.maxsize,
) -> SpanItems:
    """Return the spans of one input and its items.

    Args:
        choice: the request.
        tokenized: the input, with its tokens.
        item: its item without spans, of any length if the choice allows that.
        text: the text; None: the input is ids or a pair.
        index: place of the input in the request.
        max_length: tokens that the model takes.
        most_tokens: most tokens of all items together.

    Raises:
        InvalidInput: see `place_spans`; or the prompt of a long text leaves no room.
        TooManyTokens: its items have more tokens.
    """
    spans = place_spans(choice, tokenized, text, index)
    count = len(spans.begins)
    if len(tokenized.ids) <= max_length:
        rows = SpanRows(spans.tokens, spans.begins, spans.ends, np.arange(count), count, spans)
        return SpanItems(spans, (item.placed(spans=rows),))
    starts, room = window_starts(len(tokenized.ids), spans.body, max_length)
    if len(starts) * max_length > most_tokens:  # before they are built: it may be far more
        raise TooManyTokens
    items = tuple(
        item._replace(
            ids=item.ids[tokens],
            segments=None if item.segments is None else item.segments[tokens],
            left_out=min(item.left_out, max_length - 1),
        ).placed(spans=rows)
        for tokens, rows in _windows(spans, starts, room, len(tokenized.ids))
    )
    return SpanItems(spans, items)


def place_all(
    selection: Selection,
    values: Sequence[object],
    inputs: Sequence[Tokenized],
    items: Sequence[EncodeItem],
    max_length: int,
    most_tokens: int = sys.maxsize,
) -> list[SpanItems]:
    """Return the spans and items of each input of a request.

    Args:
        selection: the requested outputs, with spans.
        values: the inputs as given; only texts have sentences and spans of characters.
        inputs: the same, with their tokens.
        items: the same, without spans.
        max_length: tokens that the model takes.
        most_tokens: most tokens of all items together.

    Raises:
        InvalidInput: see `span_items`; names the input. Or the items have too many tokens.
    """
    choice, planned, left = selection["spans"], list[SpanItems](), most_tokens
    for at, (value, tokenized, item) in enumerate(zip(values, inputs, items, strict=True)):
        text = value if isinstance(value, str) else None
        try:
            work = span_items(
                choice,
                tokenized,
                item,
                text,
                index=at,
                max_length=max_length,
                most_tokens=left,
            )
        except TooManyTokens:
            raise too_many_tokens(most_tokens) from None
        except InvalidInput as error:
            if at in error.refusal.path:
                raise
            kind = "ids" if tokenized.words is None else "pair"
            raise error.at(("inputs", at, kind if text is None else "text")) from None
        left -= sum([len(each.ids) for each in work.items])
        if left < 0:
            raise too_many_tokens(most_tokens)
        planned.append(work)
    return planned


def merge(
    works: Sequence[SpanItems],
    results: Sequence[ItemResult],
    head: Callable[[Floats], Floats],
    normalize: bool,
) -> list[ItemResult]:
    """Return the result of each input, with its vectors, from those of its items.

    Args:
        works: the inputs of one request.
        results: of the engine, with sums.
        head: applies the layers behind pooling: float32 [s, dim] -> [s, pooled_dim].
        normalize: whether vectors have unit length unless requested otherwise.

    Raises:
        NotFinite: a vector of zeros has no unit length.
    """
    if not works:
        return []
    choice, each = works[0].items[0].selection["spans"], iter(results)
    answers = [list(itertools.islice(each, len(work.items))) for work in works]
    means = [work.means(parts) for work, parts in zip(works, answers, strict=True)]
    vectors = np.ascontiguousarray(head(np.concatenate(means))[:, : choice.form.width])
    if normalize if choice.form.unit is None else choice.form.unit:
        if not vectors.any(axis=1).all():
            raise NotFinite(f"{ZEROS}: that of a span")
        vectors = unit_length(vectors)
    half = choice.spec.dtype == "float16"
    ends = np.cumsum([len(rows) for rows in means])
    shares = np.split(halve(vectors) if half else vectors, ends[:-1])
    return [ItemResult(parts[0], spans=share) for parts, share in zip(answers, shares, strict=True)]


def window_starts(length: int, body: tuple[int, int], max_length: int) -> tuple[list[int], int]:
    """Return the first token of each window of a long text, evenly spaced, and its tokens.

    Args:
        length: tokens of the input.
        body: its tokens that windows divide; the others stand around each window.
        max_length: tokens that the model takes.

    Raises:
        InvalidInput: the tokens around the text leave no room.
    """
    first, end = body
    around = length - (end - first)
    room = max_length - around
    if room < 1:
        raise InvalidInput("", Reason.NO_ROOM_BESIDE_PROMPT, tokens=around, most=max_length)
    overlap, surplus = room // OVERLAP, end - first - room
    steps = max(1, -(-surplus // (room - overlap)))
    return [first + surplus * step // steps for step in range(steps + 1)], room


def _windows(
    spans: SpanTokens, starts: Sequence[int], room: int, length: int
) -> Iterator[tuple[Ids, SpanRows]]:
    """Yield the tokens of each window, and the spans' tokens that are taken from it.

    A token is taken from the window in whose middle it is nearest: that is furthest from the edges.
    The tokens around the text are in each window, and are taken from the first and the last.
    """
    first, end = spans.body
    before, behind = np.arange(first), np.arange(end, length)
    middles = [(one + other + room) // 2 for one, other in itertools.pairwise(starts)]
    bounds = np.searchsorted(spans.tokens, [0, *middles, length])
    for at, (start, (begin, stop)) in enumerate(
        zip(starts, itertools.pairwise(bounds.tolist()), strict=True)
    ):
        tokens = np.concatenate([before, np.arange(start, start + room), behind])
        # Tokens before the text stand in front of any window, those behind it at its end.
        span_tokens = spans.tokens[begin:stop]
        inside = np.searchsorted(tokens, span_tokens)
        begins, ends = np.clip(spans.begins, begin, stop), np.clip(spans.ends, begin, stop)
        places = np.flatnonzero(ends > begins)
        yield (
            tokens,
            SpanRows(
                inside,
                begins[places] - begin,
                ends[places] - begin,
                places,
                0 if at else len(spans.begins),
                spans,
                tuple(starts),
            ),
        )
