"""Kinds of heads, by the tokens that have their weight, and strongest links; no service calls.

`headlight.analysis.head_analysis` requests the results. The kinds are those of Clark et al. 2019,
"What Does BERT Look At?", 3, and on request the patterns of `headlight.analysis.token_patterns`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.results import AttentionMaps
from headlight.spec import STATISTICS

Doubles = NDArray[np.float64]
Pattern = Literal["same", "bracket", "punctuation", "rare"]
Kind = Literal["self", "previous", "next", "delimiter", "uniform", "other"] | Pattern
KINDS: tuple[Kind, ...] = ("self", "previous", "next", "delimiter", "uniform", "other")
# The deciding statistic of each kind. The first wins a tie.
DECIDES: Mapping[Kind, str] = {
    "self": "self",
    "previous": "previous",
    "next": "next",
    "delimiter": "special",
}
PATTERNS: tuple[Pattern, ...] = ("same", "bracket", "punctuation", "rare")
FIXED = ("self", "previous", "next")  # kinds by position: no pattern replaces them
# Least share of the weight for a kind: Clark et al. name heads by "over 50%" of their attention.
CALLED = 0.5
# Least spread of a "uniform" head. Clark et al. set no threshold. A row of this spread has the
# entropy of a uniform row over n ** 0.9 tokens: 8 of 10, 63 of 100. It is tested before the shares,
# because with few tokens any share is large.
UNIFORM = 0.9
# A pattern needs so many times the share that uniform attention has on it: in source code, a third
# of the tokens may be punctuation.
ABOVE_BASE = 2.0
# A link between two tokens that is weaker than this does not describe a head whose tokens attend to
# themselves. The link of a token with itself is reported instead.
FAINT = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Link from one token to another.

    Attributes:
        weight: attention weight; the whole row, special tokens included, sums to 1.
        text: index of the text.
        query, key: indices of the tokens in it.
        query_label, key_label: their labels, as in `TokenList.labels`.
    """

    weight: float
    text: int
    query: int
    key: int
    query_label: str
    key_label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """One head.

    Attributes:
        layer, head: its indices.
        kind: its kind.
        share: the deciding number: the mean weight on tokens of that kind; for "uniform" the
            spread; for "other" the largest of the four shares of DECIDES, below CALLED.
        spread: entropy divided by ln n, the entropy of a uniform row of n tokens: 1 for uniform
            attention, 0 for attention to one token.
        statistics: means over the queries of all texts, by the names of
            `headlight.spec.STATISTICS`; NaN if unknown.
        link: its strongest link; None if not requested, or if there are no ordinary tokens.
        patterns: mean weight on the keys of each pattern, by the names of PATTERNS, over the
            queries that it applies to; NaN without queries. Empty if not requested.
    """

    layer: int
    head: int
    kind: Kind
    share: float
    spread: float
    statistics: Mapping[str, float]
    link: Link | None = None
    patterns: Mapping[Pattern, float] = dataclasses.field(default_factory=dict)


def classify(maps: Sequence[AttentionMaps]) -> list[Head]:
    """Return the kind of each head, over all queries of all texts. Texts of one token are left out.

    Args:
        maps: maps of each text, reduced to statistics, with the same heads. If special tokens were
            dropped, n of the spread counts the other tokens.

    Raises:
        InvalidInput: the maps hold no statistics, or no text has two tokens.
    """
    maps = [each for each in maps if len(each.keys.tokens) > 1]
    if not maps:
        raise InvalidInput("texts", Reason.ONE_TOKEN_EACH)
    if any(set(each.statistics) != set(STATISTICS) for each in maps):
        raise InvalidInput("maps", Reason.NO_STATISTICS)
    names = maps[0].statistics
    values = np.stack([each.values.reshape(-1, len(names)) for each in maps]).astype(np.float64)
    queries = np.array([_queries(each) for each in maps], dtype=np.float64)  # [texts, statistics]
    lengths = np.log([len(each.keys.tokens) for each in maps])
    entropy = names.index("entropy")
    means = _mean(values, queries[:, None])
    spreads = _mean(values[..., entropy] / lengths[:, None], queries[:, entropy, None])
    which = maps[0].layers, maps[0].heads
    places = zip(*which, strict=True) if maps[0].axes[0] == "pair" else itertools.product(*which)
    statistics = [dict(zip(names, row, strict=True)) for row in means.tolist()]
    return [
        Head(layer, head, *called(its, spread), spread, its)
        for (layer, head), its, spread in zip(places, statistics, spreads.tolist(), strict=True)
    ]


def called(statistics: Mapping[str, float], spread: float) -> tuple[Kind, float]:
    """Return the kind of a head and the deciding share; see `Head`.

    A share of NaN never decides.
    """
    if spread >= UNIFORM:
        return "uniform", spread
    shares = {
        kind: statistics[name] for kind, name in DECIDES.items() if not math.isnan(statistics[name])
    }
    kind = max(shares, key=shares.__getitem__)
    return kind if shares[kind] >= CALLED else "other", shares[kind]


def spread_of(weights: Doubles) -> float:
    """Return the spread of one whole map [n, n], see `Head.spread`; 0 for one token."""
    entropy = abs((weights * np.log(np.maximum(weights, 1e-30))).sum(axis=-1).mean())
    return float(entropy / max(np.log(len(weights)), 1e-30))


def with_patterns(
    head: Head, shares: Mapping[Pattern, float], base_rates: Mapping[Pattern, float]
) -> Head:
    """Return a head with its shares of patterns, and renamed if one of them describes it.

    A pattern needs CALLED of the weight and ABOVE_BASE times its base rate. The largest such share
    decides; the first of PATTERNS wins a tie. A head by position (FIXED) or a uniform one keeps its
    kind. A delimiter head keeps it unless a pattern has a larger share: its heads attend to
    [SEP] from the queries that have nothing else to attend to (Clark et al. 2019, 3.2).

    Args:
        head: as `classify` returns it.
        shares: of the head, by pattern; NaN never decides.
        base_rates: the shares under uniform attention.
    """
    replaced = dataclasses.replace(head, patterns=dict(shares))
    fitting = {
        name: shares[name]
        for name in PATTERNS
        if name in shares and shares[name] >= max(CALLED, ABOVE_BASE * base_rates[name])
    }
    if not fitting or head.kind in (*FIXED, "uniform"):
        return replaced
    best = max(fitting, key=fitting.__getitem__)
    if head.kind == "delimiter" and fitting[best] <= head.share:
        return replaced
    return dataclasses.replace(replaced, kind=best, share=fitting[best])


def _queries(maps: AttentionMaps) -> list[int]:
    """Return the number of queries in the mean of each statistic of one text.

    "previous" and "next" count only the queries whose previous or next token is among the keys.
    """
    rows, keys = (
        np.array([unit[0] for unit in units.tokens]) for units in (maps.queries, maps.keys)
    )
    has = {
        "previous": int(np.isin(rows - 1, keys).sum()),
        "next": int(np.isin(rows + 1, keys).sum()),
    }
    return [has.get(name, len(rows)) for name in maps.statistics]


def _mean(values: Doubles, weights: Doubles) -> Doubles:
    """Return the weighted mean over the first axis, ignoring NaN; NaN if all values are NaN."""
    known = np.ma.masked_invalid(values)
    mean = np.ma.average(known, axis=0, weights=np.broadcast_to(weights, values.shape))
    return np.ma.filled(mean, np.nan)


def strongest(maps: AttentionMaps, labels: Sequence[str], text: int = 0) -> list[Link | None]:
    """Return the strongest link of each head in one text.

    It is between two ordinary (not special) tokens, or from a token to itself if those links are
    weaker than FAINT.

    Args:
        maps: weights of single tokens: all, or the largest of each row. Two more than there are
            special tokens are enough.
        labels: labels of the text's tokens.
        text: index of the text, for the links.

    Returns:
        A link for each head, in order; None if there are no ordinary tokens.
    """
    queries, keys = (
        np.array([unit[0] for unit in units.tokens]) for units in (maps.queries, maps.keys)
    )
    weights = maps.weights.reshape(-1, *maps.values.shape[-2:])
    places: NDArray[Any] = (
        np.arange(len(keys)) if maps.indices is None else maps.indices.reshape(weights.shape)
    )
    special = np.array(maps.tokens.special)
    links: list[Link | None] = []
    for rows, at in zip(weights, np.broadcast_to(keys[places], weights.shape), strict=True):
        ordinary, itself = ~(special[queries][:, None] | special[at]), at == queries[:, None]
        best: Link | None = None
        for among in (ordinary & ~itself, ordinary & itself):
            if among.any():
                row, column = divmod(int(np.where(among, rows, -1).argmax()), rows.shape[1])
                query, key = int(queries[row]), int(at[row, column])
                link = Link(float(rows[row, column]), text, query, key, labels[query], labels[key])
                best = stronger(best, link)
        links.append(best)
    return links


def stronger(held: Link | None, new: Link | None) -> Link | None:
    """Return the stronger of two links; the first wins a tie.

    A link of a token with itself wins only if the other link is weaker than FAINT.
    """
    if held is None or new is None:
        return held or new
    return max(
        held, new, key=lambda link: (link.query != link.key and link.weight >= FAINT, link.weight)
    )
