from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from headlight.analysis.head_kinds import (
    ABOVE_BASE,
    CALLED,
    FAINT,
    UNIFORM,
    Head,
    Kind,
    Pattern,
    called,
    classify,
    strongest,
    with_patterns,
)
from headlight.errors import InvalidInput
from headlight.results import AttentionMaps, Floats, ModelRef, TokenList, Units
from headlight.spec import STATISTICS
from tests.attention_reference import Text, statistics

REF = ModelRef("m", "1", "ab", "cpu", "fp32")
EVEN_SHARES = dict.fromkeys(STATISTICS, 0.1)


def tokens(count: int, special: tuple[int, ...] = (0, -1)) -> TokenList:
    marked = np.isin(np.arange(count), np.array(special, int) % count)
    none = (0,) * count
    return TokenList(
        none, tuple(f"t{at}" for at in range(count)), none, none, tuple(marked.tolist()), none
    )


def units(count: int) -> Units:
    return Units(tuple((at,) for at in range(count)))


def reduced(
    *heads: Floats, special: tuple[int, ...] = (0, -1), known: bool = True
) -> AttentionMaps:
    """Return one layer of whole maps [n, n] as the statistics that the service would send."""
    count = len(heads[0])
    names = tokens(count, special)
    text = Text(np.stack(heads), np.stack(heads), names.special, (), (), (), "mean")
    values = np.array(
        [statistics(head.astype(np.float64), [[at] for at in range(count)], text) for head in heads]
    )
    if not known:
        values[:, STATISTICS.index("special")] = np.nan
    places = units(count)
    return AttentionMaps(
        values[None].astype(np.float32),
        ("layer", "head", "statistic"),
        (4,),
        tuple(range(len(heads))),
        places,
        places,
        names,
        REF,
        statistics=STATISTICS,
    )


def toward(step: int, count: int = 8) -> Floats:
    """Return a map in which each token attends to one at a distance, or else to itself."""
    weights = np.eye(count, k=step, dtype=np.float32)
    weights[weights.sum(1) == 0] = np.eye(count, dtype=np.float32)[weights.sum(1) == 0]
    return weights


def at_token(key: int, count: int = 8) -> Floats:
    weights = np.zeros((count, count), np.float32)
    weights[:, key] = 1
    return weights


def even(count: int = 8) -> Floats:
    return np.full((count, count), 1 / count, np.float32)


def whole(*heads: Floats, special: tuple[int, ...] = (0, -1)) -> AttentionMaps:
    count = len(heads[0])
    places = units(count)
    axes = ("layer", "head", "query", "key")
    numbers = tuple(range(len(heads)))
    return AttentionMaps(
        np.stack(heads)[None], axes, (4,), numbers, places, places, tokens(count, special), REF
    )


def largest(maps: AttentionMaps, count: int) -> AttentionMaps:
    """Return the same with only the largest weights of each row."""
    indices = np.argsort(-maps.values, axis=-1, kind="stable")[..., :count]
    values = np.take_along_axis(maps.values, indices, axis=-1)
    axes = ("layer", "head", "query", "top")
    return AttentionMaps(
        values,
        axes,
        maps.layers,
        maps.heads,
        maps.queries,
        maps.keys,
        maps.tokens,
        REF,
        indices.astype(np.uint16),
    )


def test_every_head_kind_is_named() -> None:
    heads = classify([reduced(toward(0), toward(-1), toward(1), at_token(0), even(), toward(3))])
    assert [(head.layer, head.head) for head in heads] == [(4, at) for at in range(6)]
    assert [head.kind for head in heads] == [
        "self",
        "previous",
        "next",
        "delimiter",
        "uniform",
        "other",
    ]
    assert [head.share for head in heads] == pytest.approx([1, 1, 1, 1, 1, 3 / 8])
    assert [head.spread for head in heads] == pytest.approx([0, 0, 0, 0, 1, 0], abs=1e-6)
    assert heads[1].statistics["distance"] == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    ("kind", "name"), [("self", "self"), ("previous", "previous"), ("next", "next")]
)
def test_a_kind_needs_at_least_half_of_the_weight(kind: str, name: str) -> None:
    assert called({**EVEN_SHARES, name: CALLED}, 0.5) == (kind, CALLED)
    under = math.nextafter(CALLED, 0)
    assert called({**EVEN_SHARES, name: under}, 0.5) == ("other", under)


def test_the_largest_share_decides_and_position_breaks_ties() -> None:
    assert called({**EVEN_SHARES, "special": 0.6, "previous": 0.7}, 0.5) == ("previous", 0.7)
    assert called({**EVEN_SHARES, "special": 0.7, "previous": 0.6}, 0.5) == ("delimiter", 0.7)
    assert called({**EVEN_SHARES, "special": 0.6, "next": 0.6}, 0.5) == ("next", 0.6)


def test_an_even_head_is_uniform_regardless_of_shares_in_short_texts() -> None:
    assert called({**EVEN_SHARES, "special": 2 / 3}, UNIFORM) == ("uniform", UNIFORM)
    assert called({**EVEN_SHARES, "special": 2 / 3}, math.nextafter(UNIFORM, 0)) == (
        "delimiter",
        2 / 3,
    )


def test_texts_are_weighted_by_their_number_of_queries() -> None:
    """As if all queries were in one long text: of n tokens, n - 1 have one before them."""
    long, short = reduced(toward(-1, 10)), reduced(at_token(0, 3))
    [head] = classify([long, short])
    # In the short text, one of two.
    assert head.statistics["previous"] == pytest.approx((9 * 1 + 2 * 0.5) / 11)
    assert head.statistics["self"] == pytest.approx((10 * 0.1 + 3 / 3) / 13)
    assert head.statistics["special"] == pytest.approx((2 * 1 + 3 * 1) / 13)
    assert head.statistics["largest"] == pytest.approx(1)


def test_entropy_is_relative_to_the_length_of_each_text() -> None:
    [head] = classify([reduced(even(64)), reduced(even(4))])
    assert head.kind == "uniform"
    assert head.spread == pytest.approx(1)
    [head] = classify([reduced(even(30)), reduced(toward(-1, 10))])
    assert head.spread == pytest.approx(30 / 40)


def test_dropped_special_tokens_do_not_count() -> None:
    """Of five tokens the three between the first and the last remain.

    An even row of them has the entropy ln 3.
    """
    inner, names = [1, 2, 3], tokens(5)
    places = Units(tuple((at,) for at in inner))
    map_ = np.zeros((5, 5))
    map_[1:4, 1:4] = 1 / 3
    text = Text(map_, map_, names.special, (), (), (), "mean")
    row = statistics(map_, [[at] for at in inner], text, drop_special=True)
    values = np.array([[row]], np.float32)
    axes = ("layer", "head", "statistic")
    maps = AttentionMaps(
        values, axes, (0,), (0,), places, places, names, REF, statistics=STATISTICS
    )
    [head] = classify([maps])
    assert head.kind == "uniform"
    assert head.spread == pytest.approx(1)
    assert head.statistics["next"] == pytest.approx(1 / 3)  # of the two that have one behind them
    one = dataclasses.replace(maps, queries=units(1), keys=units(1))
    with pytest.raises(InvalidInput, match="two tokens"):
        classify([one])


def test_special_tokens_of_id_inputs_are_unknown() -> None:
    [head] = classify([reduced(at_token(0), known=False)])
    assert head.kind == "other"
    assert math.isnan(head.statistics["special"])
    [head] = classify([reduced(toward(3), known=False), reduced(at_token(0, 4))])
    assert head.statistics["special"] == pytest.approx(1)  # of the text alone, if it is known


def test_a_text_of_one_token_does_not_count() -> None:
    expected = classify([reduced(toward(-1))])
    assert classify([reduced(even(1)), reduced(toward(-1))]) == expected
    for maps in ([], [reduced(even(1))]):
        with pytest.raises(InvalidInput, match="every text has one token"):
            classify(maps)


def test_maps_without_statistics_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"reduce=\('statistics',\)"):
        classify([whole(even())])


def test_selected_layer_and_head_pairs_keep_their_numbers() -> None:
    maps = reduced(toward(-1), toward(1))
    pairs = AttentionMaps(
        maps.values[0],
        ("pair", "statistic"),
        (2, 0),
        (1, 5),
        maps.queries,
        maps.keys,
        maps.tokens,
        REF,
        statistics=STATISTICS,
    )
    found = classify([pairs])
    assert [(head.layer, head.head, head.kind) for head in found] == [
        (2, 1, "previous"),
        (0, 5, "next"),
    ]


def some_head(count: int = 6) -> Floats:
    weights = np.full((count, count), 0.01, np.float32)
    weights[0, 2] = weights[3, 5] = 0.9  # [CLS] as the query, [SEP] as the key
    weights[2, 2] = 0.8  # itself
    weights[1, 4], weights[4, 1] = 0.3, 0.29
    return weights


@pytest.mark.parametrize("count", [None, 4, 6])
def test_the_strongest_link_is_between_two_ordinary_tokens(count: int | None) -> None:
    """Two special tokens, the token itself, and one more: four weights of each row are enough."""
    maps = whole(some_head())
    [link] = strongest(
        maps if count is None else largest(maps, count), [f"t{at}" for at in range(6)], text=3
    )
    assert link is not None
    assert (link.text, link.query, link.key, link.query_label, link.key_label) == (
        3,
        1,
        4,
        "t1",
        "t4",
    )
    assert link.weight == pytest.approx(0.3)


def test_links_name_the_right_tokens_of_partial_maps() -> None:
    maps, ordinary = whole(some_head()), Units(((1,), (2,), (3,), (4,)))
    inner = dataclasses.replace(
        maps, values=maps.values[..., 1:5, 1:5], queries=ordinary, keys=ordinary
    )
    expected = strongest(maps, ["x"] * 6)
    assert strongest(inner, ["x"] * 6) == expected
    assert strongest(largest(inner, 2), ["x"] * 6) == expected


def test_a_head_that_attends_to_the_same_token_links_to_it() -> None:
    for other, expected in ((FAINT / 2, (2, 2)), (FAINT * 1.01, (1, 2))):
        weights = np.eye(5, dtype=np.float32) * 0.5
        weights[2, 2], weights[1, 2] = 0.7, other
        [link] = strongest(whole(weights), ["x"] * 5)
        assert link is not None
        assert (link.query, link.key) == expected


def test_a_single_ordinary_token_links_to_itself() -> None:
    [link] = strongest(whole(even(3)), ["[CLS]", "a", "[SEP]"])
    assert link is not None
    assert (link.query_label, link.key_label) == ("a", "a")
    assert strongest(whole(even(2)), ["[CLS]", "[SEP]"]) == [None]


def head_of(kind: Kind, share: float) -> Head:
    return Head(0, 0, kind, share, 0.5, EVEN_SHARES)


@pytest.mark.parametrize(
    ("kind", "share", "shares", "expected"),
    [
        ("other", 0.2, {"bracket": CALLED}, "bracket"),
        ("other", 0.2, {"bracket": math.nextafter(CALLED, 0)}, "other"),
        ("other", 0.2, {"bracket": 0.6, "same": 0.7}, "same"),
        ("other", 0.2, {"rare": 0.7, "punctuation": 0.7}, "punctuation"),  # the first of PATTERNS
        ("other", 0.2, {"bracket": math.nan}, "other"),
        ("delimiter", 0.6, {"bracket": 0.6}, "delimiter"),
        ("delimiter", 0.6, {"bracket": 0.61}, "bracket"),
        ("previous", 0.5, {"bracket": 1.0}, "previous"),
        ("self", 0.5, {"rare": 1.0}, "self"),
        ("next", 0.5, {"same": 1.0}, "next"),
        ("uniform", 0.95, {"same": 1.0}, "uniform"),
    ],
)
def test_a_pattern_names_heads_without_a_position(
    kind: Kind, share: float, shares: dict[Pattern, float], expected: Kind
) -> None:
    found = with_patterns(head_of(kind, share), shares, dict.fromkeys(shares, 0.1))
    assert found.kind == expected
    assert found.share == (max(shares.values()) if found.kind in shares else share)
    assert found.patterns == pytest.approx(shares, nan_ok=True)


def test_a_pattern_must_be_well_above_its_base_rate() -> None:
    limit = 0.7 / ABOVE_BASE
    for rate, expected in ((limit, "punctuation"), (math.nextafter(limit, 1), "other")):
        found = with_patterns(head_of("other", 0.2), {"punctuation": 0.7}, {"punctuation": rate})
        assert found.kind == expected
