from __future__ import annotations

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.analysis.head_kinds import PATTERNS
from headlight.analysis.token_patterns import (
    PatternShares,
    bracket_pairs,
    is_punctuation,
    pattern_keys,
    rare_ids,
)
from headlight.results import Floats, TokenList

PAIRS = {"()", "[]", "{}"}
WORDS = ("a", "b", "self", "(", ")", "[", "]", ",")


def tokens_of(words: list[str], special: tuple[int, ...] = (0, -1)) -> TokenList:
    """Return tokens whose ids are those of equal words, with special tokens at these places."""
    marked = np.isin(np.arange(len(words)), np.array(special, int) % max(1, len(words)))
    ids = tuple(sorted(set(words)).index(word) + 5 for word in words)
    none = (0,) * len(words)
    return TokenList(ids, tuple(words), none, none, tuple(marked.tolist()), none)


def measured(words: list[str], *heads: Floats) -> PatternShares:
    tokens = tokens_of(words)
    found = PatternShares([tokens])
    found.add(np.stack(heads), tokens, list(tokens.ids))
    return found


def balanced(text: str) -> bool:
    """Return whether all brackets of a text match: remove adjacent pairs until none is left."""
    marks = "".join(mark for mark in text if mark in "()[]{}")
    while True:
        fewer = re.sub(r"\(\)|\[\]|\{\}", "", marks)
        if fewer == marks:
            return not marks
        marks = fewer


@given(st.text(alphabet="()[]{}a", max_size=24))
def test_brackets_match_if_all_between_them_match(text: str) -> None:
    expected = {
        (begin, end)
        for end in range(len(text))
        for begin in range(end)
        if text[begin] + text[end] in PAIRS and balanced(text[begin + 1 : end])
    }
    found = list(bracket_pairs(list(text)))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_token_of_several_brackets_has_several_partners() -> None:
    assert set(bracket_pairs(["f(", "a", "[(", "b", ")]", ")"])) == {(0, 5), (2, 4)}
    assert set(bracket_pairs(["f", "()", "(", ")):", "x"])) == {(2, 3)}


def test_special_tokens_and_other_texts_have_no_patterns() -> None:
    """The first and last tokens look like brackets, but are special."""
    keys = pattern_keys(tokens_of(["(", "a", ")"]), ["(", "a", ")"], frozenset({5, 6, 7}))
    assert not keys["bracket"].any()
    assert not keys["same"].any()
    assert np.argwhere(keys["rare"]).tolist() == [[1, 1]]


def test_punctuation_includes_operators_and_other_scripts() -> None:
    marks = [*string.punctuation, "...", "==", ' "', "。", "«", "−"]
    assert list(filter(is_punctuation, marks)) == marks
    assert list(filter(is_punctuation, ["", " ", "a", "1", "a.", "_x", "日", "\n"])) == []


def test_rare_ids_are_the_least_frequent_tenth() -> None:
    """Of 40 tokens one id has 30, one 6, one 3 and one 1: the last two are a tenth."""
    words = ["often"] * 30 + ["some"] * 6 + ["few"] * 3 + ["once"]
    tokens = tokens_of(words, special=())
    names = dict(zip(tokens.ids, words, strict=True))
    assert {names[each] for each in rare_ids([tokens])} == {"few", "once"}
    halves = [tokens_of(words[:20], ()), tokens_of(words[20:], ())]
    assert rare_ids(halves[:1]) == frozenset(halves[0].ids)  # all have the same count
    assert rare_ids([]) == frozenset()


def test_special_tokens_do_not_count_as_rare() -> None:
    tokens = tokens_of(["[CLS]", *["a"] * 9, "b", "[SEP]"])
    assert rare_ids([tokens]) == frozenset({tokens.ids[10]})


@given(st.data())
def test_shares_are_from_0_to_1_and_uniform_attention_has_the_base_rate(
    data: st.DataObject,
) -> None:
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=12), label="words")
    count = len(words)
    raw = np.random.default_rng(data.draw(st.integers(0, 99))).random((count, count)) ** 8 + 1e-6
    weights = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    found = measured(words, weights, np.full((count, count), 1 / count, np.float32))
    for place, name in enumerate(PATTERNS):
        share, uniform = found.shares[:, place]
        pattern = found.patterns[name]
        assert np.isnan(share) == np.isnan(pattern.base_rate) == (pattern.queries == 0)
        if pattern.queries:
            assert 0 <= share <= 1 + 1e-5
            assert uniform == pytest.approx(pattern.base_rate, abs=1e-6)
            assert pattern.queries <= count


def test_a_head_made_by_hand_has_its_whole_weight_on_its_pattern() -> None:
    words = ["[CLS]", "f", "(", "x", "[", "x", "]", ")", "f", "f", "x", "[SEP]"]
    partners = {"same": {1: 8, 8: 9, 9: 1, 3: 5, 5: 10, 10: 3}, "bracket": {2: 7, 7: 2, 4: 6, 6: 4}}
    partners["punctuation"] = dict.fromkeys(range(1, 11), 7)
    heads = []
    for links in partners.values():
        weights = np.zeros((12, 12), np.float32)
        weights[:, 0] = 1  # a query without the pattern attends to [CLS]
        for query, key in links.items():
            weights[query] = np.eye(12)[key]
        heads.append(weights)
    found = measured(words, *heads)
    assert found.shares[:, :3].diagonal().tolist() == [1, 1, 1]
    assert {name: each.queries for name, each in found.patterns.items()} == {
        "same": 6,
        "bracket": 4,
        "punctuation": 10,
        "rare": 10,
    }
    assert found.patterns["bracket"].base_rate == pytest.approx(1 / 12)
    assert found.patterns["same"].base_rate == pytest.approx(2 / 12)


def test_a_text_of_one_token_does_not_count() -> None:
    tokens = tokens_of(["a"], special=())
    found = PatternShares([tokens])
    found.add(np.ones((2, 1, 1), np.float32), tokens, [5])
    assert np.isnan(found.shares).all()
    assert found.shares.shape == (2, 4)
