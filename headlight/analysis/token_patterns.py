"""Patterns of tokens that a head may attend to, and its share of weight on each; no service calls.

    same         other tokens of the query's id, over the queries that have one
    bracket      the partner of a bracket, over the brackets that have one
    punctuation  tokens of punctuation alone
    rare         tokens with one of the least frequent ids of the given texts

Special tokens are neither queries nor keys of a pattern. A text without such a key has no queries
of it. Voita et al. 2019, "Analyzing Multi-Head
Self-Attention", 4, find heads for rare tokens; Clark et al. 2019, 3.2, for punctuation.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.head_kinds import PATTERNS
from headlight.interface.arguments import Input, text_of
from headlight.results import Floats, TokenList

Flags = NDArray[np.bool_]
Doubles = NDArray[np.float64]
BRACKETS = {"(": ")", "[": "]", "{": "}"}
RARE_TENTH = 0.1  # quantile of the tokens' frequencies


@dataclasses.dataclass(frozen=True, slots=True)
class TokenPattern:
    """One pattern in the given texts.

    Attributes:
        base_rate: share of the weight under uniform attention: the mean over the queries of the
            number of the pattern's keys, divided by n, the number of the text's tokens. NaN if
            there are no queries.
        queries: number of queries that it applies to, in all texts.
    """

    base_rate: float
    queries: int


class PatternShares:
    """Sums over texts of the weight on the keys of each pattern; memory for one text at a time."""

    def __init__(self, tokens: Iterable[TokenList]) -> None:
        """Find the rare ids.

        Args:
            tokens: tokens of all texts that will be added.
        """
        self._rare = rare_ids(tokens)
        self._weight: Doubles = np.zeros((0, len(PATTERNS)))  # of each head
        self._uniform = np.zeros(len(PATTERNS))
        self._queries = np.zeros(len(PATTERNS), np.int64)

    def add(self, weights: Floats, tokens: TokenList, given: Input) -> None:
        """Add the maps of one text. A text of one token is left out.

        Args:
            weights: float32 [heads, n, n], whole maps of the same heads each time.
            tokens: the n tokens.
            given: the text, pair or ids.
        """
        count = len(tokens)
        if not len(self._weight):
            self._weight = np.zeros((len(weights), len(PATTERNS)))
        if count < 2:
            return
        masks = np.stack(
            list(pattern_keys(tokens, tokens.labels(text_of(given)), self._rare).values())
        )
        flat = masks.reshape(len(PATTERNS), -1)
        self._weight += weights.reshape(len(weights), -1) @ flat.T.astype(np.float32)
        self._uniform += flat.sum(axis=1) / count
        self._queries += masks.any(axis=2).sum(axis=1)

    @property
    def shares(self) -> Doubles:
        """Mean weight on the keys of each pattern, [heads, patterns]; NaN without queries."""
        return _ratio(self._weight, self._queries)

    @property
    def patterns(self) -> Mapping[str, TokenPattern]:
        """Base rate and number of queries of each pattern."""
        rates = _ratio(self._uniform, self._queries).tolist()
        return {
            name: TokenPattern(rate, queries)
            for name, rate, queries in zip(PATTERNS, rates, self._queries.tolist(), strict=True)
        }


def _ratio(sums: Doubles, counts: NDArray[np.int64]) -> Doubles:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def pattern_keys(
    tokens: TokenList, labels: Sequence[str], rare: frozenset[int]
) -> dict[str, Flags]:
    """Return the keys of each query, by pattern: bool [n, n]; a row without True is no query.

    Args:
        tokens: the n tokens of one text.
        labels: their labels, as in `TokenList.labels`.
        rare: ids that count as rare.
    """
    ids, plain = np.array(tokens.ids), ~np.array(tokens.special)
    both = plain[:, None] & plain
    same = both & (ids[:, None] == ids) & ~np.eye(len(ids), dtype=bool)
    bracket = np.zeros_like(same)
    names = [label if ordinary else "" for label, ordinary in zip(labels, plain, strict=True)]
    for opening, closing in bracket_pairs(names):
        bracket[opening, closing] = bracket[closing, opening] = True
    marks = np.array([is_punctuation(name) for name in names])
    return {
        "same": same,
        "bracket": bracket,
        "punctuation": both & marks,
        "rare": both & np.isin(ids, list(rare)),
    }


def bracket_pairs(labels: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the tokens (opening, closing) of each pair of matching brackets: (), [] or {}.

    Two brackets match if they are of one sort and all brackets between them match. So a bracket
    that closes another sort ends the search for what was open before it. A token of several
    brackets has several partners; a pair within one token is left out.

    Args:
        labels: characters of each token, in the order of the text.
    """
    opened: list[tuple[str, int]] = []
    for place, label in enumerate(labels):
        for mark in label:
            if mark in BRACKETS:
                opened.append((BRACKETS[mark], place))
            elif mark in BRACKETS.values():
                if opened and opened[-1][0] == mark:
                    opening = opened.pop()[1]
                    if opening != place:
                        yield opening, place
                else:
                    opened.clear()


def is_punctuation(label: str) -> bool:
    """Return whether all characters but white space are punctuation or symbols of Unicode.

    These are the categories P and S. They include all ASCII characters that are neither letters,
    digits, white space nor control characters, such as the operators of source code.
    """
    marks = "".join(label.split())
    return bool(marks) and all(unicodedata.category(mark)[0] in "PS" for mark in marks)


def rare_ids(tokens: Iterable[TokenList]) -> frozenset[int]:
    """Return the least frequent ids of some texts, for a tenth of their tokens or more.

    An id is rare if its count in the texts is at most the lowest decile of the counts of all
    ordinary tokens. In few texts these are the ids that occur once, and may be most of the tokens:
    the base rate shows that. The order of ids in the vocabulary says nothing here.
    """
    lists = [np.array(each.ids, np.int64)[~np.array(each.special, dtype=bool)] for each in tokens]
    ids, counts = np.unique(np.concatenate([*lists, np.empty(0, np.int64)]), return_counts=True)
    if not len(ids):
        return frozenset()
    limit = np.quantile(np.repeat(counts, counts), RARE_TENTH, method="inverted_cdf")
    return frozenset(ids[counts <= limit].tolist())
