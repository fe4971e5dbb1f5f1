"""The lab's sequences: every question has exactly one answer."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lab.tasks import (
    FIRST,
    IGNORED,
    KEYS,
    LETTERS,
    TASKS,
    Examples,
    baselines,
    floor,
    keys_of,
)

lengths, seeds = st.integers(8, 200), st.integers(0, 1 << 30)


def examples(task: str, length: int, seed: int) -> Examples:
    return TASKS[task].make(4, length, torch.Generator().manual_seed(seed))


@given(lengths, seeds)
def test_reversal_asks_for_the_mirrored_symbol(length: int, seed: int) -> None:
    made = examples("reverse", length, seed)
    assert made.ids.shape == (4, length)
    assert made.targets["reverse"].tolist() == [row[::-1] for row in made.ids.tolist()]


@given(lengths, seeds)
def test_end_marks_ask_nothing(length: int, seed: int) -> None:
    made = examples("reverse marked", length, seed)
    begin, end = FIRST + len(LETTERS), FIRST + len(LETTERS) + 1
    for ids, wanted in zip(made.ids.tolist(), made.targets["reverse"].tolist(), strict=True):
        assert (ids[0], ids[-1], wanted[0], wanted[-1]) == (begin, end, IGNORED, IGNORED)
        assert wanted[1:-1] == ids[1:-1][::-1]
        assert not {begin, end} & set(ids[1:-1])


@given(lengths, seeds)
def test_a_query_key_occurs_once_before_with_its_answer(length: int, seed: int) -> None:
    made = examples("recall", length, seed)
    assert made.away is not None
    for ids, wanted, away in zip(
        made.ids.tolist(), made.targets["recall"].tolist(), made.away.tolist(), strict=True
    ):
        asking = [place for place, each in enumerate(wanted) if each != IGNORED]
        assert len(asking) == keys_of(length) == min(len(KEYS), length // 8)
        for place in asking:
            first = ids.index(ids[place])
            assert first < length // 2 <= place
            assert ids.count(ids[place]) == 2
            assert ids[place] >= FIRST + len(LETTERS) > wanted[place] == ids[first + 1]
            assert away[place] == place - (first + 1)


@given(lengths, seeds)
def test_only_letters_ask_for_their_left_neighbour(length: int, seed: int) -> None:
    made = examples("recall", length, seed)
    for ids, wanted in zip(made.ids.tolist(), made.targets["left"].tolist(), strict=True):
        assert wanted[0] == IGNORED
        for place in range(1, length):
            assert wanted[place] == (
                ids[place - 1] if ids[place] < FIRST + len(LETTERS) else IGNORED
            )


@pytest.mark.parametrize("task", TASKS)
def test_a_task_reads_its_own_sequences_as_text(task: str) -> None:
    tokenizer = Tokenizer.from_str(TASKS[task].tokenizer_json())
    between = "" if TASKS[task].characters else " "
    symbols = TASKS[task].symbols
    assert tokenizer.encode(between.join(symbols)).ids == list(range(FIRST, TASKS[task].vocabulary))
    assert tokenizer.encode("é").ids == [1], "no symbol"
    assert json.loads(TASKS[task].tokenizer_json())["model"]["unk_token"] == "[UNK]"


@pytest.mark.parametrize("length", [2, 16, 64])
def test_guessing_from_the_other_tokens_matches_the_formula(length: int) -> None:
    """E[n_t / n] of n symbols, each of V alike: 1/n + (1 - 1/n) / V; n = S - 1."""
    made, others = TASKS["reverse"].make(4000, length, torch.Generator().manual_seed(0)), length - 1
    found = baselines(made)
    assert found["chance"] == 1 / len(LETTERS)
    assert found["multiset"] == pytest.approx(
        1 / others + (1 - 1 / others) / len(LETTERS), abs=0.002
    )
    assert found["multiset"] <= found["most frequent"] <= 1


def test_baselines_of_a_sequence_counted_by_hand() -> None:
    a, b, c, d = range(FIRST, FIRST + 4)
    ids = torch.tensor([[a, b, b, c, d, a]])
    found = baselines(Examples(ids, {"reverse": ids.flip(1)}))
    assert found["multiset"] == pytest.approx((1 + 1 + 1 + 2 + 2 + 1) / 5 / 6)
    # Most frequent other token (lowest id for ties): b, a, a, a, a, b; targets: a, d, c, b,
    # b, a.
    assert found["most frequent"] == 0


def test_a_floor_is_that_of_the_most_frequent_token() -> None:
    left = torch.tensor([[IGNORED, 2, 3, 2]])
    assert floor(Examples(torch.tensor([[2, 3, 2, 2]]), {"left": left}), "left") == pytest.approx(
        2 / 3
    )
