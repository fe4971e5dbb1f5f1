from __future__ import annotations

from array import array

import numpy as np

from headlight.runtime.values import Tokenized
from headlight_service.core.tokenization_job import SPECIAL, Density
from headlight_service.frontends.grpc.request_decoding import EncodeInput, Pair, TokenIds, TokenizeJob

LONGEST = 100


def job(*inputs: EncodeInput, prompt: str = "") -> TokenizeJob:
    return TokenizeJob(list(inputs), with_info=False, max_tokens=10**6, prompt=prompt)


def of_length(length: int, kept: int | None = None) -> Tokenized:
    return Tokenized(np.zeros(length if kept is None else kept, dtype=np.int64), length, None)


def ids(length: int) -> TokenIds:
    return TokenIds(array("q", [1] * length), array("i"))


def test_at_first_texts_seem_to_have_no_tokens_and_ids_are_counted() -> None:
    assert Density().tokens(job("a text"), LONGEST) == 0
    assert Density().tokens(job(ids(7)), LONGEST) == 7


def test_tokens_are_as_dense_as_in_the_texts_before() -> None:
    density = Density()
    density.learn(job("x" * 40, prompt="p" * 10), [of_length(10 + SPECIAL)])  # 0.2 a character
    assert density.tokens(job("y" * 100, Pair("z" * 20, "z" * 30)), LONGEST) == 30 + 2 * SPECIAL
    assert density.tokens(job("y" * 20, "y" * 20, prompt="p" * 30), LONGEST) == 20 + 2 * SPECIAL


def test_a_text_has_no_more_tokens_than_the_model_takes() -> None:
    density = Density()
    # What was cut away counts, or long texts would seem thin.
    density.learn(job("x" * 1000), [of_length(500 + SPECIAL, kept=LONGEST)])
    assert density.tokens(job("y" * 100), LONGEST) == 50 + SPECIAL
    assert density.tokens(job("y" * 1000, "y" * 1000), LONGEST) == 2 * LONGEST


def test_ids_say_nothing_of_texts() -> None:
    density = Density()
    density.learn(job(ids(50)), [of_length(50)])
    assert density.tokens(job("a text"), LONGEST) == 0
    density.learn(job("x" * 100, ids(500)), [of_length(10 + SPECIAL), of_length(500)])
    assert density.tokens(job("y" * 100, ids(9)), LONGEST) == 10 + SPECIAL + 9


def test_a_caller_who_has_left_says_nothing() -> None:
    density = Density()
    density.learn(job("left before anything was read"), [])
    assert density.tokens(job("a text"), LONGEST) == 0


def test_short_texts_which_are_special_tokens_for_the_most_part_do_not_make_long_ones_seem_dense() -> None:
    density = Density()
    density.learn(job("a", "b", "map keys"), [of_length(1 + SPECIAL), of_length(1 + SPECIAL), of_length(2 + SPECIAL)])
    assert density.tokens(job("y" * 100), LONGEST) == 40 + SPECIAL


def test_what_texts_are_like_changes() -> None:
    density = Density()
    for tokens in [50] * 10 + [10] * 300:
        density.learn(job("x" * 100), [of_length(tokens + SPECIAL)])
    assert density.tokens(job("y" * 100), LONGEST) == 10 + SPECIAL
