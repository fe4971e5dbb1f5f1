"""The tokens of each span of one input."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.outputs.spans import SPANS, SpanChoice, SpanTokens, check_span_count
from headlight.results import TokenList
from headlight.runtime.tokenization.sentences import sentence_spans
from headlight.runtime.values import Ids, Marks, Tokenized
from headlight.span_vectors import Windows
from headlight.spec import Span


def place_spans(
    choice: SpanChoice, tokenized: Tokenized, text: str | None, index: int
) -> SpanTokens:
    """Return the tokens of the requested spans of one input.

    Args:
        choice: the request.
        tokenized: the input, with its tokens.
        text: the text; None: the input is ids or a pair.
        index: place of the input in the request.

    Raises:
        InvalidInput: a span leaves the text or has no token, or there are none or too many.
    """
    kind, info = choice.spec.kind, tokenized.info
    if info is None:
        raise RuntimeError("spans were requested without tokens. This is a bug.")
    text_tokens, around = _text_tokens(info, is_text=text is not None)
    if not len(text_tokens):
        raise InvalidInput(SPANS, Reason.ONLY_SPECIAL_TOKENS)
    starts, ends = np.array(info.starts)[text_tokens], np.array(info.ends)[text_tokens]
    characters: Ids | None = None
    if isinstance(kind, Windows):
        if text is None and tokenized.words is not None:
            raise InvalidInput(SPANS, Reason.NOT_A_SINGLE_TEXT)
        first, last = _windows(kind, len(text_tokens))
        if text is not None:
            characters = np.stack([starts[first], ends[last - 1]], axis=1)
    elif text is None:
        raise InvalidInput(SPANS, Reason.NOT_A_SINGLE_TEXT)
    else:
        field = f"{SPANS}.sentences"
        given: Sequence[Span] = ()
        if kind == "sentences":
            given = sentence_spans(text)
        else:
            field = f"{SPANS}.given.inputs[{index}]"
            given = kind[index]
            _check_given(field, given, len(text))
        characters = np.array(given, dtype=np.int64).reshape(-1, len(Span._fields))[:, :2]
        # Running extremes, because searching needs an order; tokenizers give offsets in order.
        first = np.searchsorted(np.maximum.accumulate(ends), characters[:, 0], side="right")
        from_end = np.minimum.accumulate(starts[::-1])[::-1]
        last = np.searchsorted(from_end, characters[:, 1], side="left")
        full = first < last
        if kind == "sentences":  # truncation cut some, or the tokenizer drops their characters
            characters, first, last = characters[full], first[full], last[full]
            check_span_count(field, len(first))
        elif not full.all():
            at = int(np.flatnonzero(~full)[0])
            raise InvalidInput(
                f"{field}.spans[{at}]",
                Reason.SPAN_BETWEEN_TOKENS,
                start=given[at].start,
                end=given[at].end,
            )
    spans = SpanTokens(
        text_tokens, first, last, characters, (int(text_tokens[0]), int(text_tokens[-1]) + 1)
    )
    spans = dataclasses.replace(spans, body=_body(around, spans.body))
    return _with_special(spans, info, tokenized.left_out) if choice.spec.include_special else spans


def _text_tokens(info: TokenList, *, is_text: bool) -> tuple[Ids, Marks]:
    """Return the tokens of the text itself, and which tokens stand around it: bool [n].

    It is unknown which ids are special, so they all count.
    """
    if not is_text:
        return np.arange(len(info)), np.zeros(len(info), dtype=np.bool_)
    special, prompt = np.array(info.special), np.array(info.prompt)
    # Special tokens that the text spells out have characters.
    around = prompt | (special & (np.array(info.ends) <= np.array(info.starts)))
    return np.flatnonzero(~special & ~prompt), around


def _body(around: Marks, text_tokens: tuple[int, int]) -> tuple[int, int]:
    inside = np.flatnonzero(~around)
    return min(text_tokens[0], int(inside[0])), max(text_tokens[1], int(inside[-1]) + 1)


def _windows(windows: Windows, count: int) -> tuple[Ids, Ids]:
    """Return begin and end of each window of `count` tokens: the last ends with the last token."""
    step = windows.size - windows.overlap
    most = 1 if count <= windows.size else 1 - (windows.size - count) // step
    check_span_count(f"{SPANS}.windows", most)
    begins = np.arange(most, dtype=np.int64) * step
    return begins, np.minimum(begins + windows.size, count)


def _check_given(field: str, spans: Sequence[Span], length: int) -> None:
    """Raise InvalidInput for the first span that leaves a text of so many characters.

    Also if there is none, or there are too many.
    """
    check_span_count(field, len(spans))
    for at, (start, end, text) in enumerate(spans):
        if text or not 0 <= start < end <= length:
            reason = Reason.SPAN_RANGE_OF_TEXT if text else Reason.SPAN_RANGE
            raise InvalidInput(
                f"{field}.spans[{at}]", reason, start=start, end=end, text=text, last=length
            )


def _with_special(spans: SpanTokens, info: TokenList, left_out: int) -> SpanTokens:
    """Add special tokens around the text to the spans at its ends, as pooling counts them."""
    special = np.flatnonzero(np.array(info.special) & ~np.array(info.prompt))
    before = special[(special < spans.tokens[0]) & (special >= left_out)]
    behind = special[special > spans.tokens[-1]]
    begins, ends = spans.begins + len(before), spans.ends + len(before)
    begins[spans.begins == 0] = 0
    ends[spans.ends == len(spans.tokens)] += len(behind)
    tokens = np.concatenate([before, spans.tokens, behind])
    return dataclasses.replace(spans, tokens=tokens, begins=begins, ends=ends)
