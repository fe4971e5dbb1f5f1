"""Units of evidence: tokens, words, sentences or spans of one passage."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from headlight.comparison import EvidenceSpec
from headlight.errors import InvalidInput, Reason
from headlight.results import TokenList
from headlight.runtime.tokenization.sentences import sentence_spans
from headlight.runtime.values import Floats, Ids, Tokenized
from headlight.spec import Span

NO_TOKENS = np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EvidenceUnits:
    """The units of one passage.

    Attributes:
        tokens: int64 [m], the tokens of the first unit, of the second, ...
        starts: int64 [units], the index in `tokens` of each unit's first token.
        characters: int64 [3, units]: first character, end and text (0) of each unit; None: ids.
    """

    tokens: Ids
    starts: Ids
    characters: Ids | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Ids:
        """int64 [units], the number of tokens of each."""
        return np.diff(self.starts, append=len(self.tokens))

    def most_tokens(self, count: int) -> int:
        """Return the most tokens of so many of the units."""
        if count >= len(self):
            return len(self.tokens)
        return int(np.sort(self.sizes)[len(self) - count :].sum())

    def each(self) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of each unit."""
        tokens, bounds = self.tokens.tolist(), [*self.starts.tolist(), len(self.tokens)]
        return tuple([tuple(tokens[begin:end]) for begin, end in itertools.pairwise(bounds)])

    def sums(self, weights: Floats) -> Floats:
        """Return the sum of the tokens' weights of each unit: float32 [units].

        Args:
            weights: float32 [n], of every token of the passage.
        """
        if not len(self):
            return np.zeros(0, np.float32)
        return np.add.reduceat(weights[self.tokens], self.starts)

    def means(self, rows: Floats) -> Floats:
        """Return the mean of the rows of each unit's tokens: float32 [units, D].

        Args:
            rows: float32 [n, D], of every token of the passage.
        """
        if not len(self):
            return np.zeros((0, rows.shape[1]), np.float32)
        sums = np.add.reduceat(rows[self.tokens].astype(np.float64), self.starts)
        return (sums / self.sizes[:, None]).astype(np.float32)

    def part(self, begin: int, end: int) -> EvidenceUnits:
        """Return the units from `begin` to before `end`."""
        bounds = [*self.starts.tolist(), len(self.tokens)]
        first, last = bounds[begin], bounds[end]
        characters = None if self.characters is None else self.characters[:, begin:end]
        return EvidenceUnits(self.tokens[first:last], self.starts[begin:end] - first, characters)

    def runs(self, most: int) -> EvidenceUnits:
        """Return at most so many units: runs of neighbours, of about as many each."""
        if len(self) <= most:
            return self
        firsts = np.arange(most) * len(self) // most
        characters = self.characters
        if characters is not None:
            lasts = np.append(firsts[1:], len(self)) - 1
            ends = characters[1, lasts]
            characters = np.stack([characters[0, firsts], ends, np.zeros_like(ends)])
        return EvidenceUnits(self.tokens, self.starts[firsts], characters)

    def chosen(self, order: Ids) -> EvidenceUnits:
        """Return some units, in this order."""
        units, characters = self.each(), self.characters
        parts = [np.array(units[at], np.int64) for at in order.tolist()]
        places = None if characters is None else characters[:, order]
        return EvidenceUnits(np.concatenate([NO_TOKENS, *parts]), _starts(parts), places)


def joined(parts: Sequence[EvidenceUnits]) -> EvidenceUnits:
    """Return the units of several parts, one after the other."""
    ends = np.cumsum([0, *(len(each.tokens) for each in parts)])
    places = [each.characters for each in parts if each.characters is not None]
    return EvidenceUnits(
        np.concatenate([NO_TOKENS, *(each.tokens for each in parts)]),
        np.concatenate(
            [NO_TOKENS, *(each.starts + end for each, end in zip(parts, ends[:-1], strict=True))]
        ),
        np.concatenate(places, axis=1) if places else None,
    )


def divided_further(
    units: EvidenceUnits, finer: EvidenceUnits, weights: Floats, most: int
) -> EvidenceUnits:
    """Divide the units with the largest weights, until there were so many units in all.

    What is too many becomes runs of neighbours.

    Args:
        units: those that were hidden.
        finer: parts of them, of the same tokens.
        weights: float32 [units].
        most: units of both kinds.
    """
    left = most - len(units)
    bounds = np.searchsorted(finer.starts, [*units.starts, len(finer.tokens)]).tolist()
    parts = [units.part(at, at + 1) for at in range(len(units))]
    for at in largest(weights, len(units)).tolist():
        inside = finer.part(bounds[at], bounds[at + 1])
        if len(inside) > 1 < left:
            parts[at] = inside.runs(left)
            left -= len(parts[at])
    return joined(parts)


def largest(weights: Floats, count: int) -> Ids:
    """Return the indices of the largest weights, in descending order."""
    return np.argsort(-weights, kind="stable")[:count]


def compared_tokens(tokenized: Tokenized) -> Ids:
    """Return the tokens that are neither special nor of the prompt: int64 [m].

    Of an input of ids, all: it is unknown which are special.
    """
    info = tokenized.info
    if info is None:
        raise RuntimeError("an input was prepared without its tokens. This is a bug.")
    return np.flatnonzero(~(np.array(info.special, bool) | np.array(info.prompt, bool)))


def pair_tokens(tokenized: Tokenized) -> tuple[Ids, Ids]:
    """Return the tokens of each text of a pair that are neither special nor of a prompt."""
    tokens, info = compared_tokens(tokenized), tokenized.info
    second = np.array(() if info is None else info.segments, bool)[tokens]
    return tokens[~second], tokens[second]


def query_units(
    spec: EvidenceSpec, tokenized: Tokenized, text: str | None, tokens: Ids, field: str
) -> EvidenceUnits:
    """Return the units of the query; of given spans, which are a passage's, it is one."""
    if spec.unit != "span":
        return units_of(spec, 0, tokenized, text, tokens, field)
    spans = None if text is None else [Span(0, len(text))][: len(tokens)]
    starts = np.zeros(min(1, len(tokens)), np.int64)
    return EvidenceUnits(tokens, starts, None if spans is None else _characters(spans))


def single_tokens(length: int, others: Sequence[Ids]) -> EvidenceUnits:
    """Return the tokens of an input of so many that are not among others, without characters."""
    tokens = np.setdiff1d(np.arange(length), np.concatenate([NO_TOKENS, *others]))
    return EvidenceUnits(tokens, np.arange(len(tokens)))


def units_of(
    spec: EvidenceSpec, place: int, tokenized: Tokenized, text: str | None, tokens: Ids, field: str
) -> EvidenceUnits:
    """Return the units of one passage.

    Args:
        spec: the requested evidence.
        place: index of the passage.
        tokenized: the passage, with its tokens.
        text: the passage; None: it was given as ids.
        tokens: int64 [m], ascending: the tokens that belong to units.
        field: path of the spec in the request.

    Raises:
        InvalidInput: a span overlaps another, leaves the text, or holds no token; or the passage
            has no such units. Names the field.
    """
    info = tokenized.info
    if text is None or info is None or tokenized.words is None:
        if spec.unit != "token":
            raise InvalidInput(f"{field}.unit", Reason.NO_UNITS_OF_IDS)
        return EvidenceUnits(tokens, np.arange(len(tokens)))
    if spec.unit == "token":
        starts = np.arange(len(tokens))
    elif spec.unit == "word":
        numbers = tokenized.words[tokens]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    elif spec.unit == "sentence":
        return _sentences(sentence_spans(text) or (Span(0, len(text)),), info, tokens)
    else:
        return _spans(f"{field}.spans[{place}].spans", spec.spans[place], text, info, tokens)
    return _between(tokens, starts, info)


def _between(tokens: Ids, starts: Ids, info: TokenList) -> EvidenceUnits:
    """Return the units that begin at these places of `tokens`."""
    begins, ends = np.array(info.starts)[tokens], np.array(info.ends)[tokens]
    last = np.append(starts[1:], len(tokens))[: len(starts)] - 1  # a text may have no units
    characters = np.stack([begins[starts], ends[last], np.zeros_like(starts)])
    return EvidenceUnits(tokens, starts, characters)


def cut_at(units: EvidenceUnits, others: EvidenceUnits, info: TokenList) -> EvidenceUnits:
    """Return units of a text that are cut where one of the others, of the same tokens, begins."""
    starts = np.union1d(units.starts, others.starts)
    return units if len(starts) == len(units) else _between(units.tokens, starts, info)


def _sentences(spans: Sequence[Span], info: TokenList, tokens: Ids) -> EvidenceUnits:
    """Return the sentences that have tokens. A token belongs to that of its last character."""
    begins = np.array([span.start for span in spans], np.int64)
    ends = np.array(info.ends)[tokens]
    numbers = np.maximum(np.searchsorted(begins, ends - 1, side="right") - 1, 0)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    unit_spans = [spans[at] for at in numbers[starts].tolist()]
    return EvidenceUnits(tokens, starts, _characters(unit_spans))


def _spans(
    field: str, spans: Sequence[Span], text: str, info: TokenList, tokens: Ids
) -> EvidenceUnits:
    """Return the spans. A token belongs to that of its last character, so to one at most."""
    _check_spans(field, spans, len(text), len(info))
    ends = np.array(info.ends)[tokens]
    parts = []
    for at, span in enumerate(spans):
        parts.append(tokens[(span.start < ends) & (ends <= span.end)])
        if not len(parts[-1]):
            raise InvalidInput(
                f"{field}[{at}]", Reason.SPAN_WITHOUT_WEIGHT, start=span.start, end=span.end
            )
    return EvidenceUnits(np.concatenate([NO_TOKENS, *parts]), _starts(parts), _characters(spans))


def _check_spans(field: str, spans: Sequence[Span], characters: int, tokens: int) -> None:
    if not 1 <= len(spans) <= tokens:
        raise InvalidInput(field, Reason.SPANS_FOR_PASSAGE, count=len(spans), tokens=tokens)
    for at, span in enumerate(spans):
        if not 0 <= span.start < span.end <= characters or span.text:
            raise InvalidInput(
                f"{field}[{at}]",
                Reason.SPAN_OUTSIDE_PASSAGE,
                start=span.start,
                end=span.end,
                text=span.text,
                characters=characters,
            )
    for one, other in itertools.pairwise(sorted(spans)):
        if other.start < one.end:
            both = f"{one.start} .. {one.end} and {other.start} .. {other.end}"
            raise InvalidInput(field, Reason.OVERLAP, both=both)


def _starts(parts: Sequence[Ids]) -> Ids:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]


def _characters(spans: Sequence[Span]) -> Ids:
    return np.array(spans, np.int64).reshape(-1, 3).T
